package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

// outside has the audit know of calls that gRPC refuses by itself, before any
// interceptor sees them: a message that is too large or is none.
type outside struct{ doors *Doors }

type methodKey struct{}

// TagRPC implements stats.Handler.
func (o outside) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	ctx, _ = withRecord(ctx)
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC implements stats.Handler.
func (o outside) HandleRPC(ctx context.Context, what stats.RPCStats) {
	end, ok := what.(*stats.End)
	if !ok || end.Error == nil || recordOf(ctx).told {
		return
	}
	method, _ := ctx.Value(methodKey{}).(string)
	switch code := status.Code(end.Error); code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable: // the caller left
	case codes.Internal: // what could not be decoded
		o.doors.refusedBefore(ctx, recordOf(ctx), method, ares.Errorf(ares.Invalid, "the message cannot be read"))
	default:
		o.doors.refusedBefore(ctx, recordOf(ctx), method, end.Error)
	}
}

// TagConn implements stats.Handler.
func (outside) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (outside) HandleConn(context.Context, stats.ConnStats) {}

// refusedBefore records a gRPC call that was refused before it became one. It
// does not wait.
func (d *Doors) refusedBefore(ctx context.Context, rec *record, method string, err error) {
	if d.cfg.Audit == nil || rec.told {
		return
	}
	rec.told = true
	e := rec.Entry
	e.Action, e.User = deedOf(method).action, identityOf(ctx).Name
	e.Code, e.Status = string(ares.CodeOf(apipb.FromStatus(err))), audit.Refused
	at, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	d.cfg.Audit.Refuse(at, e)
}

// unknownMethod answers a call of a method that there is not.
func (d *Doors) unknownMethod(ctx context.Context, method string) error {
	ctx, rec := withRecord(ctx)
	err := status.Errorf(codes.Unimplemented, "there is no method %s", clip(method))
	if d.cfg.Audit == nil || rec.told {
		return err
	}
	rec.told = true
	e := rec.Entry
	e.Action, e.Object, e.Code, e.Status = "UNKNOWN_METHOD", "method/"+clip(method), string(ares.NotFound), audit.Refused
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	d.cfg.Audit.Refuse(wait, e)
	return err
}

// noMethod is never reached: streaming has answered before.
func noMethod(any, grpc.ServerStream) error {
	return status.Error(codes.Unimplemented, "there is no such method")
}
