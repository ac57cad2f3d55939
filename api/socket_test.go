package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// TestASocketsLastWord: a stream that ends while an event is being written, or is
// about to be, still tells why, in a message and in the close frame.
func TestASocketsLastWord(t *testing.T) {
	why := ares.Errorf(ares.Unauthentic, "this token was revoked")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
		defer cancel(nil)
		s := &socketReader{w: w, r: r, ctx: ctx, left: func() { cancel(nil) }}
		if err := s.begin(0); err != nil {
			t.Error(err)
			return
		}
		ended := make(chan struct{})
		sent := make(chan struct{})
		go func() {
			defer close(ended)
			<-sent
			cancel(why) // as watchOver does, while the next is on its way
		}()
		for n := 0; s.send(&apipb.WatchEventsResponse{Revision: "1"}, true) == nil; n++ {
			if n == 3 {
				close(sent)
			}
		}
		<-ended
		s.end(why)
	}))
	defer server.Close()
	for range 100 {
		conn, _, err := websocket.Dial(t.Context(), server.URL, nil)
		must(t, err)
		last := ""
		for err == nil {
			var data []byte
			if _, data, err = conn.Read(t.Context()); err == nil {
				last = string(data)
			}
		}
		if websocket.CloseStatus(err) != websocket.StatusPolicyViolation || !strings.Contains(err.Error(), why.Message) || !strings.Contains(last, why.Message) {
			t.Fatalf("it ended with %v, its last word was %s", err, last)
		}
	}
}
