package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
)

// Transfer watches the arrival of one request or the sending of one answer. Ordinary requests and answers take some
// milliseconds. A client that sends or reads slowly on purpose could otherwise make the server hold many of them in memory.
// A transfer that takes longer than the pipeline's SlowAfter therefore needs a slot of the limiter for slow transfers, and it
// ends after a maximum time.
type Transfer struct {
	server *Pipeline
	who    Account
	most   time.Duration
	stop   func(why error) // ends it

	mu    sync.Mutex
	timer *time.Timer
	slow  bool   // it has taken longer than SlowAfter
	leave func() // gives the slot back; nil without a slot
	over  bool
	why   error // why it was ended
}

// WatchTransfer begins to watch a transfer of a caller. The function `stop` is called if the transfer must end. The caller of
// WatchTransfer calls Done.
func (d *Pipeline) WatchTransfer(who Account, most time.Duration, stop func(why error)) *Transfer {
	t := &Transfer{server: d, who: who, most: most, stop: stop}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer = time.AfterFunc(min(d.SlowAfter, most), t.late)
	return t
}

// The method `late` runs when the transfer has become a slow one, and again when it has taken too long.
func (t *Transfer) late() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch rest := t.most - t.server.SlowAfter; {
	case t.over:
		return
	case t.slow || rest <= 0:
		t.why = ares.Errorf(ares.Exhausted, "the request or its answer was not transferred within %s: use a faster connection, or smaller requests", t.most)
	default:
		t.slow = true
		if t.leave, t.why = t.server.Limiters.Slow.Enter(context.Background(), t.who); t.why == nil { // it has no queue, so this does not wait
			t.timer.Reset(rest)
			return
		}
	}
	t.stop(t.why)
}

// Done ends the watch. It returns the reason if the transfer was ended.
func (t *Transfer) Done() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.timer.Stop()
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
	return t.why
}

// endStream sends the status of a gRPC call at once, which also ends its pending reads and writes. gRPC itself has no time limit
// for a message.
func endStream(ctx context.Context, why error) {
	if s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ WriteStatus(*status.Status) error }); ok {
		_ = s.WriteStatus(status.Convert(apipb.ToStatus(why))) // the client may have left
	}
}

// The method `receive` receives the message of a call within a limited time.
func (d *Pipeline) receive(ctx context.Context, message func() error) error {
	t := d.WatchTransfer(AccountOf(IdentityOf(ctx)), d.ReceiveWait, func(why error) { endStream(ctx, why) })
	err := message()
	if why := t.Done(); why != nil && err != nil {
		return why
	}
	return err
}

// The method `sending` tells the connection how much it has to send. gRPC accepts an answer of any size at once, and keeps what
// the client does not read until the connection ends.
func (d *Pipeline) sending(ctx context.Context, answer any) {
	m, ok := answer.(proto.Message)
	if !ok {
		return
	}
	size := proto.Size(m)
	if size > MaxAnswer { // gRPC sends an error instead
		return
	}
	who := AccountOf(IdentityOf(ctx))
	ConnectionOf(ctx).Sending(size, func(stop func(error)) *Transfer { return d.WatchTransfer(who, d.WriteWait, stop) })
}

// Guard returns a registrar for services whose callers are authenticated before their messages are read. gRPC itself calls an
// interceptor only after it has read and decoded the message, which may have 16 MiB.
func (d *Pipeline) Guard(to grpc.ServiceRegistrar) grpc.ServiceRegistrar { return guard{d, to} }

type guard struct {
	server *Pipeline
	to     grpc.ServiceRegistrar
}

// RegisterService implements grpc.ServiceRegistrar.
func (g guard) RegisterService(desc *grpc.ServiceDesc, impl any) {
	own := *desc
	own.Methods = slices.Clone(desc.Methods)
	for i := range own.Methods {
		name, serve := "/"+desc.ServiceName+"/"+own.Methods[i].MethodName, own.Methods[i].Handler
		own.Methods[i].Handler = func(srv any, ctx context.Context, message func(any) error, in grpc.UnaryServerInterceptor) (any, error) {
			if err := g.server.authenticateFirst(ctx, name); err != nil {
				return nil, err
			}
			answer, err := serve(srv, ctx, func(m any) error {
				return g.server.rejectMessage(ctx, name, g.server.receive(ctx, func() error { return message(m) }))
			}, in)
			if err == nil && ctx.Err() == nil { // gRPC sends nothing to a client that has cancelled the call
				g.server.sending(ctx, answer)
			}
			return answer, err
		}
	}
	g.to.RegisterService(&own, impl)
}

// authenticateFirst identifies the caller of a gRPC call before its message is read. A rejected call is recorded and answered
// as one that the pipeline rejects.
func (d *Pipeline) authenticateFirst(ctx context.Context, name string) error {
	m, c := method.Of(name), CallOf(ctx)
	if m == nil {
		return nil
	}
	err := refuseCompression(ctx)
	if !m.IsPublic() {
		var who *auth.Caller
		if who, err = d.identify(ctx); err == nil {
			c.Caller, err = who, refuseCompression(ctx)
		}
	}
	if err == nil {
		return nil
	}
	return d.Run(ctx, name, nil, func(context.Context, *Call) error { return err })
}

// refuseCompression rejects a gRPC call with compressed messages. 16 KiB can become 16 MiB when they are decompressed, and that
// happens before any limit on large requests applies.
func refuseCompression(ctx context.Context) error {
	s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ RecvCompress() string })
	if !ok || s.RecvCompress() == "" || s.RecvCompress() == encoding.Identity {
		return nil
	}
	return ares.Errorf(ares.Invalid, "compressed messages are not accepted: send the call without the header grpc-encoding")
}

// rejectMessage records a call whose message did not arrive in time, and converts its error to a status.
func (d *Pipeline) rejectMessage(ctx context.Context, name string, err error) error {
	if _, own := err.(*ares.Error); !own { //nolint:errorlint // an error of gRPC itself stays as it is
		return err
	}
	d.auditRejectedGRPC(ctx, CallOf(ctx), name, err)
	return d.answer(ctx, name, err, 0)
}

// tapCredentials rejects a gRPC call without a credential before anything is allocated for it.
func (d *Pipeline) tapCredentials(ctx context.Context, m *method.Method, info *tap.Info) error {
	if m.IsPublic() || BearerOf(info.Header.Get("authorization")) != "" || ClientCertificate(ctx) != nil {
		return nil
	}
	_, err := d.Cfg.Auth.Check(ctx, "") // an empty token is rejected without a look at the store
	if err == nil {
		return nil
	}
	d.auditRejectedGRPC(ctx, newCall(ctx, info.Header.Get(RequestIDHeader)), info.FullMethodName, err)
	return d.answer(ctx, info.FullMethodName, err, 0)
}
