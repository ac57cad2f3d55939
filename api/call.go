package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// call is the one way in. Every request, whichever door it came through,
// passes it: a panic becomes an internal error, the caller is identified and
// must be allowed the method, the audit has what became of it, an error becomes a
// status, and the call is observed.
func (d *Doors) call(ctx context.Context, method string, do func(context.Context) error) (err error) {
	start := time.Now()
	ctx, rec := withRecord(ctx)
	defer func() {
		if p := recover(); p != nil {
			d.cfg.Log.Error("a call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = ares.Errorf(ares.Internal, "internal error: the server's log has the details")
		}
		err = d.settle(ctx, rec, method, err)
		err = d.answer(ctx, method, err, time.Since(start))
	}()
	if ctx, err = d.admit(ctx, method); err != nil {
		return err
	}
	if err = d.mayChange(method); err != nil {
		return err
	}
	return do(ctx)
}

// answer makes the status of an error, and has faults of our own logged.
func (d *Doors) answer(ctx context.Context, method string, err error, took time.Duration) error {
	out := apipb.ToStatus(err)
	code := ares.CodeOf(apipb.FromStatus(out))
	if code == ares.Internal && ctx.Err() == nil {
		d.cfg.Log.Error("a call failed", "method", method, "error", err)
	}
	if code == ares.Exhausted || code == ares.Unavailable {
		if apipb.RetryAfter(out) == 0 {
			out = apipb.WithRetryAfter(out, time.Second)
		}
	}
	if d.cfg.Observe != nil {
		d.cfg.Observe(strings.TrimPrefix(method, "/"), code, took)
	}
	return out
}

// check refuses a message that breaks the contract, or that its caller may not
// send. Every request passes it, of streams the first.
func (d *Doors) check(ctx context.Context, method string, req any) error {
	if err := d.conforms(method, req); err != nil {
		return err
	}
	if w, ok := ctx.Value(overseenKey{}).(*overseen); ok {
		w.req.Store(&req)
	}
	if err := d.permit(ctx, method, req); err != nil {
		_, recordOf(ctx).refused = errors.AsType[noRight](err)
		return err
	}
	return d.policed(ctx, method, req)
}

// conforms refuses a message that breaks the contract.
func (d *Doors) conforms(method string, req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if !roomy[method] {
		if n := int64(proto.Size(m)); n > d.cfg.MaxBody {
			return tooLarge(n, d.cfg.MaxBody)
		}
	}
	err := d.validate.Validate(m)
	bad, ok := errors.AsType[*protovalidate.ValidationError](err)
	if !ok {
		return err
	}
	var problems ares.Problems
	for _, v := range bad.Violations {
		problems.Add(protovalidate.FieldPathString(v.Proto.GetField()), "%s", v.Proto.GetMessage())
	}
	return problems.Err()
}

// roomy lists the methods whose requests may be as large as a batch.
var roomy = map[string]bool{
	apipb.JobService_SubmitJobs_FullMethodName:         true,
	apipb.TopologyService_ApplyTopology_FullMethodName: true,
}

// viewed lists the methods that answer from this server's view and engine. They wait,
// though not for long, until these know what this server itself has written: whoever
// was told that a job was accepted, or has ended, finds it so in the list.
var viewed = map[string]bool{
	apipb.JobService_ListJobs_FullMethodName:                 true,
	apipb.JobService_ExplainJob_FullMethodName:               true,
	apipb.JobService_PlanJob_FullMethodName:                  true,
	apipb.JobService_ListPreemptions_FullMethodName:          true,
	apipb.JobService_PlanConsolidation_FullMethodName:        true,
	apipb.QueueService_GetQueue_FullMethodName:               true,
	apipb.QueueService_ListQueues_FullMethodName:             true,
	apipb.QueueService_GetFairness_FullMethodName:            true,
	apipb.TopologyService_GetTopology_FullMethodName:         true,
	apipb.ReservationService_GetReservation_FullMethodName:   true,
	apipb.ReservationService_ListReservations_FullMethodName: true,
	apipb.TenantService_GetTenant_FullMethodName:             true,
	apipb.TenantService_ListTenants_FullMethodName:           true,
	apipb.ClusterService_ListNodes_FullMethodName:            true,
	apipb.ClusterService_GetNode_FullMethodName:              true,
	apipb.ClusterService_GetClusterStatus_FullMethodName:     true,
}

func tooLarge(size, limit int64) error {
	if size <= 0 {
		return ares.Errorf(ares.TooLarge, "the request is larger than %d bytes: put large values into files the job reads", limit)
	}
	return ares.Errorf(ares.TooLarge, "the request is %d bytes, at most %d are taken: put large values into files the job reads", size, limit)
}

func (d *Doors) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	out := d.call(ctx, info.FullMethod, func(ctx context.Context) error {
		leave, full := d.enter(ctx, info.FullMethod, req)
		if full != nil {
			return full
		}
		defer leave()
		ctx, cancel := context.WithTimeout(ctx, maxCall)
		defer cancel()
		if err = d.check(ctx, info.FullMethod, req); err == nil {
			if viewed[info.FullMethod] {
				d.seen(ctx, d.cfg.Store.Written())
			}
			resp, err = handler(asUser(ctx), req)
		}
		recordOf(ctx).saw(req, resp)
		return err
	})
	if out != nil {
		return nil, out
	}
	return resp, nil
}

func (d *Doors) streaming(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if _, known := access[info.FullMethod]; !known {
		return d.unknownMethod(ss.Context(), info.FullMethod)
	}
	return d.stream(ss.Context(), info.FullMethod, func(ctx context.Context) error {
		return handler(srv, &checkedStream{ServerStream: ss, ctx: ctx, doors: d, method: info.FullMethod})
	})
}

// checkedStream checks each message it receives, and gives up on a reader that
// does not take what is sent.
type checkedStream struct {
	grpc.ServerStream
	ctx    context.Context
	doors  *Doors
	method string
	stuck  atomic.Bool
	asked  bool // the first message has come
}

func (s *checkedStream) Context() context.Context { return s.ctx }

func (s *checkedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	recordOf(s.ctx).saw(m, nil)
	if s.asked {
		return s.doors.conforms(s.method, m)
	}
	s.asked = true
	return s.doors.check(s.ctx, s.method, m)
}

// SendMsg waits for the reader, but not for ever: who never reads would keep
// its place among the streams. gRPC has no deadline for one message, so it is
// sent by a goroutine, which ends with the stream if not before.
func (s *checkedStream) SendMsg(m any) error {
	if s.stuck.Load() {
		return unread(s.doors.writeWait, errStuck)
	}
	sent := make(chan error, 1)
	go func() { sent <- s.ServerStream.SendMsg(m) }()
	timer := time.NewTimer(s.doors.writeWait)
	defer timer.Stop()
	select {
	case err := <-sent:
		return err
	case <-timer.C:
		s.stuck.Store(true)
		return unread(s.doors.writeWait, errStuck)
	}
}

var errStuck = errors.New("it takes nothing more")

// stream is call for what lasts: its context also ends, with the reason as its
// cause, when the doors close or the caller's token or certificate is no longer good.
func (d *Doors) stream(ctx context.Context, method string, do func(context.Context) error) error {
	return d.call(ctx, method, func(ctx context.Context) error {
		if err := d.gates.spend(ctx, d.gates.of[method]); err != nil {
			return err
		}
		leave, err := d.gates.of[method].enter(ctx, caller(ctx))
		if err != nil {
			return err
		}
		defer leave()
		if err = d.opened(ctx, method); err != nil {
			return err
		}
		ctx, stop := d.watchOver(ctx, method)
		defer stop()
		err = do(ctx)
		if cause, ok := errors.AsType[*ares.Error](context.Cause(ctx)); ok {
			return cause
		}
		return err
	})
}

// overseen is a stream's request, which its caller must be allowed as long as it
// is open.
type overseen struct{ req atomic.Pointer[any] }

type overseenKey struct{}

func (d *Doors) watchOver(ctx context.Context, method string) (_ context.Context, stop func()) {
	w := &overseen{}
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, overseenKey{}, w))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(d.recheck)
		defer tick.Stop()
		revoked := d.cfg.Trust.changed()
		for {
			// At once, too: it may have been revoked since it was let in.
			if err := d.still(ctx, method, w); err != nil {
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
				revoked = d.cfg.Trust.changed()
			case <-tick.C:
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

// still refuses a stream whose caller is no longer who it was, or may no longer
// have what it asked for. What cannot be found out now ends nothing.
func (d *Doors) still(ctx context.Context, method string, w *overseen) error {
	who, ok := callerOf(ctx)
	if !ok {
		return nil // of those that anyone may open
	}
	err := who.Again(ctx)
	if req := w.req.Load(); err == nil && req != nil {
		err = d.permit(ctx, method, *req)
	} else if err == nil {
		err = access[method].admits(who.Identity())
	}
	if _, lost := errors.AsType[noRight](err); lost {
		return err
	}
	switch ares.CodeOf(err) {
	case ares.Unauthentic, ares.Forbidden, ares.NotFound:
		return err
	default:
		return nil
	}
}
