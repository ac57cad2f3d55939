package pipeline

import (
	"context"

	ares "github.com/ares-scheduler/ares"
)

// ErrConnections is the error of a user's call on one of the last connections of a server. These connections are kept for
// health checks and agents.
var ErrConnections = ares.Errorf(ares.Exhausted, "too many connections to this server are open: close some, use another server, or try again later")

type reservedKey struct{}

// WithConnection adds a function to the context of a connection. The function reports whether the connection serves only
// health checks and agents at the moment.
func WithConnection(ctx context.Context, reserved func() bool) context.Context {
	return context.WithValue(ctx, reservedKey{}, reserved)
}

func isReserved(ctx context.Context) bool {
	reserved, ok := ctx.Value(reservedKey{}).(func() bool)
	return ok && reserved()
}
