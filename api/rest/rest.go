package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/loopback"
)

const (
	maxDrain     = 4 << 20                // maximum to read of a body that is too large, so that its sender reads the error
	maxDrainTime = time.Second            // maximum time for that if the sender is unknown
	lastWord     = pipeline.MaxEnding / 2 // time for pending messages to a WebSocket when its stream ends
)

// Config holds what the REST handler needs in addition to the services.
type Config struct {
	Auth *auth.Auth
	// Hosts lists host names that clients may use for this server, in addition
	// to the names of the loopback interface.
	Hosts []string
	// MaxBody limits the size of a request that is not a batch.
	MaxBody int64
	Log     *slog.Logger
}

// Handler serves the REST API.
type Handler struct {
	*service.Services
	cfg   Config
	Hosts map[string]bool
	http.Handler
	submit submitRoute
}

// New creates the REST handler. The handler checks each request in the method `guard`. It then
// serves the request through the generated gateway, or through its own routes for streams and for
// the OpenAPI document.
func New(services *service.Services, cfg Config) (*Handler, error) {
	d := &Handler{Services: services, cfg: cfg, Hosts: map[string]bool{}}
	for _, h := range cfg.Hosts {
		d.Hosts[Hostname(h)] = true
	}
	mux := runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, PublicJSON{}),
		runtime.WithMarshalerOption(GPUSchedulerForm, formJSON{}),
		runtime.SetQueryParameterParser(queryParser{}),
		runtime.WithErrorHandler(d.gatewayError),
		runtime.WithRoutingErrorHandler(d.routingError),
		runtime.WithForwardResponseOption(setStatus),
		runtime.WithIncomingHeaderMatcher(func(string) (string, bool) { return "", false }), // except Authorization
		runtime.WithOutgoingHeaderMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	conn := &direct{unary: d.Unary, methods: map[string]directMethod{}}
	d.Register(conn)
	ctx := context.Background() // the gateway uses it only to close its own connection
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
		apipb.RegisterSecretServiceHandlerClient(ctx, mux, apipb.NewSecretServiceClient(conn)),
		apipb.RegisterObjectServiceHandlerClient(ctx, mux, apipb.NewObjectServiceClient(conn)),
		apipb.RegisterHistoryServiceHandlerClient(ctx, mux, apipb.NewHistoryServiceClient(conn)),
		apipb.RegisterClustersServiceHandlerClient(ctx, mux, apipb.NewClustersServiceClient(conn)),
		handle(mux, apipb.ClusterService_WatchEvents_FullMethodName, d.serveEvents),
		handle(mux, apipb.JobService_StreamLogs_FullMethodName, d.serveLogs),
		handle(mux, apipb.ClusterService_DumpStore_FullMethodName, d.serveStore),
		mux.HandlePath(method.OpenAPI.HTTPMethod, method.OpenAPI.Path, serveOpenAPI),
	)
	d.submit = newSubmitRoute(conn)
	d.Handler = d.guard(mux)
	return d, err
}

// The function `handle` registers the routes of a streaming method, which the gateway cannot serve.
func handle(mux *runtime.ServeMux, name string, serve runtime.HandlerFunc) error {
	for _, r := range method.Of(name).Routes {
		if err := mux.HandlePath(r.HTTPMethod, r.Path, serve); err != nil {
			return err
		}
	}
	return nil
}

// If the call created a new object, setStatus writes the HTTP status of the called API method. The
// status comes from package method.
func setStatus(ctx context.Context, w http.ResponseWriter, resp proto.Message) error {
	name, _ := runtime.RPCMethod(ctx)
	m := method.Of(name)
	if m == nil || m.Status == http.StatusOK {
		return nil
	}
	if made, ok := resp.(interface{ GetStatus() string }); !ok || made.GetStatus() == pipeline.StatusSubmitted {
		w.WriteHeader(m.Status)
	}
	return nil
}

func serveOpenAPI(w http.ResponseWriter, _ *http.Request, _ map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(apipb.OpenAPI) // the caller may have left
}

// gatewayError answers a failed call.
func (d *Handler) gatewayError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if b, ok := r.Body.(*body); ok && b.err != nil && !errors.Is(b.err, io.EOF) {
		err = b.err // with the invalid fields
	} else if bad := queryError(r); bad != nil {
		err = bad
	}
	d.AuditRejectedHTTP(r, err)
	d.fail(w, err)
}

// routingError answers a request that matches no route.
func (d *Handler) routingError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, code int) {
	path := ares.Clip(r.URL.Path)
	var err error
	switch code {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(method.HTTPMethods(r.URL.Path), ", "))
		err = ares.Errorf(ares.Invalid, "%s does not support the method %s: see /api/v1/openapi.json", path, ares.Clip(r.Method))
	case http.StatusNotFound:
		err = ares.Errorf(ares.NotFound, "the API has no path %s: see /api/v1/openapi.json", path)
	default:
		err = ares.Errorf(ares.Invalid, "the path %q is invalid", path)
	}
	d.AuditRejectedHTTP(r, err)
	d.failAs(w, code, err)
}

// The method `guard` runs before every route. It checks a request's headers, Host, Origin, token
// and body, in that order. Therefore the server never stores or decodes data from an unknown
// caller.
func (d *Handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer d.recovered(w, r)
		h := w.Header()
		maps.Copy(h, alwaysSent)
		r, call := pipeline.WithHTTPCall(r)
		h.Set(pipeline.RequestIDHeader, call.Entry.RequestID)
		out := &pipeline.Response{ResponseWriter: w, Watch: func(stop func(error)) *pipeline.Transfer {
			return d.WatchTransfer(pipeline.AccountOf(call.Identity()), d.WriteWait, stop)
		}}
		defer out.Free()
		if method.IsPublicPath(r.URL.Path) {
			if r.Method == http.MethodHead { // load balancers send HEAD requests
				r = r.WithContext(r.Context())
				r.Method = http.MethodGet
			}
		} else {
			who, code, err := d.identifyHTTP(r)
			if err != nil {
				call.Caller = who
				d.AuditRejectedHTTP(r, err)
				d.drain(w, r)
				d.failAs(w, code, err)
				return
			}
			call.Caller = who
		}
		leave, code, err := d.takeBody(w, r)
		if err != nil {
			d.AuditRejectedHTTP(r, err)
			d.drain(w, r)
			d.failAs(w, code, err)
			return
		}
		out.Holds = append(out.Holds, leave)
		if call.Caller != nil { // a connection of an unknown client stays one without a call
			defer pipeline.ConnectionOf(r.Context()).Begin()()
		}
		ctx := r.Context()
		if call.Caller != nil {
			ctx = context.WithValue(ctx, pipeline.ResponseKey{}, out)
		}
		if d.submit.serves(r) {
			d.serveSubmit(ctx, out, r)
			return
		}
		next.ServeHTTP(out, withForm(r.WithContext(context.WithValue(ctx, bodyKey{}, r.Body))))
	})
}

// alwaysSent holds the headers of every answer. The answers share the values, which nothing changes.
var alwaysSent = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"X-Frame-Options":         {"DENY"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"Referrer-Policy":         {"no-referrer"},
	"Cache-Control":           {"no-store"},
}

// identifyHTTP identifies the caller of a request, and rejects a credential that
// was sent in an unsupported way.
func (d *Handler) identifyHTTP(r *http.Request) (who *auth.Caller, code int, err error) {
	if err = d.checkHost(r); err != nil {
		return who, http.StatusMisdirectedRequest, err
	}
	if err = d.CheckOrigin(r); err == nil {
		who, err = d.cfg.Auth.Check(r.Context(), Token(r))
	}
	if err == nil {
		err = d.WouldReject(r, who)
	}
	return who, pipeline.StatusOf[ares.CodeOf(err)], err
}

// The method `recovered` sends an error answer after a panic outside of an API method.
func (d *Handler) recovered(w http.ResponseWriter, r *http.Request) {
	p := recover()
	if p == nil {
		return
	}
	if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(p) // http.ErrAbortHandler tells the server to cut the connection
	}
	d.cfg.Log.Error("a request panicked", "path", r.URL.Path, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	d.fail(w, ares.Errorf(ares.Internal, "internal error: see the server's log for details"))
}

// Token returns the bearer token of a request.
func Token(r *http.Request) string {
	if t := pipeline.BearerOf(r.Header.Values("Authorization")); t != "" || !pipeline.IsWebSocket(r) {
		return t
	}
	return socketToken(r)
}

// checkHost rejects a Host that is not a name of this server. This check blocks
// web pages whose own host name resolves to the loopback address (DNS
// rebinding).
func (d *Handler) checkHost(r *http.Request) error {
	if host := Hostname(r.Host); !d.Known(host) {
		return ares.Errorf(ares.Forbidden, "the host name %q is not allowed: use localhost or 127.0.0.1, or add the name to the server's allowed hosts", ares.Clip(host))
	}
	return nil
}

func (d *Handler) Known(host string) bool { return loopback.Host(host) || d.Hosts[host] }

// Hostname returns the host name in a Host header, without the port and in lower case.
func Hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
}

// CheckOrigin rejects requests that a browser sends for a web page of another
// origin. Programs other than browsers send no Origin header. On the loopback
// interface, each port may belong to another program, so the port must match too.
// http.CrossOriginProtection is not used, because it accepts all GET requests of foreign web pages,
// including those that open a WebSocket.
func (d *Handler) CheckOrigin(r *http.Request) error {
	origin := r.Header.Get("Origin")
	if origin == "" {
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		if safe && !pipeline.IsWebSocket(r) {
			return nil // the user may have followed a link
		}
		if site := r.Header.Get("Sec-Fetch-Site"); site == "" || site == "same-origin" || site == "none" {
			return nil
		}
	} else if u, err := url.Parse(origin); err == nil && u.Host != "" && (strings.EqualFold(u.Host, r.Host) || d.Hosts[Hostname(u.Host)] && !loopback.Host(Hostname(u.Host))) {
		return nil
	}
	return ares.Errorf(ares.Forbidden, "web pages from %q are not allowed to call this server: use the server's own web page, or add the host of these pages to the server's allowed hosts", ares.Clip(origin))
}

// The type `body` holds a request's whole body, and the error from decoding the body, if any.
type body struct {
	*bytes.Reader
	data []byte
	err  error
}

// Close implements io.Closer.
func (*body) Close() error { return nil }

// takeBody reads a request body up to its size limit, and checks that the content type is JSON. A
// large body needs a slot, so that only a limited number of large bodies is in memory. The caller
// calls the returned function `leave` to free the slot.
//
// The body must arrive within pipeline.MaxReceive. A slow one needs a slot too.
func (d *Handler) takeBody(w http.ResponseWriter, r *http.Request) (leave func(), code int, err error) {
	leave = func() {}
	if r.Body == nil || r.Body == http.NoBody {
		r.Body = &body{Reader: bytes.NewReader(nil)}
		return leave, 0, nil
	}
	limit := d.cfg.MaxBody
	if method.AllowsLargeBody(r.URL.Path) {
		limit = max(limit, pipeline.MaxBatchBody)
	}
	if r.ContentLength > limit {
		return leave, http.StatusRequestEntityTooLarge, pipeline.TooLarge(r.ContentLength, limit)
	}
	watch := d.WatchTransfer(pipeline.AccountOf(pipeline.IdentityOf(r.Context())), d.ReceiveWait, func(error) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // not every writer supports deadlines
	})
	defer func() {
		if why := watch.Done(); why != nil && err != nil {
			code, err = pipeline.StatusOf[ares.CodeOf(why)], why
		}
	}()
	data, err := readSmall(r)
	if err == nil && len(data) > pipeline.SmallBody {
		if leave, err = d.Limiters.Bodies.Enter(r.Context(), pipeline.AccountOf(pipeline.IdentityOf(r.Context()))); err != nil {
			return leave, pipeline.StatusOf[ares.CodeOf(err)], err
		}
		var more []byte
		more, err = io.ReadAll(io.LimitReader(r.Body, limit+1-int64(len(data))))
		data = append(data, more...)
	}
	if code, err = checkBody(r, data, limit, err); err != nil {
		leave()
		return leave, code, err
	}
	r.Body = &body{Reader: bytes.NewReader(data), data: data}
	return leave, 0, nil
}

// readSmall reads a body up to the size of a small one, and one byte more of a larger one.
func readSmall(r *http.Request) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > pipeline.SmallBody {
		return io.ReadAll(io.LimitReader(r.Body, pipeline.SmallBody+1))
	}
	data := make([]byte, r.ContentLength)
	n, err := io.ReadFull(r.Body, data)
	if err == io.EOF { // an empty body
		err = nil
	}
	return data[:n], err
}

func checkBody(r *http.Request, data []byte, limit int64, err error) (int, error) {
	if err != nil {
		return http.StatusBadRequest, ares.Errorf(ares.Invalid, "the request body could not be read completely: %s", err)
	}
	if int64(len(data)) > limit {
		return http.StatusRequestEntityTooLarge, pipeline.TooLarge(0, limit)
	}
	if len(data) > 0 && r.Method != http.MethodGet && r.Method != http.MethodDelete {
		given := r.Header.Get("Content-Type")
		if given == "application/json" {
			return 0, nil
		}
		if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
			return http.StatusUnsupportedMediaType, ares.Errorf(ares.Invalid, "the content type of the request body must be JSON: send the header Content-Type: application/json (with curl: -H 'Content-Type: application/json')")
		}
	}
	return 0, nil
}

// The method `drain` reads part of the body of a rejected request. Without this, a caller that is
// still sending its body when the connection closes would not see the answer. If the caller sent
// Expect: 100-continue, there is nothing to read, because the caller has not sent the body yet.
//
// An unknown caller gets little time for that, because it costs the caller nothing.
func (d *Handler) drain(w http.ResponseWriter, r *http.Request) {
	if pipeline.CallOf(r.Context()).Caller == nil {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(maxDrainTime)) // not every writer supports deadlines
	}
	if r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrain)
	}
}
