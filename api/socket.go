package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// The WebSocket subprotocols. A browser cannot send headers with a WebSocket,
// so it offers its token as a second protocol.
const (
	socketProtocol = "ares.v1"
	bearerProtocol = "ares.bearer."
)

// upgrades says whether a request asks for a WebSocket.
func upgrades(r *http.Request) bool {
	return r.ProtoMajor == 1 && slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool {
		return strings.EqualFold(strings.TrimSpace(v), "websocket")
	})
}

// offered lists the subprotocols of a WebSocket request.
func offered(r *http.Request) []string {
	var out []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			out = append(out, strings.TrimSpace(p))
		}
	}
	return out
}

// socketToken is the token among the offered subprotocols.
func socketToken(r *http.Request) string {
	for _, p := range offered(r) {
		if token, ok := strings.CutPrefix(p, bearerProtocol); ok {
			return token
		}
	}
	return ""
}

// serveSocket sends the messages of the event stream over a WebSocket. Host
// and Origin have been checked.
func (d *Doors) serveSocket(w http.ResponseWriter, r *http.Request) {
	out := &socketReader{w: w, r: r}
	// After the upgrade the request's own context says nothing any more.
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	out.left = cancel
	err := d.stream(ctx, apipb.ClusterService_WatchEvents_FullMethodName, func(ctx context.Context) error {
		req, err := d.eventsRequest(ctx, r)
		if err != nil {
			return err
		}
		out.ctx = ctx
		return d.watch(ctx, req, out)
	})
	switch {
	case out.conn != nil:
		out.end(err)
	case !out.tried:
		d.fail(w, err)
	}
}

// socketReader writes events as text messages.
type socketReader struct {
	w     http.ResponseWriter
	r     *http.Request
	ctx   context.Context
	left  context.CancelFunc
	tried bool
	conn  *websocket.Conn
	quiet chan struct{} // closed when nothing is read any more
	spoke bool          // the other side sent something; known once quiet
}

func (s *socketReader) begin(int64) error {
	s.tried = true // from here on the handshake answers by itself
	protocols := []string{socketProtocol}
	if all := offered(s.r); len(all) > 0 && !slices.Contains(all, socketProtocol) {
		protocols = all[:1] // a browser fails unless one of its own is chosen
	}
	conn, err := websocket.Accept(s.w, s.r, &websocket.AcceptOptions{Subprotocols: protocols, InsecureSkipVerify: true})
	if err != nil {
		return ares.Errorf(ares.Invalid, "the WebSocket handshake: %s", err)
	}
	s.conn = conn
	// Nothing is expected from the other side but its leaving. The stream's own
	// context would cut the connection before the last word.
	s.quiet = make(chan struct{})
	go s.listen(context.WithoutCancel(s.ctx))
	return nil
}

// listen waits for the other side to leave, or to speak. The library's own
// CloseRead hangs for 15 s when it speaks.
func (s *socketReader) listen(ctx context.Context) {
	defer close(s.quiet)
	defer s.left()
	_, _, err := s.conn.Read(ctx)
	s.spoke = err == nil
}

// writing bounds one message. It does not end with the stream: the library cuts the
// connection when the context of a write ends, and then the reason of the stream's
// end, which may come in the middle of a message, could not be told.
func (s *socketReader) writing() (_ context.Context, done func(), err error) {
	if s.ctx.Err() != nil {
		return nil, nil, context.Cause(s.ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), maxWriteWait)
	stop := context.AfterFunc(s.ctx, func() { time.AfterFunc(lastWord, cancel) })
	return ctx, func() {
		stop()
		cancel()
	}, nil
}

func (s *socketReader) send(e *apipb.WatchEventsResponse, _ bool) error {
	data, err := eventJSON(e)
	if err != nil {
		return err
	}
	ctx, done, err := s.writing()
	if err != nil {
		return err
	}
	defer done()
	return unread(maxWriteWait, s.conn.Write(ctx, websocket.MessageText, data))
}

func (s *socketReader) beat(int64) error {
	ctx, done, err := s.writing()
	if err != nil {
		return err
	}
	defer done()
	return unread(maxWriteWait, s.conn.Ping(ctx))
}

// end tells the other side why there is no more, closes, and waits until nobody
// listens any more.
func (s *socketReader) end(err error) {
	defer func() { <-s.quiet }()
	select {
	case <-s.quiet:
		if s.spoke {
			err = ares.Errorf(ares.Invalid, "nothing is expected on a stream of events")
		}
	default:
	}
	code := websocket.StatusNormalClosure
	reason := "the stream has ended"
	if err != nil {
		_, body, failure := refusal(err)
		switch failure.Code {
		case ares.Unavailable, ares.Exhausted:
			code = websocket.StatusTryAgainLater
		case ares.Internal:
			code = websocket.StatusInternalError
		default:
			code = websocket.StatusPolicyViolation
		}
		reason = failure.Message
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), lastWord)
		defer cancel()
		_ = s.conn.Write(ctx, websocket.MessageText, body) // to one that has left it is not told
	}
	_ = s.conn.Close(code, closeReason(reason))
}

// closeReason fits a reason into a close frame, which holds 123 bytes.
func closeReason(s string) string {
	const limit = 120
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ToValidUTF8(s, "")
}
