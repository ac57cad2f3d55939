package api

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/rest"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/store"
)

const (
	// MaxHeaderBytes limits the total size of one request's headers. The
	// process sets http.Server.MaxHeaderBytes to this value.
	MaxHeaderBytes = 64 << 10

	streamWindow     = 64 << 10        // what a client may send on a gRPC stream before the server reads it
	connectionWindow = 1 << 20         // the same for all streams of a connection
	maxServerStreams = 256             // per gRPC connection
	maxIdle          = 5 * time.Minute // for a gRPC connection without any call
)

// Config holds the dependencies and settings of a Server.
type Config struct {
	Admission *admission.Admission
	View      *cache.View
	Store     *store.Store
	// Accounting finds jobs that are no longer live, and returns the resource
	// usage of jobs. If Accounting is nil, the server has no history.
	Accounting *accounting.Accounting
	// Currency is the currency of prices, such as USD.
	Currency string
	// ReuseTenants permits a new tenant to have the ID of a deleted one whose jobs are still known.
	ReuseTenants bool
	// Engine explains why jobs wait and where they would be placed.
	Engine service.Engine
	// Predict estimates the runtime of a job. If Predict is nil, there are no
	// estimates.
	Predict func(*ares.Job) ares.RuntimePredicted
	// Policies are the user-defined policies. If Policies is nil, there are no
	// policies.
	Policies *admission.Policies
	// Notifier sends alerts. If Notifier is nil, there are no alert channels.
	Notifier service.Notifier
	// Alert returns a warning about the whole cluster, or "" if there is none. Alert may be nil.
	Alert func() string
	// FreeMB returns the free disk space of the data directory, in MB. FreeMB may be nil.
	FreeMB func() int64
	// Ready returns an error if the server cannot accept work. By default,
	// Ready returns the store's error if the store does not answer.
	Ready func(context.Context) error
	Auth  *auth.Auth
	// Now is the clock for times that the server writes. The default is time.Now.
	Now func() time.Time
	// Version is the version of the server. Server is the server's name, which is
	// the gRPC address that the server advertises.
	Version, Server string
	// Hosts are further names of this server, in addition to those of the loopback
	// interface.
	Hosts []string
	// Logs reads the output of jobs. If Logs is nil, logs are unavailable.
	Logs service.LogSource
	// Sessions connects users with running jobs. If Sessions is nil, the server has no sessions.
	Sessions *service.Sessions
	// Secrets encrypts secrets. If Secrets is nil, no secret can be created.
	Secrets *secrets.Secrets
	// Code keeps the code of jobs. If Code is nil, jobs cannot bring their code.
	Code *code.Code
	// AgentService serves node agents. If AgentService is nil, the server does
	// not offer it.
	AgentService apipb.AgentServiceServer
	// Federation is the part of the server that knows other clusters.
	Federation service.Federation
	// FederationService serves the members of a hub. If FederationService is nil, the server does not offer it.
	FederationService apipb.FederationServiceServer
	// Trust issues and checks the certificates of nodes and member clusters.
	Trust *pipeline.Trust
	// The function Certified returns the identity that a verified client certificate proves. The
	// identity has kind ares.ByCert. By default, Certified is Trust.Identify.
	Certified func(ctx context.Context, leaf *x509.Certificate) (ares.Identity, error)
	// Log is the logger. By default, nothing is logged. Tokens and the
	// environment variables of jobs are never logged.
	Log *slog.Logger
	// Observe is called with each call's method, code ("" for success) and duration. Observe may be nil.
	Observe func(method string, code ares.Code, took time.Duration)
	// MaxBody limits the size of a request that is not a batch. The default is DefaultMaxBody.
	MaxBody int64
	// Limits bounds concurrent calls and streams. The default is DefaultLimits.
	Limits pipeline.Limits
	// Audit records calls and rejections. If Audit is nil, nothing is recorded.
	Audit pipeline.Auditor
	// AuditLog is the log that AuditService reads. If AuditLog is nil,
	// AuditService is unavailable.
	AuditLog service.AuditLog
	// AuditHistory has the entries of all servers. If AuditHistory is nil,
	// AuditLog is used.
	AuditHistory service.AuditHistory
	// AuditMarks returns what places outside the log's files remember of its end. AuditMarks may be nil.
	AuditMarks service.AuditMarks
	// When a limit rejects a call, the function Shed is called with the limiter's class. This
	// function may be nil.
	Shed func(class string)
}

// Server is the API of one server process. Server starts nothing by itself: the
// process serves GRPC and HTTP, and calls Close before it stops them.
type Server struct {
	pipeline *pipeline.Pipeline
	services *service.Services
	rest     *rest.Handler
}

// New returns a Server.
func New(cfg Config) (*Server, error) {
	if cfg.Admission == nil || cfg.View == nil || cfg.Store == nil || cfg.Engine == nil || cfg.Auth == nil || cfg.Trust == nil {
		return nil, fmt.Errorf("api: Admission, View, Store, Engine, Auth and Trust are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	clock := cfg.Now // rounded to the store's precision, so that a value is the same when it is read back
	cfg.Now = func() time.Time { return clock().Truncate(time.Microsecond) }
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = cfg.Store.Ready
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = pipeline.DefaultMaxBody
	}
	calls, err := pipeline.New(pipeline.Config{
		View: cfg.View, Store: cfg.Store, Accounting: cfg.Accounting, Policies: cfg.Policies, Auth: cfg.Auth,
		Trust: cfg.Trust, Certified: cfg.Certified, Audit: cfg.Audit,
		MaxBody: cfg.MaxBody, Limits: cfg.Limits, Log: cfg.Log, Observe: cfg.Observe, Shed: cfg.Shed,
	})
	if err != nil {
		return nil, err
	}
	services := service.New(calls, &service.Config{
		Admission: cfg.Admission, View: cfg.View, Store: cfg.Store, Accounting: cfg.Accounting, Policies: cfg.Policies,
		Engine: cfg.Engine, Predict: cfg.Predict, Notifier: cfg.Notifier, Logs: cfg.Logs, Sessions: cfg.Sessions,
		Trust: cfg.Trust, Auth: cfg.Auth, AgentService: cfg.AgentService, Secrets: cfg.Secrets, Code: cfg.Code,
		AuditLog: cfg.AuditLog, AuditHistory: cfg.AuditHistory, AuditMarks: cfg.AuditMarks,
		Alert: cfg.Alert, FreeMB: cfg.FreeMB, Ready: cfg.Ready, Now: cfg.Now,
		Version: cfg.Version, Server: cfg.Server, Currency: cfg.Currency, ReuseTenants: cfg.ReuseTenants, Log: cfg.Log,
		Federation: cfg.Federation, FederationService: cfg.FederationService,
	})
	rest, err := rest.New(services, rest.Config{Auth: cfg.Auth, Hosts: cfg.Hosts, MaxBody: cfg.MaxBody, Log: cfg.Log})
	if err != nil {
		return nil, fmt.Errorf("create the REST handler: %w", err)
	}
	return &Server{calls, services, rest}, nil
}

// Close ends every open stream with a message to its reader, and waits briefly
// until the streams have ended. Close does not wait longer, because some
// readers never read the message and running calls need the shutdown time.
// After Close is called, new streams are rejected.
func (d *Server) Close(ctx context.Context) { d.pipeline.Close(ctx) }

// AnswerHub answers a read of this cluster's hub about a job that the hub has granted. See service.Services.
func (d *Server) AnswerHub(ctx context.Context, q *apipb.OwnerRead, attempt int, granted func(context.Context) error, send func(*apipb.ReadAnswer) error) error {
	return d.services.AnswerHub(ctx, q, attempt, granted, send)
}

// ArchivedJob returns a job from history. The error is NotFound if history does not have it.
func (d *Server) ArchivedJob(ctx context.Context, id ares.JobID) (store.Snapshot, error) {
	found, err := d.pipeline.ArchivedJob(ctx, id)
	if err != nil {
		return store.Snapshot{}, err
	}
	return store.Snapshot{Job: found.Job, Run: found.Run}, nil
}

// UnderWay calls the function `each` once for every class of calls that has a limit. It passes
// the name of the class, the number of running calls or streams, and the number of waiting ones.
func (d *Server) UnderWay(each func(class string, open, waiting int)) { d.pipeline.UnderWay(each) }

// HTTP returns the REST handler, with the event streams and the OpenAPI document.
func (d *Server) HTTP() http.Handler { return d.rest }

// streamWorkers is the number of goroutines that stay for the next call. Without them, each call begins with a small stack, and growing it
// costs more than some of the calls. A call that finds all of them busy, for example with streams, gets a goroutine of its own.
const streamWorkers = 64

// GRPC returns a gRPC server with every service. The options in `opts` are added to
// the server's own options.
func (d *Server) GRPC(opts ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.UnaryInterceptor(d.pipeline.Unary),
		grpc.StreamInterceptor(d.pipeline.Streaming),
		grpc.InTapHandle(d.pipeline.Tap),
		grpc.StatsHandler(d.pipeline.StatsHandler()),
		grpc.UnknownServiceHandler(pipeline.NoMethod),
		grpc.MaxRecvMsgSize(pipeline.MaxBatchBody),
		grpc.MaxSendMsgSize(pipeline.MaxAnswer),
		grpc.MaxHeaderListSize(MaxHeaderBytes),
		grpc.MaxConcurrentStreams(maxServerStreams),
		// With windows that grow, a client could make the server buffer 16 MiB of each stream that nobody reads. A large
		// message enlarges the window of its stream when it is read.
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: maxIdle}),
		// Thousands of agents are connected and mostly idle, so the memory of an idle
		// connection matters. Small buffers do not slow down large frames, which
		// bypass the buffers.
		grpc.ReadBufferSize(4 << 10),
		grpc.NumStreamWorkers(streamWorkers),
	}
	s := grpc.NewServer(append(own, opts...)...)
	d.services.Register(d.pipeline.Guard(s))
	return s
}
