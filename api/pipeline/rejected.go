package pipeline

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
)

// rejectedByGRPC writes audit entries for calls that gRPC itself rejects before any interceptor sees them.
// gRPC rejects a message that is too large or cannot be decoded.
type rejectedByGRPC struct{ server *Pipeline }

type methodKey struct{}

// TagRPC implements stats.Handler.
func (o rejectedByGRPC) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	ctx, _ = WithCall(ctx)
	return context.WithValue(ctx, methodKey{}, info.FullMethodName)
}

// HandleRPC implements stats.Handler.
func (o rejectedByGRPC) HandleRPC(ctx context.Context, what stats.RPCStats) {
	end, ok := what.(*stats.End)
	if !ok || end.Error == nil || CallOf(ctx).audited {
		return
	}
	method, _ := ctx.Value(methodKey{}).(string)
	switch code := status.Code(end.Error); code {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable: // the caller has left
	case codes.Internal: // the message could not be decoded
		o.server.auditRejectedGRPC(ctx, CallOf(ctx), method, ares.Errorf(ares.Invalid, "the request message cannot be decoded"))
	default:
		o.server.auditRejectedGRPC(ctx, CallOf(ctx), method, end.Error)
	}
}

// TagConn implements stats.Handler.
func (rejectedByGRPC) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (rejectedByGRPC) HandleConn(context.Context, stats.ConnStats) {}

// auditRejectedGRPC records a gRPC call that was rejected before it reached the pipeline. It does not wait
// until the audit entry is on disk.
func (d *Pipeline) auditRejectedGRPC(ctx context.Context, rec *Call, name string, err error) {
	if d.Cfg.Audit == nil || rec.audited {
		return
	}
	rec.audited = true
	e := rec.Entry
	e.Action, e.User = method.AuditOf(name).Action, rec.Identity().Name
	e.Code, e.Status = string(ares.CodeOf(apipb.FromStatus(err))), audit.Refused
	at, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	d.Cfg.Audit.Refuse(at, e)
}

// unknownMethod returns the error for a call of a method that does not exist.
func (d *Pipeline) unknownMethod(ctx context.Context, method string) error {
	ctx, rec := WithCall(ctx)
	err := status.Errorf(codes.Unimplemented, "the API has no method %s", ares.Clip(method))
	if d.Cfg.Audit == nil || rec.audited {
		return err
	}
	rec.audited = true
	e := rec.Entry
	e.Action, e.Object, e.Code, e.Status = "UNKNOWN_METHOD", "method/"+ares.Clip(method), string(ares.NotFound), audit.Refused
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxAuditWait)
	defer cancel()
	d.Cfg.Audit.Refuse(wait, e)
	return err
}

// NoMethod is never called, because Streaming rejects unknown methods first.
func NoMethod(any, grpc.ServerStream) error {
	return status.Error(codes.Unimplemented, "there is no such method")
}

// StatsHandler returns the handler that records the calls that gRPC rejected before they reached the pipeline.
func (d *Pipeline) StatsHandler() stats.Handler { return rejectedByGRPC{d} }
