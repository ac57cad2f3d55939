package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
)

// largePaths are those whose body may be as large as a batch.
var largePaths = map[string]bool{"/api/v1/jobs:batch": true, "/api/v1/topology": true}

// anonymous are the paths that answer anybody, with a status only.
var anonymous = map[string]bool{"/health": true, "/api/v1/health": true, "/api/v1/ready": true}

// newREST makes the REST door: the guard, then the generated gateway over the
// in-process connection, and the routes that are streams or documents.
func (d *Doors) newREST() (http.Handler, error) {
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, publicJSON{}),
		runtime.SetQueryParameterParser(queryParser{}),
		runtime.WithErrorHandler(d.gatewayError),
		runtime.WithRoutingErrorHandler(d.routingError),
		runtime.WithForwardResponseOption(setCreated),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }), // but for Authorization
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	conn := &direct{unary: d.unary, methods: map[string]directMethod{}}
	d.register(conn)
	ctx := context.Background() // only kept for closing a connection of the gateway's own
	err := errors.Join(
		apipb.RegisterJobServiceHandlerClient(ctx, mux, apipb.NewJobServiceClient(conn)),
		apipb.RegisterTenantServiceHandlerClient(ctx, mux, apipb.NewTenantServiceClient(conn)),
		apipb.RegisterClusterServiceHandlerClient(ctx, mux, apipb.NewClusterServiceClient(conn)),
		apipb.RegisterQueueServiceHandlerClient(ctx, mux, apipb.NewQueueServiceClient(conn)),
		apipb.RegisterTopologyServiceHandlerClient(ctx, mux, apipb.NewTopologyServiceClient(conn)),
		apipb.RegisterReservationServiceHandlerClient(ctx, mux, apipb.NewReservationServiceClient(conn)),
		apipb.RegisterIdentityServiceHandlerClient(ctx, mux, apipb.NewIdentityServiceClient(conn)),
		apipb.RegisterTrustServiceHandlerClient(ctx, mux, apipb.NewTrustServiceClient(conn)),
		apipb.RegisterAuditServiceHandlerClient(ctx, mux, apipb.NewAuditServiceClient(conn)),
		apipb.RegisterPolicyServiceHandlerClient(ctx, mux, apipb.NewPolicyServiceClient(conn)),
		apipb.RegisterHistoryServiceHandlerClient(ctx, mux, apipb.NewHistoryServiceClient(conn)),
		mux.HandlePath(http.MethodGet, "/api/v1/events", d.serveEvents),
		mux.HandlePath(http.MethodGet, "/api/v1/jobs/{job_id}/logs", d.serveLogs),
		mux.HandlePath(http.MethodGet, "/api/v1/openapi.json", serveOpenAPI),
		mux.HandlePath(http.MethodGet, "/api/v1/debug/store", d.serveStore),
	)
	return d.guard(mux), err
}

// setCreated answers 201 when something new was made.
func setCreated(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	made := false
	switch m := m.(type) {
	case *apipb.SubmitJobResponse:
		made = m.GetStatus() == submitted
	case *apipb.RetryJobResponse:
		made = m.GetStatus() == submitted
	default:
		kind := m.ProtoReflect().Descriptor()
		made = kind == (&apipb.CreateTenantResponse{}).ProtoReflect().Descriptor() || kind == (&apipb.CreateQueueResponse{}).ProtoReflect().Descriptor() ||
			kind == (&apipb.CreateReservationResponse{}).ProtoReflect().Descriptor() || kind == (&apipb.CreateTokenResponse{}).ProtoReflect().Descriptor() ||
			kind == (&apipb.CreateBindingResponse{}).ProtoReflect().Descriptor() || kind == (&apipb.CreateJoinTokenResponse{}).ProtoReflect().Descriptor()
	}
	if made {
		w.WriteHeader(http.StatusCreated)
	}
	return nil
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(apipb.OpenAPI) // a caller that has left does not read it
}

// gatewayError answers a call that failed.
func (d *Doors) gatewayError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if b, ok := r.Body.(*body); ok && b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err // with its fields
	}
	d.refusedAtDoor(r, err)
	d.fail(w, err)
}

// routingError answers a request that no route takes.
func (d *Doors) routingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	path := clip(r.URL.Path)
	var err error
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(methodsOf(r.URL.Path), ", "))
		err = ares.Errorf(ares.Invalid, "%s does not take %s: see /api/v1/openapi.json", path, clip(r.Method))
	case http.StatusNotFound:
		err = ares.Errorf(ares.NotFound, "there is no %s: see /api/v1/openapi.json", path)
	default:
		err = ares.Errorf(ares.Invalid, "the path %q cannot be read", path)
	}
	d.refusedAtDoor(r, err)
	d.failAs(w, code, err)
}

// guard stands before every route: headers, Host, Origin, token and body, in
// that order, so that nothing of an unknown caller's is kept or decoded.
func (d *Doors) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer d.recovered(w, r)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		r, rec := withRequestRecord(r)
		h.Set(requestIDHeader, rec.RequestID)
		out := &answering{ResponseWriter: w}
		defer out.free()
		if anonymous[r.URL.Path] {
			if r.Method == http.MethodHead { // as load balancers ask
				r = r.WithContext(r.Context())
				r.Method = http.MethodGet
			}
		} else {
			who, code, err := d.letIn(r)
			if err != nil {
				if who != nil {
					r = r.WithContext(withCaller(r.Context(), who))
				}
				d.refusedAtDoor(r, err)
				drain(r)
				d.failAs(w, code, err)
				return
			}
			r = r.WithContext(context.WithValue(withCaller(r.Context(), who), answeringKey{}, out))
		}
		leave, code, err := d.takeBody(r)
		if err != nil {
			d.refusedAtDoor(r, err)
			drain(r)
			d.failAs(w, code, err)
			return
		}
		out.holds = append(out.holds, leave)
		next.ServeHTTP(out, r)
	})
}

// letIn finds out who makes a request, and refuses what came by a way that is
// not meant.
func (d *Doors) letIn(r *http.Request) (who *auth.Caller, code int, err error) {
	if err = d.checkHost(r); err != nil {
		return who, http.StatusMisdirectedRequest, err
	}
	if err = d.checkOrigin(r); err == nil {
		who, err = d.cfg.Auth.Check(r.Context(), token(r))
	}
	if err == nil {
		err = d.refuses(r, who)
	}
	return who, statusOf[ares.CodeOf(err)], err
}

// recovered answers after a panic outside of any call.
func (d *Doors) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p) // meant for the server: cut the connection
	}
	d.cfg.Log.Error("a request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	d.fail(w, ares.Errorf(ares.Internal, "internal error: the server's log has the details"))
}

// token is the bearer token of a request.
func token(r *http.Request) string {
	if t := bearerOf(r.Header.Values("Authorization")); t != "" || !upgrades(r) {
		return t
	}
	return socketToken(r)
}

// checkHost refuses a name that is not this server's: a web page whose own
// name was pointed at the loopback must not be answered.
func (d *Doors) checkHost(r *http.Request) error {
	if host := hostname(r.Host); !d.known(host) {
		return ares.Errorf(ares.Forbidden, "this server is not called %q: use localhost or 127.0.0.1, or add the name to the server's allowed hosts", clip(host))
	}
	return nil
}

func (d *Doors) known(host string) bool { return isLoopback(host) || d.hosts[host] }

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostname is a Host header without its port, in lower case.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// checkOrigin refuses what a web page of somebody else has a browser send.
// Programs send no Origin. On the loopback every port is another program's page, so
// there the port counts too.
func (d *Doors) checkOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		if safe && !upgrades(r) {
			return nil // somebody may have come by a link
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "" || site == "same-origin" || site == "none" {
			return nil
		}
	} else if u, err := url.Parse(origin); err == nil && u.Host != "" && (strings.EqualFold(u.Host, r.Host) || d.hosts[hostname(u.Host)] && !isLoopback(hostname(u.Host))) {
		return nil
	}
	return ares.Errorf(ares.Forbidden, "a page of %q may not do this: open the server's own page, or add that host to the server's allowed hosts", clip(origin))
}

// body is a request's body, read whole, and what was wrong with it.
type body struct {
	*bytes.Reader
	err error
}

// Close implements io.Closer.
func (*body) Close() error { return nil }

// takeBody reads the body within its limit and wants it to be JSON. A large one
// needs a place, which leave gives back: so many at most are in memory.
func (d *Doors) takeBody(r *http.Request) (leave func(), code int, err error) {
	leave = func() {}
	limit := d.cfg.MaxBody
	if largePaths[r.URL.Path] {
		limit = max(limit, MaxBatchBody)
	}
	if r.ContentLength > limit {
		return leave, http.StatusRequestEntityTooLarge, tooLarge(r.ContentLength, limit)
	}
	data, err := io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	if err == nil && len(data) > smallBody {
		if leave, err = d.gates.bodies.enter(r.Context(), caller(r.Context())); err != nil {
			return leave, statusOf[ares.CodeOf(err)], err
		}
		var more []byte
		more, err = io.ReadAll(io.LimitReader(r.Body, limit+1-int64(len(data))))
		data = append(data, more...)
	}
	if code, err = checkBody(r, data, limit, err); err != nil {
		leave()
		return leave, code, err
	}
	r.Body = &body{Reader: bytes.NewReader(data)}
	return leave, 0, nil
}

func checkBody(r *http.Request, data []byte, limit int64, err error) (int, error) {
	if err != nil {
		return http.StatusBadRequest, ares.Errorf(ares.Invalid, "the body could not be read to its end: %s", err)
	}
	if int64(len(data)) > limit {
		return http.StatusRequestEntityTooLarge, tooLarge(0, limit)
	}
	if len(data) > 0 && r.Method != http.MethodGet && r.Method != http.MethodDelete {
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if err != nil || kind != "application/json" {
			return http.StatusUnsupportedMediaType, ares.Errorf(ares.Invalid, "the body must be JSON and say so: add the header Content-Type: application/json (with curl: -H 'Content-Type: application/json')")
		}
	}
	return 0, nil
}

// drain reads some of a body that is refused: a caller that is still sending
// when the connection closes does not see the answer. One that asked first
// sends nothing.
func drain(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
	}
}
