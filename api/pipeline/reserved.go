package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// ErrConnections is the error of a user's call on one of the last connections of a server. These connections are kept for
// health checks and agents.
var ErrConnections = ares.Errorf(ares.Exhausted, "too many connections to this server are open: close some, use another server, or try again later")

// Connection is the connection of a call, as its listener sees it. A listener that runs out of connections closes those
// without a call first, and those of clients that have not authenticated before all others.
type Connection interface {
	// Authenticated notes that the client has authenticated. It reports whether the connection serves only health checks
	// and agents at the moment.
	Authenticated() (reserved bool)
	// Begin notes that the request of an authenticated client has arrived. The returned function notes the end of the call.
	Begin() (end func())
	// Sending notes that a gRPC answer is about to be sent. While many bytes wait for the client, the connection watches
	// them with the function `watch`. The function `stop` closes the connection.
	Sending(bytes int, watch func(stop func(error)) *Transfer)
}

type connectionKey struct{}

// WithConnection adds a connection to the context of its calls.
func WithConnection(ctx context.Context, c Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf returns the connection of a call. A call without one gets a connection that ignores everything.
func ConnectionOf(ctx context.Context) Connection {
	if c, ok := ctx.Value(connectionKey{}).(Connection); ok {
		return c
	}
	return noConnection{}
}

// noConnection is the connection of a call within the process.
type noConnection struct{}

func (noConnection) Authenticated() bool                      { return false }
func (noConnection) Begin() func()                            { return func() {} }
func (noConnection) Sending(int, func(func(error)) *Transfer) {}
