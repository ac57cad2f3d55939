package api

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/store"
)

// The limits of the doors. Everything a caller can send or hold has one.
const (
	// DefaultMaxBody bounds a request, as JSON or protobuf. A stored job is at
	// most 32 KiB, so this is for mistakes to be told, not for large jobs.
	DefaultMaxBody = 1 << 20
	// MaxBatchBody bounds a batch of jobs, and any gRPC message.
	MaxBatchBody = 16 << 20
	// MaxBatch is how many jobs one batch may hold; the contract says so too.
	MaxBatch = 1000
	// MaxAnswer bounds a gRPC answer.
	MaxAnswer = 32 << 20
	// MaxHeaderBytes bounds the headers of one request. For HTTP the server
	// sets http.Server.MaxHeaderBytes to it.
	MaxHeaderBytes = 64 << 10
	// DefaultPageSize and MaxPageSize are of lists. A page ends early when it
	// would pass MaxPageBytes.
	DefaultPageSize = 100
	MaxPageSize     = 1000
	MaxPageBytes    = 8 << 20
	// MaxEventStreams and MaxLogStreams bound what is open on one server.
	MaxEventStreams = 256
	MaxLogStreams   = 256
	// MaxBackups bounds the backups under way on one server.
	MaxBackups = 2

	maxTokenBytes    = 512
	maxExplained     = 100     // jobs of one page whose waiting is explained
	maxDrain         = 4 << 20 // of a body that is too large, so that the refusal is read
	maxListWait      = 5 * time.Second
	maxReadyWait     = 2 * time.Second
	readyFor         = 250 * time.Millisecond // anybody may ask, so the store is not asked each time
	maxWriteWait     = 30 * time.Second       // for the reader of a stream to take one message
	heartbeatEvery   = 15 * time.Second
	recheckEvery     = time.Minute
	maxServerStreams = 1024 // of one gRPC connection
)

// Config says what stands behind the doors.
type Config struct {
	Desk  *control.Desk
	View  *control.View
	Store *store.Store
	// Explain says why a job waits. May be nil.
	Explain func(ares.JobID) ares.Refusal
	// Alert says what people should know of the whole, "" for nothing. May be nil.
	Alert func() string
	// FreeMB is the free space of the data directory. May be nil.
	FreeMB func() int64
	// Ready says whether the server may be sent work. Default: the store answers.
	Ready func(context.Context) error
	Auth  *Auth
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
	// Log default: nothing is logged. Neither tokens nor environments are.
	Log *slog.Logger
	// Observe is told each call's method, code ("" for success) and duration.
	// May be nil.
	Observe func(method string, code ares.Code, took time.Duration)
	// MaxBody bounds a request other than a batch. Default DefaultMaxBody.
	MaxBody int64
}

// Doors are the ways into one server. They start nothing by themselves: the
// server serves GRPC and HTTP, and calls Close before it stops them.
type Doors struct {
	cfg      Config
	validate protovalidate.Validator
	hosts    map[string]bool
	events   *streams
	logs     *streams
	backups  *streams
	life     context.Context // ends with Close
	end      context.CancelFunc
	rest     http.Handler
	ready    readiness
	began    time.Time

	heartbeat, recheck time.Duration // constants, but for tests
}

// New makes the doors.
func New(cfg Config) (*Doors, error) {
	if cfg.Desk == nil || cfg.View == nil || cfg.Store == nil || cfg.Auth == nil {
		return nil, fmt.Errorf("api: Desk, View, Store and Auth are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ready == nil {
		cfg.Ready = cfg.Store.Ready
	}
	if cfg.MaxBody <= 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	validate, err := protovalidate.New()
	if err != nil {
		return nil, fmt.Errorf("make the validator: %w", err)
	}
	d := &Doors{
		cfg: cfg, validate: validate, hosts: map[string]bool{}, began: time.Now(),
		events: newStreams("event", MaxEventStreams), logs: newStreams("log", MaxLogStreams),
		backups:   newStreams("backup", MaxBackups),
		heartbeat: heartbeatEvery, recheck: recheckEvery,
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

// Close ends every open stream with a word to its reader, and waits for them
// or for ctx: a reader that does not read cannot be told. New streams are
// refused.
func (d *Doors) Close(ctx context.Context) {
	d.end()
	d.events.close(ctx)
	d.logs.close(ctx)
	d.backups.close(ctx)
}

// HTTP is the REST door, with the event streams and the OpenAPI document.
func (d *Doors) HTTP() http.Handler { return d.rest }

// GRPC makes a gRPC server with every service. Options are added to its own.
func (d *Doors) GRPC(opts ...grpc.ServerOption) *grpc.Server {
	own := []grpc.ServerOption{
		grpc.UnaryInterceptor(d.unary),
		grpc.StreamInterceptor(d.streaming),
		grpc.MaxRecvMsgSize(MaxBatchBody),
		grpc.MaxSendMsgSize(MaxAnswer),
		grpc.MaxHeaderListSize(MaxHeaderBytes),
		grpc.MaxConcurrentStreams(maxServerStreams),
		grpc.ConnectionTimeout(10 * time.Second),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
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
	if d.cfg.AgentService != nil {
		apipb.RegisterAgentServiceServer(s, d.cfg.AgentService)
	}
}
