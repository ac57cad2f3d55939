package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"strings"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
)

// The variable `steps` lists the steps of the pipeline. Every call passes the steps in the order of the list.
// This applies to gRPC and REST, and to single requests and streams. The first step that returns an error
// ends the call. The method's row in package method says what each step does for a call. A step with a
// condition runs only for methods that meet the condition.
//
// The steps with phase onCall run before the request is available. The steps
// with phase onRequest run when the request is available. The request of a
// stream is available when its first message has arrived.
var steps = []step{
	{phase: onCall, run: (*Pipeline).Authenticate},                           // who is the caller, and does it have the permission in at least one tenant?
	{phase: onCall, run: (*Pipeline).limit},                                  // can the audit log record the call, and is a slot free for it?
	{phase: onCall, run: (*Pipeline).auditExport, when: exports},             // record a stream that exports data before it begins
	{phase: onRequest, run: (*Pipeline).validateRequest},                     // is the request valid?
	{phase: onRequest, run: (*Pipeline).Authorize},                           // on which tenant and queue does the request act, and may the caller do that?
	{phase: onRequest, run: (*Pipeline).checkAgent, when: fromAgent},         // does an agent name its session and the rank, and not call too often?
	{phase: onRequest, run: (*Pipeline).readOwnWrites, when: readsOwnWrites}, // wait until this server's view contains its own writes
	// After the last step, the handler runs. At the end of every call, writeAudit records the call, and the
	// method `answer` converts the call's error to a status. This also applies to a call that a step
	// rejected. See Run.
}

// The type `step` is one step of the pipeline. A step fills in fields of the Call, or rejects the call with
// an error. In phase onCall, a stream has no request yet, so the request is nil.
type step struct {
	phase phase
	run   func(d *Pipeline, ctx context.Context, c *Call, req any) error
	when  func(*method.Method) bool // nil: for all methods
}

// The type `phase` is a set of phases of the pipeline.
type phase int

const (
	onCall phase = 1 << iota
	onRequest
)

func exports(m *method.Method) bool        { return m.Audit.Level == method.Exports }
func readsOwnWrites(m *method.Method) bool { return m.ReadYourWrites }

// stepsOf returns the steps that apply to a method in the given phases.
func stepsOf(m *method.Method, at phase) iter.Seq[step] {
	return func(yield func(step) bool) {
		for _, s := range steps {
			if s.phase&at != 0 && (s.when == nil || s.when(m)) && !yield(s) {
				return
			}
		}
	}
}

// Run runs one call through the pipeline. It runs the steps of phase onCall, then those of phase onRequest if
// the request is known, and then the handler. Run converts a panic to an internal error, records the result
// in the audit log, converts an error to a status, and reports the call to Observe.
func (d *Pipeline) Run(ctx context.Context, name string, req any, handle func(context.Context, *Call) error) (err error) {
	start := time.Now()
	ctx, c := WithCall(ctx)
	c.saw(req, nil)
	defer func() {
		if p := recover(); p != nil {
			d.Cfg.Log.Error("a call panicked", "method", name, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			err = ares.Errorf(ares.Internal, "internal error: see the server's log for details")
		}
		c.free()
		err = d.writeAudit(ctx, c, name, err)
		err = d.answer(ctx, name, err, time.Since(start))
	}()
	if c.Method = method.Of(name); c.Method == nil {
		return ares.Errorf(ares.Forbidden, "nobody may call %s", name)
	}
	within, phases := ctx, onCall
	if req != nil { // not a stream, which calls Check for its first message
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, maxCall)
		defer cancel()
		phases |= onRequest
	}
	for s := range stepsOf(c.Method, phases) {
		if err = s.run(d, within, c, req); err != nil {
			return err
		}
	}
	return handle(within, c)
}

// validateRequest rejects a request that is too large or breaks a rule of the
// .proto files.
func (d *Pipeline) validateRequest(_ context.Context, c *Call, req any) error {
	m, ok := req.(proto.Message)
	if !ok {
		return nil
	}
	if !c.Method.LargeBody {
		if n := int64(proto.Size(m)); n > d.Cfg.MaxBody {
			return TooLarge(n, d.Cfg.MaxBody)
		}
	}
	if meetsSimpleRules(m.ProtoReflect()) {
		return nil
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

// Unary is the interceptor for calls with one request and one response. REST
// calls pass through Unary too.
func (d *Pipeline) Unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (resp any, err error) {
	err = d.Run(ctx, info.FullMethod, req, func(ctx context.Context, c *Call) error {
		var failed error
		resp, failed = handler(asUser(ctx), req)
		c.saw(nil, resp)
		return failed
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// The method `answer` converts an error to a status, and logs the error if the server is at fault.
func (d *Pipeline) answer(ctx context.Context, name string, err error, took time.Duration) error {
	out := apipb.ToStatus(err)
	code := ares.CodeOf(apipb.FromStatus(out))
	if code == ares.Internal && ctx.Err() == nil {
		d.Cfg.Log.Error("a call failed", "method", name, "error", err)
	}
	if code == ares.Exhausted || code == ares.Unavailable {
		if apipb.RetryAfter(out) == 0 {
			out = apipb.WithRetryAfter(out, time.Second)
		}
	}
	if d.Cfg.Observe != nil {
		d.Cfg.Observe(strings.TrimPrefix(name, "/"), code, took)
	}
	return out
}

// Stream runs a stream through the pipeline, as Run does for a single call. The stream's context ends when
// the server stops, or when the caller's token or certificate is no longer valid. The cause of the context
// then says why.
func (d *Pipeline) Stream(ctx context.Context, name string, handle func(context.Context) error) error {
	return d.Run(ctx, name, nil, func(ctx context.Context, c *Call) error {
		ctx, stop := d.watchCaller(ctx, c)
		defer stop()
		err := handle(ctx)
		if cause, ok := errors.AsType[*ares.Error](context.Cause(ctx)); ok {
			return cause
		}
		return err
	})
}

// Check runs the steps with phase onRequest for the first message of a stream.
func (d *Pipeline) Check(ctx context.Context, req any) error {
	c := CallOf(ctx)
	for s := range stepsOf(c.Method, onRequest) {
		if err := s.run(d, ctx, c, req); err != nil {
			return err
		}
	}
	return nil
}

// readOwnWrites waits briefly until this server's view contains everything that
// this server has written.
func (d *Pipeline) readOwnWrites(ctx context.Context, _ *Call, _ any) error {
	d.WaitForView(ctx, d.Cfg.Store.Written())
	return nil
}
