package security

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	jose "github.com/go-jose/go-jose/v4"
	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/apipb"
)

// openStreams opens streams whose tokens soon expire. Each attempt continues to
// read one stream. The server must end the stream, and give a reason, before
// the reader's timeout.
func (s *scene) openStreams() func() []attempt {
	t := s.t
	brief := func() string { // long enough to open a few streams with on a busy machine
		return sign(t, s.key, jose.RS256, s.claims(map[string]any{"exp": time.Now().Add(20 * time.Second).Unix()}))
	}
	service := s.token(t, "streamer", "red", "viewer", 3600)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	t.Cleanup(cancel)
	type ended struct {
		text string
		err  error
	}
	ends := map[string]chan ended{}
	watch := func(name string, read func() (string, error)) {
		ends[name] = make(chan ended, 1)
		go func() {
			text, err := read()
			ends[name] <- ended{text, err}
		}()
	}
	for name, token := range map[string]string{"an expired OpenID token": brief(), "a revoked service token": service} {
		watch("gRPC events with "+name, s.grpcEvents(ctx, token))
		watch("server-sent events with "+name, s.sentEvents(ctx, token))
		watch("a WebSocket with "+name, s.socket(ctx, token))
	}
	s.do(t, http.MethodDelete, "/api/v1/tenants/red/tokens/streamer", "")
	return func() []attempt {
		var out []attempt
		for name, end := range ends {
			out = append(out, attempt{name: name, unheard: true, try: func(ctx context.Context, _ names, _ string) (result, error) {
				select {
				case <-ctx.Done():
					return result{}, ctx.Err()
				case got := <-end:
					why := got.text
					if got.err != nil {
						why += got.err.Error()
					}
					cut := !errors.Is(got.err, context.DeadlineExceeded) && !strings.Contains(why, "DeadlineExceeded")
					return result{code: "ended", refused: cut && strings.Contains(why, "token"), text: why}, nil
				}
			}})
		}
		return out
	}
}

func (s *scene) grpcEvents(ctx context.Context, token string) func() (string, error) {
	s.t.Helper()
	stream, err := apipb.NewClusterServiceClient(s.dial(s.t)).WatchEvents(metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token), &apipb.WatchEventsRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	return func() (string, error) {
		for {
			if _, err := stream.Recv(); err != nil {
				return "", err
			}
		}
	}
}

func (s *scene) sentEvents(ctx context.Context, token string) func() (string, error) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.http+"/api/v1/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := (&http.Client{Transport: s.web.Transport}).Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.t.Fatal(err, resp)
	}
	return func() (string, error) {
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return string(data), err
	}
}

func (s *scene) socket(ctx context.Context, token string) func() (string, error) {
	s.t.Helper()
	conn, _, err := websocket.Dial(ctx, "wss://"+s.http+"/api/v1/events", &websocket.DialOptions{HTTPClient: &http.Client{Transport: s.web.Transport}, Subprotocols: []string{"ares.v1", "ares.bearer." + token}})
	if err != nil {
		s.t.Fatal(err)
	}
	return func() (string, error) {
		defer func() { _ = conn.CloseNow() }()
		for all := ""; ; { // the reason is the last message, and in the close frame if that arrives
			_, data, err := conn.Read(ctx)
			if all += string(data); err != nil {
				return all, err
			}
		}
	}
}

// TestHostileStreams lets two tenants hold as many idle event streams as they can get, with many tokens each. A third tenant and
// the administrators must still get theirs, and revoking the tokens must free the streams at once.
func TestHostileStreams(t *testing.T) {
	t.Parallel()
	s := newScene(t, "limits: {event_streams: 24}\n")
	s.do(t, http.MethodPost, "/api/v1/tenants", `{"id":"green","name":"green"}`)
	green := s.token(t, "leaf", "green", "viewer", 3600)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	var open []*http.Response
	hold := func(token string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.http+"/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := (&http.Client{Transport: s.web.Transport}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode == http.StatusOK {
			open = append(open, resp)
		} else {
			_ = resp.Body.Close()
		}
		return resp.StatusCode
	}
	got := map[string]int{}
	for _, tenant := range []string{"red", "blue"} {
		for i := range 4 {
			token := s.token(t, fmt.Sprint("extra", i), tenant, "viewer", 3600)
			for range 8 {
				if hold(token) == http.StatusOK {
					got[tenant]++
				}
			}
		}
	}
	if got["red"] < 8 || got["blue"] < 4 || got["red"]+got["blue"] > 18 {
		t.Errorf("the hostile tenants hold %v of 24 streams", got)
	}
	for name, token := range map[string]string{"the third tenant": green, "the administrator": s.admin} {
		for i := range 2 {
			if code := hold(token); code != http.StatusOK {
				t.Errorf("stream %d of %s is refused with %d", i, name, code)
			}
		}
	}
	for _, tenant := range []string{"red", "blue"} {
		for i := range 4 {
			s.do(t, http.MethodDelete, fmt.Sprintf("/api/v1/tenants/%s/tokens/extra%d", tenant, i), "")
		}
	}
	begun := time.Now()
	for i, resp := range open {
		if i < got["red"]+got["blue"] {
			_, _ = io.Copy(io.Discard, resp.Body) // ends when the server ends the stream
		}
		_ = resp.Body.Close()
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the streams of revoked tokens ended after %s", took)
	}
}
