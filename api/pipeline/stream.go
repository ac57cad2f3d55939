package pipeline

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
)

// Streaming is the interceptor of streams.
func (d *Pipeline) Streaming(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if method.Of(info.FullMethod) == nil {
		return d.unknownMethod(ss.Context(), info.FullMethod)
	}
	return d.Stream(ss.Context(), info.FullMethod, func(ctx context.Context) error {
		if err := refuseCompression(ctx); err != nil {
			return err
		}
		return handler(srv, &checkedStream{ServerStream: ss, ctx: ctx, server: d})
	})
}

// checkedStream checks each message that it receives from the caller. Sending
// on a checkedStream fails if the client does not receive the message in time.
type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	server *Pipeline
	stuck  atomic.Bool
	asked  bool // the first message has arrived
}

func (s *checkedStream) Context() context.Context { return s.ctx }

func (s *checkedStream) RecvMsg(m any) error {
	if !s.asked { // the first message must arrive in time; later ones come when there is something to say
		if err := s.server.receive(s.ctx, func() error { return s.ServerStream.RecvMsg(m) }); err != nil {
			return err
		}
	} else if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	c := CallOf(s.ctx)
	c.saw(m, nil)
	if s.asked {
		return s.server.validateRequest(s.ctx, c, m)
	}
	s.asked = true
	return s.server.Check(s.ctx, m)
}

// SendMsg waits a limited time until the client receives the message. A client that never reads would
// otherwise keep its slot forever. A goroutine sends the message, because gRPC has no deadline for a single
// message. The sending goroutine ends when the message is sent, or at the latest when the stream ends.
func (s *checkedStream) SendMsg(m any) error {
	if s.stuck.Load() {
		return ErrUnread(s.server.WriteWait, errStuck)
	}
	sent := make(chan error, 1)
	go func() { sent <- s.ServerStream.SendMsg(m) }()
	timer := time.NewTimer(s.server.WriteWait)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		s.stuck.Store(true)
		return ErrUnread(s.server.WriteWait, errStuck)
	}
}

var errStuck = errors.New("the client does not read the messages of its stream")

// watchCaller ends the context of a stream when its caller is no longer
// authorized, or when the server stops.
func (d *Pipeline) watchCaller(ctx context.Context, c *Call) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d.Recheck)
		defer tick.Stop()
		revoked, ended := d.Cfg.Trust.Changed(), d.lostRights(c)
		for {
			// Also check immediately, because the credential may have been revoked
			// since it was accepted.
			if err := d.RecheckCaller(ctx, c); err != nil {
				cancel(err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-d.life.Done():
				cancel(stopping())
				return
			case <-revoked:
				revoked = d.Cfg.Trust.Changed()
			case <-ended:
				ended = d.lostRights(c)
			case <-tick.C:
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// lostRights returns a channel that is closed when tokens or bindings were deleted. The agents that use certificates have
// neither. There are thousands of them, so they are not asked to check what tenants change.
func (d *Pipeline) lostRights(c *Call) <-chan struct{} {
	if c.Identity().Kind == ares.ByCert {
		return nil
	}
	return d.Cfg.Auth.Ended()
}

// RecheckCaller rejects a stream if its caller's credential is no longer valid. It also rejects a stream if
// the caller no longer has the permission for the stream's first message. If the credential cannot be checked
// now, the stream continues.
func (d *Pipeline) RecheckCaller(ctx context.Context, c *Call) error {
	if c.Caller == nil {
		return nil // a public method
	}
	err := c.Caller.Refresh(ctx)
	if err == nil {
		err = requirePermission(c.Identity(), c.Method.Permission)
	}
	if req := c.First.Load(); err == nil && req != nil {
		var at Scope
		if at, err = d.scopeOf(ctx, c, *req); err == nil && c.Method.Permission != "" {
			if denied := at.Allows(c.Identity(), c.Method.Permission); denied != nil {
				return denied
			}
		}
	}
	switch ares.CodeOf(err) {
	case ares.Unauthentic, ares.Forbidden, ares.NotFound:
		return err
	default:
		return nil
	}
}
