package api

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/apipb"
)

// TestASocketsLastWord checks that a stream sends the reason for its end in a
// message and in the close frame. The stream must send the reason even if it
// ends just before or during the write of an event.
func TestASocketsLastWord(t *testing.T) {
	why := ares.Errorf(ares.Unauthentic, "this token was revoked")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
		defer cancel(nil)
		s := &rest.SocketReader{W: w, R: r, Ctx: ctx, Left: func() { cancel(nil) }}
		if err := s.Begin(0); err != nil {
			t.Error(err)
			return
		}
		ended := make(chan struct{})
		sent := make(chan struct{})
		go func() {
			defer close(ended)
			<-sent
			cancel(why) // as the pipeline does, while the next event is being sent
		}()
		for n := 0; s.Send(&apipb.WatchEventsResponse{Revision: "1"}, true) == nil; n++ {
			if n == 3 {
				close(sent)
			}
		}
		<-ended
		s.End(why)
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

// TestASocketThatDoesNotAnswer sends the final message of a stream to a
// client that does not read. The server must give up soon, so that enough
// time is left to close the other connections.
func TestASocketThatDoesNotAnswer(t *testing.T) {
	h := newHouse(t)
	h.Heartbeat = time.Millisecond
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(h.server.URL, "http://"))
	must(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n", strings.TrimPrefix(h.server.URL, "http://"), adminToken)
	must(t, err)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	must(t, err)
	const ping = 0x89
	if frame, readErr := in.ReadByte(); resp.StatusCode != http.StatusSwitchingProtocols || frame != ping || readErr != nil {
		t.Fatalf("the socket began with %s, %#x, %v", resp.Status, frame, readErr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // a server has 5 s to close everything
	defer cancel()
	h.Close(ctx) // the server waits for a pong now
	if open, _ := h.Limiters.Events.UnderWay(); ctx.Err() != nil || open != 0 {
		t.Errorf("%d streams are open after closing: %v", open, ctx.Err())
	}
}
