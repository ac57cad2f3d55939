package pipeline

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
)

// Call is one call on its way through the pipeline. The call's context contains
// the Call. The steps never change the request itself, but store their results
// in the Call.
type Call struct {
	Method *method.Method
	// Caller is the user or agent that makes the call. Caller is nil for a public
	// method.
	Caller *auth.Caller
	// Tenant and Queue are the tenant and queue that the request acts on, with
	// defaults filled in. Tenant and Queue are empty if the request is not
	// limited to one tenant.
	Tenant, Queue string
	// JobTenants are the tenants of a batch's jobs, in the order of the batch.
	JobTenants []string
	// Entry is the call's audit entry. The handler adds the changed object to the
	// entry.
	Entry audit.Entry

	scope             Scope
	request, response proto.Message
	First             atomic.Pointer[any] // the first message of a stream
	leave             func()              // returns the limiter's slot; may be nil
	rejected          bool                // the caller lacks the permission; the answer may have another code
	audited           bool                // the call is in the audit log, or need not be
}

// RequestIDHeader is the HTTP header that contains a call's ID. If the caller
// does not choose an ID, the server generates one. The response repeats the ID.
const RequestIDHeader = "X-Request-Id"

type callKey struct{}

// CallOf returns the call of a context. If the context has no call, CallOf
// returns an empty call.
func CallOf(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}

// WithCall begins a gRPC call, unless a call from REST has already begun.
func WithCall(ctx context.Context) (context.Context, *Call) {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return ctx, c
	}
	c := newCall(ctx, metadata.ValueFromIncomingContext(ctx, strings.ToLower(RequestIDHeader)))
	return context.WithValue(ctx, callKey{}, c), c
}

// newCall returns a new Call for a gRPC call.
func newCall(ctx context.Context, id []string) *Call {
	c := &Call{Entry: audit.Entry{Door: "grpc", RequestID: requestID(id)}}
	if from, ok := peer.FromContext(ctx); ok && from.Addr != nil {
		c.Entry.Source = from.Addr.String()
	}
	return c
}

// WithHTTPCall begins a call over HTTP.
func WithHTTPCall(r *http.Request) (*http.Request, *Call) {
	c := &Call{Entry: audit.Entry{Door: "rest", Source: r.RemoteAddr, RequestID: requestID(r.Header.Values(RequestIDHeader))}}
	if IsWebSocket(r) {
		c.Entry.Door = "websocket"
	}
	return r.WithContext(context.WithValue(r.Context(), callKey{}, c)), c
}

// requestID returns the ID that the caller chose for the call, or a new one.
func requestID(given []string) string {
	if len(given) == 1 && len(given[0]) <= 128 && ares.ValidName(given[0]) {
		return given[0]
	}
	return rand.Text()
}

// WithHubCall begins a call that the hub of this cluster makes for one of its users.
func WithHubCall(ctx context.Context, who *auth.Caller) context.Context {
	return context.WithValue(ctx, callKey{}, &Call{Caller: who, Entry: audit.Entry{Door: "hub", RequestID: rand.Text()}})
}

// WithCaller sets the caller of a context's call.
func WithCaller(ctx context.Context, who *auth.Caller) context.Context {
	ctx, c := WithCall(ctx)
	c.Caller = who
	return ctx
}

// The identity `nobody` belongs to a call without a caller, and has no permissions.
var nobody = &ares.Identity{}

// Identity returns the identity of the caller.
func (c *Call) Identity() *ares.Identity {
	if c.Caller == nil {
		return nobody
	}
	return c.Caller.Identity()
}

// IdentityOf returns the identity of the caller of a context's call.
func IdentityOf(ctx context.Context) *ares.Identity { return CallOf(ctx).Identity() }

// CallerName returns the name of the caller of a context's call.
func CallerName(ctx context.Context) string { return IdentityOf(ctx).Name }

// The method `saw` stores a call's request and response in the Call, because the audit log needs them.
func (c *Call) saw(req, resp any) {
	if m, ok := req.(proto.Message); ok && c.request == nil {
		c.request = m
	}
	if m, ok := resp.(proto.Message); ok {
		c.response = m
	}
}

// The method `free` returns the call's slot to the limiter.
func (c *Call) free() {
	if c.leave != nil {
		c.leave()
		c.leave = nil
	}
}

// IsWebSocket reports whether a request asks for a WebSocket.
func IsWebSocket(r *http.Request) bool {
	return r.ProtoMajor == 1 && slices.ContainsFunc(r.Header.Values("Upgrade"), func(v string) bool {
		return strings.EqualFold(strings.TrimSpace(v), "websocket")
	})
}
