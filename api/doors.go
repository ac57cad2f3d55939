package api

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store"
)

// Config says what stands behind the doors.
type Config struct {
	Desk  *control.Desk
	View  *control.View
	Store *store.Store
	// Ledger finds jobs that are no longer live, and what was used. Without it
	// there is no history.
	Ledger *control.Ledger
	// Currency is what prices are in, such as USD.
	Currency string
	// Engine says why jobs wait and where they would go.
	Engine Engine
	// Predict says how long a job will run. Without it nobody does.
	Predict func(*ares.Job) ares.RuntimePredicted
	// Policies are the rules people wrote. Without them there are none.
	Policies *control.Policies
	// Notifier sends alerts. Without it there is no channel.
	Notifier Notifier
	// Alert says what people should know of the whole, "" for nothing. May be nil.
	Alert func() string
	// FreeMB is the free space of the data directory. May be nil.
	FreeMB func() int64
	// Ready says whether the server may be sent work. Default: the store answers.
	Ready func(context.Context) error
	Auth  *auth.Auth
	// Now is the clock of what is written. Default time.Now.
	Now func() time.Time
	// Version of the server; Server is its name, the gRPC address it advertises.
	Version, Server string
	// Hosts are names this server is reached by, beside those of the loopback.
	Hosts []string
	// Logs reads what jobs printed. Without it logs are unavailable.
	Logs LogSource
	// AgentService is the door for node agents; registered unless it is nil.
	AgentService apipb.AgentServiceServer
	// Trust is by what nodes are certified.
	Trust *Trust
	// Certified says whom a verified client certificate speaks for: an identity of
	// kind ares.ByCert. Default: what Trust says.
	Certified func(ctx context.Context, leaf *x509.Certificate) (ares.Identity, error)
	// Log default: nothing is logged. Neither tokens nor environments are.
	Log *slog.Logger
	// Observe is told each call's method, code ("" for success) and duration.
	// May be nil.
	Observe func(method string, code ares.Code, took time.Duration)
	// MaxBody bounds a request other than a batch. Default DefaultMaxBody.
	MaxBody int64
	// Limits of what is under way at once. Default DefaultLimits.
	Limits Limits
	// Audit keeps what callers did and were refused. Without it nobody does.
	Audit Auditor
	// AuditLog is what AuditService tells of. Without it that is unavailable.
	AuditLog AuditLog
	// AuditHistory has the entries of all servers. Without it AuditLog is asked.
	AuditHistory AuditHistory
	// Shed is told the class of each call that was turned away. May be nil.
	Shed func(class string)
}

// Doors are the ways into one server. They start nothing by themselves: the
// server serves GRPC and HTTP, and calls Close before it stops them.
type Doors struct {
	cfg      Config
	validate protovalidate.Validator
	hosts    map[string]bool
	gates    *gates
	life     context.Context // ends with Close
	end      context.CancelFunc
	rest     http.Handler
	ready    readiness
	began    time.Time

	heartbeat, recheck, writeWait, viewWait time.Duration // constants, but for tests
}

// New makes the doors.
func New(cfg Config) (*Doors, error) {
	if cfg.Desk == nil || cfg.View == nil || cfg.Store == nil || cfg.Engine == nil || cfg.Auth == nil || cfg.Trust == nil {
		return nil, fmt.Errorf("api: Desk, View, Store, Engine, Auth and Trust are required")
	}
	if cfg.Certified == nil {
		cfg.Certified = cfg.Trust.identify
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	clock := cfg.Now // as fine as the store keeps it, so that what is read is what was written
	cfg.Now = func() time.Time { return clock().Truncate(time.Microsecond) }
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = cfg.Store.Ready
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = DefaultLimits()
	}
	validate, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("make the validator: %w", err)
	}
	d := &Doors{
		cfg: cfg, validate: validate, hosts: map[string]bool{}, began: time.Now(),
		gates:     newGates(cfg.Limits, cfg.Shed),
		heartbeat: heartbeatEvery, recheck: recheckEvery, writeWait: maxWriteWait, viewWait: maxViewWait,
	}
	for _, h := range cfg.Hosts {
		d.hosts[hostname(h)] = true
	}
	d.life, d.end = context.WithCancel(context.Background())
	if d.rest, err = d.newREST(); err != nil {
		return nil, fmt.Errorf("make the REST door: %w", err)
	}
	return d, nil
}

// Close ends every open stream with a word to its reader, and waits for them,
// but not for long: a reader that does not read cannot be told, and the time of a
// shutdown is for calls under way. New streams are refused.
func (d *Doors) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, maxEnding)
	defer cancel()
	d.end()
	for _, g := range []*gate{d.gates.events, d.gates.logs, d.gates.dumps, d.gates.backups} {
		g.close(ctx)
	}
}

// HTTP is the REST door, with the event streams and the OpenAPI document.
func (d *Doors) HTTP() http.Handler { return d.rest }

// GRPC makes a gRPC server with every service. Options are added to its own.
func (d *Doors) GRPC(opts ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.UnaryInterceptor(d.unary),
		grpc.StreamInterceptor(d.streaming),
		grpc.InTapHandle(d.tapped),
		grpc.StatsHandler(outside{d}),
		grpc.UnknownServiceHandler(noMethod),
		grpc.MaxRecvMsgSize(MaxBatchBody),
		grpc.MaxSendMsgSize(MaxAnswer),
		grpc.MaxHeaderListSize(MaxHeaderBytes),
		grpc.MaxConcurrentStreams(maxServerStreams),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: maxIdle}),
		// Thousands of agents are connected and say little: what a connection holds
		// while nothing is said counts, and large frames pass small buffers by.
		grpc.ReadBufferSize(4 << 10),
	}
	s := grpc.NewServer(append(own, opts...)...)
	d.register(s)
	return s
}

// register adds the services, to a server or to the in-process connection.
func (d *Doors) register(s grpc.ServiceRegistrar) {
	apipb.RegisterJobServiceServer(s, &jobDoor{Doors: d})
	apipb.RegisterTenantServiceServer(s, &tenantDoor{Doors: d})
	apipb.RegisterClusterServiceServer(s, &clusterDoor{Doors: d})
	apipb.RegisterQueueServiceServer(s, &queueDoor{Doors: d})
	apipb.RegisterTopologyServiceServer(s, &topologyDoor{Doors: d})
	apipb.RegisterReservationServiceServer(s, &reservationDoor{Doors: d})
	apipb.RegisterIdentityServiceServer(s, &identityDoor{Doors: d})
	apipb.RegisterTrustServiceServer(s, &trustDoor{Doors: d, Trust: d.cfg.Trust})
	apipb.RegisterAuditServiceServer(s, &auditDoor{Doors: d})
	apipb.RegisterPolicyServiceServer(s, &policyDoor{Doors: d})
	apipb.RegisterHistoryServiceServer(s, &historyDoor{Doors: d})
	if d.cfg.AgentService != nil {
		apipb.RegisterAgentServiceServer(s, d.cfg.AgentService)
	}
}
