package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/control/estimate"
	"github.com/ares-scheduler/ares/control/lifecycle"
	"github.com/ares-scheduler/ares/control/notices"
	"github.com/ares-scheduler/ares/control/scheduler"
	"github.com/ares-scheduler/ares/control/sessionrecording"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/objects/logs"
	"github.com/ares-scheduler/ares/rediscache"
	"github.com/ares-scheduler/ares/store"
)

// Version is the version of this build.
var Version = "dev"

// EndpointsFile is the file in the data directory where the CLI finds the addresses of this server.
const EndpointsFile = "server.json"

// rememberedRevisions is the number of past revisions that a starting server reads. Event streams can therefore resume
// after a restart. The store itself deletes revisions that are more than a few minutes old.
const rememberedRevisions = 4096

// Endpoints are a server's addresses.
type Endpoints struct {
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	Metrics string `json:"metrics"`
	// CA names a file in the data directory. Clients verify the gRPC listener with the certificate in this file. CA is "" if the
	// listener has no TLS or uses a certificate from another authority.
	CA string `json:"ca,omitempty"`
}

// Server is one running Ares process.
type Server struct {
	Endpoints  Endpoints
	AdminToken string // its path
	NodeToken  string // the token itself, for an agent in the same process
	Store      *store.Store
	View       *cache.View
	Admission  *admission.Admission
	Policies   *admission.Policies
	Loop       *scheduler.Loop
	Hub        *federation.Hub    // nil unless the server belongs to a hub
	Uplink     *federation.Uplink // nil at a hub
	Estimator  *estimate.Estimator
	Scorer     *estimate.Scorer
	Audit      *audit.Log
	Accounting *accounting.Accounting
	Code       *code.Code
	logs       *logs.Store // nil if this server stores no output of jobs; noLogs says why
	noLogs     string
	live       *lifecycle.LivePublisher

	sessionRecorder *sessionrecording.Recorder

	marker    *audit.Marker
	markScope string        // of the marker
	recorded  chan struct{} // closed when the recording of decisions has ended, nil without a recording

	cfg      Config
	log      *slog.Logger
	name     string
	ownToken string // this server's token at the other servers of its cluster
	stop     context.CancelFunc
	parts    sync.WaitGroup
	failed   chan error
	auth     *auth.Auth
	trust    *pipeline.Trust
	notifier *notify.Notifier
	notices  *notices.Notices
	hosts    []string // names and addresses of this server
	doors    *api.Server
	opened   chan struct{} // closed when doors is set
	grpc     *grpc.Server
	http     []*http.Server
	close    sync.Once

	shipped   atomic.Pointer[audit.Shipper] // nil until history is prepared
	closing   atomic.Bool
	withAgent atomic.Bool                     // a node agent runs in this process
	loads     atomic.Int64                    // how many parts of the state the view has read
	caughtUp  atomic.Int64                    // a revision up to which the view is complete
	outrun    atomic.Pointer[ares.Error]      // why this server must not lead, nil if it may
	mark      *revisionMark                   // the highest revision of the store that this server has seen
	unnoted   atomic.Pointer[unnotedRollback] // noticed by this server, nil if none
	ahead     aheadNodes                      // nodes that claim a higher one
	refused   atomic.Pointer[refusedCluster]
	redisAway atomic.Bool        // calls to Redis are suspended for now
	resign    context.CancelFunc // ends the loop
}

// Start assembles a server and starts it. Start returns once every listener is open and the state is loaded.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if policy := cfg.engine().Placement; !score.Registered(policy) {
		return nil, fmt.Errorf("this program does not include the placement policy %q: use the standard ares program, or leave scheduler.placement empty", policy)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	s := &Server{cfg: cfg, log: log, failed: make(chan error, 16), opened: make(chan struct{})}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.start(ctx, run); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx, run context.Context) error {
	s.View = cache.NewView(time.Now)
	m := newMetrics(s.View)
	etcdTLS, err := s.cfg.Etcd.tls()
	if err != nil {
		return err
	}
	s.Store, err = store.Open(ctx, store.Config{
		Dir: storeDir(s.cfg.DataDir), Endpoints: s.cfg.Etcd.Endpoints, TLS: etcdTLS,
		Username: s.cfg.Etcd.Username, Password: s.cfg.Etcd.Password,
		Timeout: time.Duration(s.cfg.Etcd.TimeoutSeconds) * time.Second, Log: s.log, Observe: m.stored,
		ReservedLabels: s.cfg.PKI.ReservedLabels,
	})
	if err != nil {
		return err
	}
	if err = s.register(ctx); err != nil {
		return err
	}
	if err = s.openAudit(ctx, run, m); err != nil {
		return err
	}
	listeners, err := s.listen(ctx)
	if err != nil {
		return err
	}
	if err = s.openAuthority(ctx, run); err != nil {
		listeners.close()
		return err
	}
	s.Admission = s.newAdmission()
	if err = s.startPolicies(run, m); err != nil {
		listeners.close()
		return err
	}
	if err = s.openHistory(); err != nil {
		listeners.close()
		return err
	}
	shipped := s.shipAudit(run, m)
	s.startMarker(run, m)
	s.startEstimator(ctx, run, m)
	s.Admission.Predict = s.Estimator.Predict
	alert := s.startLoop(run, m)
	s.Policies.Spent = s.Loop.Spent
	beside, err := s.startRedis(run, m)
	if err != nil {
		listeners.close()
		return err
	}
	if err = s.openDoors(m, alert, beside, shipped); err != nil {
		listeners.close()
		return err
	}
	s.runPart("view", func() error {
		return s.View.Run(run, &store.Past{Store: s.Store, Revisions: rememberedRevisions, Progress: func() { s.loads.Add(1) }}, func(err error) { s.log.Warn("the store cannot be watched", "error", err) })
	})
	if err = s.loadView(ctx); err != nil {
		listeners.close()
		return err
	}
	s.serve(listeners, m)
	return s.writeEndpoints()
}

func (s *Server) newAdmission() *admission.Admission {
	a := &admission.Admission{
		Store: s.Store, View: s.View, Now: time.Now, MinLostAfter: s.cfg.SessionTTL(0),
		Hub: s.cfg.isHub(), MaxQueue: s.cfg.Scheduler.MaxQueueSize, NoGangs: !s.cfg.Scheduler.EnableGangScheduling,
		DeadlinePolicy: admission.DeadlinePolicy(s.cfg.Scheduler.InfeasibleDeadlines),
		DefaultCPUs:    s.cfg.Scheduler.DefaultCPUCores, DefaultMemoryMB: s.cfg.Scheduler.DefaultMemoryMB,
	}
	if !s.cfg.isHub() { // a hub has no nodes from which it could tell what can never run
		a.Feasibility = admission.NewFeasibility(s.View, s.Store.Written)
	}
	return a
}

// This method compares the store with this server's revision mark, and then ensures that the store has the default tenant and
// this server's tokens. The comparison comes first: those writes could let a store reach the mark from which few revisions
// were lost. The method also compares the keys of the store's secrets with this server's keys.
func (s *Server) register(ctx context.Context) error {
	id, err := serverID(s.cfg.DataDir)
	if err != nil {
		return err
	}
	s.name = id
	if err = s.openMark(ctx); err != nil {
		return fmt.Errorf("name the store: %w", err)
	}
	tenant := ares.Tenant{
		ID: ares.DefaultTenant, Name: "Default", Limits: ares.NoLimits(), Weight: 1, MayPreempt: true, CreatedAt: time.Now(),
	}
	if err = s.Store.RegisterTenant(ctx, tenant); err != nil {
		return fmt.Errorf("make the default tenant: %w", err)
	}
	if s.ownToken, err = ensureToken(ctx, s.Store, s.cfg.DataDir, AdminTokenFile, auth.RoleAdmin, id); err != nil {
		return err
	}
	s.AdminToken = filepath.Join(s.cfg.DataDir, AdminTokenFile)
	if s.NodeToken, err = ensureToken(ctx, s.Store, s.cfg.DataDir, NodeTokenFile, auth.RoleNode, id); err != nil {
		return err
	}
	s.checkSecretKeys(ctx)
	return nil
}

// startLoop starts the scheduling loop, or the hub's loop. On the leader, the Reaper, Drainer and Archiver also run; a hub has
// no nodes, so it runs the Archiver only. The returned function
// `alert` returns a warning for administrators about the state of the cluster.
func (s *Server) startLoop(run context.Context, m *serverMetrics) (alert func() string) {
	whole := run
	run, s.resign = context.WithCancel(run)
	s.startMark(whole) // after this server has resigned, too: it may still have to tell the others why
	decisions := &lifecycle.Journal{Path: filepath.Join(s.cfg.DataDir, "decisions.jsonl"), MaxBytes: 64 << 20}
	archive := &lifecycle.Journal{Path: filepath.Join(s.cfg.DataDir, "archive.jsonl"), Sync: true}
	reaper := &lifecycle.Reaper{
		Store: s.Store, View: s.View, TTL: s.cfg.SessionTTL(0), Now: time.Now, Log: s.log, BrakePercent: s.cfg.Sessions.BrakePercent,
	}
	reaper.Feed()
	drainer := &lifecycle.Drainer{Store: s.Store, View: s.View, Now: time.Now, Log: s.log}
	recorder := &lifecycle.Archiver{
		Store: s.Store, View: s.View, Archive: archive, Now: time.Now, Log: s.log, Every: time.Minute,
		ArchiveAfter: time.Duration(s.cfg.Jobs.ArchiveAfterMinutes) * time.Minute,
		RememberFor:  time.Duration(s.cfg.Jobs.RememberDays) * 24 * time.Hour,
	}
	s.startHistory(recorder, m)
	s.Code = s.openCode(run)
	s.sessionRecorder = s.newSessionRecorder()
	s.Admission.Code = s.Code
	s.logs, s.noLogs = s.openLogs(run)
	m.watchLogs(s.logs)
	s.Loop = scheduler.NewLoop(s.View, s.cfg.engine())
	recorder.AddUsage = s.Loop.AddUsage
	s.Loop.Store, s.Loop.Server, s.Loop.Now, s.Loop.Log, s.Loop.Observe = s.Store, s.name, time.Now, s.log, m.decided
	s.Loop.Decided = m.scheduler.ObservePlan
	m.watchLoop(s.Loop)
	s.Loop.TTL = time.Duration(s.cfg.Scheduler.LeaderTTLSeconds) * time.Second
	s.Loop.Interval = time.Duration(s.cfg.Scheduler.SchedulingIntervalMS) * time.Millisecond
	if s.cfg.Scheduler.CheckLaws {
		s.Loop.Judge = m.checkLaws(s.log)
	}
	s.Loop.Record = func(d scheduler.Decision) {
		if err := decisions.Append(d); err != nil {
			s.log.Error("record a decision", "error", err)
		}
	}
	parts := map[string]func(context.Context, *store.Leadership) error{
		"recorder": recorder.Run, "live jobs": s.live.Run, "estimator": s.Estimator.Lead, "code": s.Code.Lead, "session recordings": s.sessionRecorder.Lead, "stored logs": s.collectLogs, "notifications": s.notices.Lead,
	}
	hold := &scheduler.RestoreDelay{Store: s.Store, Log: s.log}
	lead := s.Loop.Run
	if s.cfg.isHub() {
		s.Hub = s.newHub(parts)
		m.registry.MustRegister(newHubMetrics(s.View))
		s.Hub.Before, s.Hub.Observe = s.beforeLeading(hold.Wait), m.decided
		lead = s.Hub.Run
	} else {
		s.startRecording(run, m)
		s.Uplink = s.newUplink()
		parts["drainer"], parts["scorer"], parts["reaper"], parts["uplink"] = drainer.Run, s.Scorer.Lead, reaper.Run, s.runMembership
		s.Loop.Before = s.beforeLeading(hold.Wait)
		s.Loop.WhileLeading = func(ctx context.Context, lead *store.Leadership) error {
			defer m.scheduler.Recovery.Lead()()
			return s.runParts(ctx, lead, parts)
		}
	}
	s.runPart("loop", func() error {
		err := lead(run)
		return errors.Join(err, decisions.Close(), archive.Close())
	})
	return func() string {
		if why := s.outrun.Load(); why != nil {
			return why.Error()
		}
		return cmp.Or(hold.Alert(), reaper.Alert(), s.ahead.alert(time.Now()), s.clusterAlert(time.Now()), s.auditAlert())
	}
}

// startEstimator starts the Estimator with its stored state. The Estimator predicts runtimes. The method also starts
// the scoring of nodes. If the stored state cannot be read, the Estimator starts learning from scratch. No other part
// of the server depends on the Estimator.
func (s *Server) startEstimator(ctx, run context.Context, m *serverMetrics) {
	s.Estimator = estimate.NewEstimator(s.View)
	s.Estimator.Store, s.Estimator.Now, s.Estimator.Log = s.Store, time.Now, s.log
	if err := s.Estimator.Load(ctx); err != nil {
		s.log.Warn("the stored runtime estimates are lost", "error", err)
	}
	m.registry.MustRegister(forecastMetrics{s.Estimator})
	s.runPart("estimator", func() error { return s.Estimator.Run(run) })
	s.Scorer = estimate.NewScorer(s.View)
	s.Scorer.Store, s.Scorer.Now, s.Scorer.Log = s.Store, time.Now, s.log
	s.runPart("scorer", func() error { return s.Scorer.Run(run) })
}

// Advertised returns the address at which other machines reach this server's gRPC listener.
func (s *Server) Advertised() string { return cmp.Or(s.cfg.AdvertiseAddr, s.Endpoints.GRPC) }

func (s *Server) openDoors(m *serverMetrics, alert func() string, beside *rediscache.Redis, shipped *shippedAudit) error {
	advertise := s.Advertised()
	peers, err := s.peers()
	if err != nil {
		return err
	}
	if s.auth, err = s.cfg.Auth.open(s.Store); err != nil {
		return err
	}
	s.View.Feed(s.auth.Apply)
	secrets := s.secrets()
	s.Admission.Secrets = secrets
	files := &service.Files{View: s.View, Server: advertise, TLS: peers, Stored: s.logs}
	var source service.LogSource
	var sessions *service.Sessions
	if s.Hub == nil {
		source, sessions = files, &service.Sessions{Files: files, Recorder: s.sessionRecorder}
	}
	limits := s.cfg.Limits.api()
	if beside != nil {
		limits.Rate.Shared, limits.TenantRate.Shared = beside, beside
	}
	s.doors, err = api.New(api.Config{
		Policies: s.Policies, Notifier: s.notifier,
		Admission: s.Admission, View: s.View, Store: s.Store, Engine: s.Loop, Predict: s.Estimator.Predict, Alert: alert, Ready: s.ready,
		Auth: s.auth, Now: time.Now, Version: Version, Server: s.name, Hosts: s.hosts, Trust: s.trust,
		Logs: source, Sessions: sessions, Log: s.log, Observe: m.observeCall, Limits: limits, Shed: m.countShed, FreeMB: s.freeMB,
		Audit: s.Audit, AuditLog: s.Audit, AuditHistory: shipped, AuditMarks: s.auditMarks(shipped), Accounting: s.Accounting, Currency: s.cfg.History.Currency,
		ReuseTenants: s.cfg.Jobs.ReuseTenantIDs,
		Secrets:      secrets, Code: s.Code,
		Federation: s.federation(), FederationService: s.hubService(),
		AgentService: &service.AgentService{
			Secrets: secrets, Code: s.Code, Logs: s.logs, NoLogs: s.noLogs,
			Store: s.Store, View: s.View, Files: files, Sessions: sessions, Server: advertise, TTL: s.cfg.SessionTTL, Now: time.Now, Claimed: m.claims.Inc, RevisionClaimed: s.revisionClaimed,
		},
	})
	if err == nil {
		m.watchDoors(s.doors)
		close(s.opened)
	}
	return err
}

// runPart runs one part of the server until the part returns or the server stops.
func (s *Server) runPart(name string, run func() error) {
	s.parts.Go(func() {
		if err := run(); err != nil {
			s.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
}

// Err returns the error of a part that has failed. The server should then be closed.
func (s *Server) Err() <-chan error { return s.failed }

// maxClosing is the maximum time that open streams and calls may take to end.
const maxClosing = 5 * time.Second

// Close stops the parts of the server in a fixed order. First, Close reports the server as not ready. It then gives up
// leadership, so that another server can lead. After that, Close removes the endpoints file, ends streams and waits for
// open calls. Close closes the store last.
func (s *Server) Close() {
	s.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxClosing)
		defer cancel()
		s.closing.Store(true)
		if s.resign != nil {
			s.resign()
		}
		s.awaitRecording(ctx)
		s.removeEndpoints()
		if s.doors != nil {
			s.doors.Close(ctx)
		}
		s.drain(ctx)
		s.stop()
		s.parts.Wait()
		s.closeMark()
		s.markLast()
		s.closeHistory()
		s.closeCode()
		if s.Store != nil {
			if err := s.Store.Close(); err != nil {
				s.log.Warn("close the store", "error", err)
			}
		}
	})
}

// This method waits until open calls have ended, and cuts off calls that do not end in time. The method handles all
// listeners at the same time. A slow client on one listener therefore does not shorten the time for the others.
func (s *Server) drain(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, h := range s.http {
		wg.Go(func() {
			if err := h.Shutdown(ctx); err != nil {
				_ = h.Close() // a client that does not disconnect is cut off
			}
		})
	}
	if s.grpc != nil {
		wg.Go(func() {
			defer context.AfterFunc(ctx, s.grpc.Stop)()
			s.grpc.GracefulStop()
		})
	}
}

type listeners struct{ http, grpc, metrics net.Listener }

func (l listeners) close() {
	for _, c := range []net.Listener{l.http, l.grpc, l.metrics} {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (s *Server) listen(ctx context.Context) (l listeners, err error) {
	var lc net.ListenConfig
	for _, one := range []struct {
		what, flag, addr string
		to               *net.Listener
		said             *string
	}{
		{"REST", "--http-addr", s.cfg.HTTPAddr, &l.http, &s.Endpoints.HTTP},
		{"gRPC", "--grpc-addr", s.cfg.GRPCAddr, &l.grpc, &s.Endpoints.GRPC},
		{"metrics", "--metrics-addr", s.cfg.MetricsAddr, &l.metrics, &s.Endpoints.Metrics},
	} {
		if *one.to, err = lc.Listen(ctx, "tcp", one.addr); err != nil {
			l.close()
			return l, fmt.Errorf("listen for %s: %w (choose another address with %s)", one.what, err, one.flag)
		}
		*one.said = (*one.to).Addr().String()
	}
	return l, nil
}

func (s *Server) serve(l listeners, m *serverMetrics) {
	limits := &s.cfg.Limits
	s.fitOpenFiles(limits)
	rest := m.limitConnections("http", l.http, limits.HTTPConnections, limits.ConnectionsPerAddress)
	calls := m.limitConnections("grpc", l.grpc, limits.GRPCConnections, limits.ConnectionsPerAddress)
	scrapes := m.limitConnections("metrics", l.metrics, maxMetricsConnections, limits.ConnectionsPerAddress)
	opts := calls.grpcOptions()
	if config := s.grpcTLS(); config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	s.grpc = s.doors.GRPC(opts...)
	s.runPart("grpc", func() error { return s.grpc.Serve(calls) })
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.guardMetrics(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})))
	for name, h := range map[string]struct {
		listener *connections
		handler  http.Handler
		tls      *tls.Config
	}{
		"http":    {rest, s.doors.HTTP(), s.tlsFor(s.Endpoints.HTTP)},
		"metrics": {scrapes, mux, s.tlsFor(s.Endpoints.Metrics)},
	} {
		srv := &http.Server{
			Handler: h.handler, TLSConfig: h.tls, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: api.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
			HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxHTTP2Streams, SendPingTimeout: 30 * time.Second, PingTimeout: 10 * time.Second},
		}
		if name == "metrics" { // the API has a limit for each message instead, because its streams stay open
			srv.WriteTimeout = pipeline.MaxWriteWait
		}
		h.listener.watch(srv)
		s.http = append(s.http, srv)
		s.runPart(name, func() error {
			var err error
			if h.tls != nil {
				err = srv.ServeTLS(h.listener, "", "")
			} else {
				err = srv.Serve(h.listener)
			}
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		})
	}
}

func (s *Server) writeEndpoints() error {
	data, err := json.Marshal(s.Endpoints)
	if err != nil {
		return err
	}
	path := filepath.Join(s.cfg.DataDir, EndpointsFile)
	if err = os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("write %s: %w", EndpointsFile, err)
	}
	return nil
}

// removeEndpoints removes the endpoints file, unless another server has replaced it. With an external store, several servers may share a
// data directory.
func (s *Server) removeEndpoints() {
	path := filepath.Join(s.cfg.DataDir, EndpointsFile)
	data, err := os.ReadFile(path)
	var said Endpoints
	if err != nil || json.Unmarshal(data, &said) != nil || said != s.Endpoints {
		return
	}
	if err = os.Remove(path); err != nil {
		s.log.Warn("remove the endpoints file", "error", err)
	}
}

func (c *EtcdConfig) tls() (*tls.Config, error) {
	if c.CAFile == "" && c.CertFile == "" {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the etcd client certificate: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	if c.CAFile != "" {
		pool, err := readCA(c.CAFile)
		if err != nil {
			return nil, err
		}
		out.RootCAs = pool
	}
	return out, nil
}

func readCA(path string) (*x509.CertPool, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("read the CA certificate: %s contains no certificate", path)
	}
	return pool, nil
}
