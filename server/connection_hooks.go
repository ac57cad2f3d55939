package server

import (
	"context"
	"net"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/policy/roles"
)

// The method `watch` adds the connection to the context of each request of an HTTP server. The handler says when the client
// has authenticated and when a call begins.
func (l *connections) watch(srv *http.Server) {
	srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if n := connectionOf(c); n != nil {
			return pipeline.WithConnection(ctx, n)
		}
		return ctx
	}
}

// connectionOf returns the connection below an encrypted one, or nil if it is not one of `connections`.
func connectionOf(c net.Conn) *connection {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secured.NetConn()
	}
	n, _ := c.(*connection)
	return n
}

// The method `call` marks the connection of a gRPC call as one with a call. The pipeline has authenticated the caller already,
// and the message has arrived. A call that needs no authentication leaves the connection one without a call.
func (l *connections) call(ctx context.Context, name string) (end func(), err error) {
	m := method.Of(name)
	c, ok := pipeline.ConnectionOf(ctx).(*connection)
	if !ok || m != nil && m.IsPublic() {
		return func() {}, nil
	}
	end, reserved := l.begin(c)
	if reserved && (m == nil || m.Permission != roles.AgentAct) {
		end()
		return nil, pipeline.ErrConnections
	}
	return end, nil
}

// grpcOptions returns the options that count the calls of each connection. The interceptors run after the pipeline's own.
func (l *connections) grpcOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StatsHandler(connectionTagger{l}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			end, err := l.call(ctx, info.FullMethod)
			if err != nil {
				return nil, err
			}
			defer end()
			return handler(ctx, req)
		}),
		grpc.ChainStreamInterceptor(func(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			end, err := l.call(ss.Context(), info.FullMethod)
			if err != nil {
				return err
			}
			defer end()
			return handler(srv, ss)
		}),
	}
}

// connectionTagger adds the connection to the context of each gRPC call.
type connectionTagger struct{ of *connections }

// TagConn implements stats.Handler. The handshake is over, so a client with a certificate has authenticated.
func (t connectionTagger) TagConn(ctx context.Context, info *stats.ConnTagInfo) context.Context {
	t.of.mu.Lock()
	c := t.of.open[info.RemoteAddr.String()]
	t.of.mu.Unlock()
	if c == nil {
		return ctx // it was closed in the meantime, so its answer reaches nobody
	}
	if pipeline.ClientCertificate(ctx) != nil {
		c.Authenticated()
	}
	return pipeline.WithConnection(ctx, c)
}

// HandleConn implements stats.Handler.
func (connectionTagger) HandleConn(context.Context, stats.ConnStats) {}

// TagRPC implements stats.Handler.
func (connectionTagger) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (connectionTagger) HandleRPC(context.Context, stats.RPCStats) {}
