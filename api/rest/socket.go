package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// The WebSocket subprotocols. A browser cannot set headers on a WebSocket
// request, so it sends its token as a second subprotocol.
const (
	SocketProtocol = "ares.v1"
	BearerProtocol = "ares.bearer."
)

// The function `offered` lists the subprotocols that a WebSocket request offers.
func offered(r *http.Request) []string {
	var out []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(p))
		}
	}
	return out
}

// socketToken returns the token among the subprotocols that a request offers, or "" if there is
// none.
func socketToken(r *http.Request) string {
	for _, p := range offered(r) {
		if token, ok := strings.CutPrefix(p, BearerProtocol); ok {
			return token
		}
	}
	return ""
}

// serveSocket sends the event stream over a WebSocket. The Host and Origin
// headers have already been checked.
func (d *Handler) serveSocket(w http.ResponseWriter, r *http.Request) {
	out := &SocketReader{W: w, R: r}
	// After the upgrade to a WebSocket, the context of the HTTP request is no
	// longer meaningful.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	out.Left = cancel
	err := d.Stream(ctx, apipb.ClusterService_WatchEvents_FullMethodName, func(ctx context.Context) error {
		req, err := d.eventsRequest(ctx, r)
		if err != nil {
			return err
		}
		out.Ctx = ctx
		return d.Watch(ctx, req, out)
	})
	switch {
	case out.conn != nil:
		out.End(err)
	case !out.tried:
		d.fail(w, err)
	}
}

// SocketReader sends events to a WebSocket client as text messages.
type SocketReader struct {
	W     http.ResponseWriter
	R     *http.Request
	Ctx   context.Context
	Left  context.CancelFunc
	tried bool
	conn  *websocket.Conn
	quiet chan struct{} // closed when reading has ended
	spoke bool          // the client sent something; valid once quiet is closed
}

func (s *SocketReader) Begin(int64) error {
	s.tried = true // from here on, the WebSocket handshake sends the answer
	protocols := []string{SocketProtocol}
	if all := offered(s.R); len(all) > 0 && !slices.Contains(all, SocketProtocol) {
		protocols = all[:1] // a browser fails unless the server selects one of its subprotocols
	}
	conn, err := websocket.Accept(s.W, s.R, &websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true})
	if err != nil {
		return ares.Errorf(ares.Invalid, "the WebSocket handshake: %s", err)
	}
	s.conn = conn
	// The server expects no messages from the client, so this goroutine only waits until the client
	// disconnects. The goroutine does not use the stream's context. The end of that context would
	// close the connection before the final message is sent.
	s.quiet = make(chan struct{})
	go s.listen(context.WithoutCancel(s.Ctx))
	return nil
}

// The method `listen` waits until the client disconnects or sends something. The WebSocket
// library's own CloseRead hangs for 15 s if the client sends something.
func (s *SocketReader) listen(ctx context.Context) {
	defer close(s.quiet)
	defer s.Left()
	_, _, err := s.conn.Read(ctx)
	s.spoke = err == nil
}

// The method `writing` returns a context that limits the time for sending one message. The returned
// context does not end with the stream. The WebSocket library closes the connection when the
// context of a write ends. If the connection were closed, the server could not send the reason for
// the stream's end.
func (s *SocketReader) writing() (_ context.Context, done func(), err error) {
	if s.Ctx.Err() != nil {
		return nil, nil, context.Cause(s.Ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), pipeline.MaxWriteWait)
	stop := context.AfterFunc(s.Ctx, func() { time.AfterFunc(lastWord, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}, nil
}

func (s *SocketReader) Send(e *apipb.WatchEventsResponse, _ bool) error {
	data, err := eventJSON(e, wantsForm(s.R))
	if err != nil {
		return err
	}
	ctx, done, err := s.writing()
	if err != nil {
		return err
	}
	defer done()
	return pipeline.ErrUnread(pipeline.MaxWriteWait, s.conn.Write(ctx, websocket.MessageText, data))
}

func (s *SocketReader) Beat(int64) error {
	ctx, done, err := s.writing()
	if err != nil {
		return err
	}
	defer done()
	return pipeline.ErrUnread(pipeline.MaxWriteWait, s.conn.Ping(ctx))
}

// End tells the client why the stream ended, closes the connection, and waits
// until the reading goroutine has ended.
func (s *SocketReader) End(err error) {
	defer func() { <-s.quiet }()
	select {
	case <-s.quiet:
		if s.spoke {
			err = ares.Errorf(ares.Invalid, "the client must not send messages on a stream of events")
		}
	default:
	}
	code := websocket.StatusNormalClosure
	reason := "the stream has ended"
	if err != nil {
		_, body, failure := pipeline.ErrorAnswer(err)
		switch failure.Code {
		case ares.Unavailable, ares.Exhausted:
			code = websocket.StatusTryAgainLater
		case ares.Internal:
			code = websocket.StatusInternalError
		default:
			code = websocket.StatusPolicyViolation
		}
		reason = failure.Message
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.Ctx), lastWord)
		defer cancel()
		_ = s.conn.Write(ctx, websocket.MessageText, body) // a client that has left does not receive it
	}
	_ = s.conn.Close(code, CloseReason(reason))
}

// CloseReason shortens a reason to fit into a close frame, which holds 123
// bytes.
func CloseReason(s string) string {
	const limit = 120
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
