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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/aside"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/engine/cluster/score"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// Version of this build.
var Version = "dev"

// EndpointsFile in the data directory tells the CLI where this server listens.
const EndpointsFile = "server.json"

// rememberedRevisions is how far back a starting server looks, so that event
// streams resume over its restart. The store itself forgets after minutes.
const rememberedRevisions = 4096

// Endpoints are a server's addresses.
type Endpoints struct {
	HTTP    string `json:"http"`
	GRPC    string `json:"grpc"`
	Metrics string `json:"metrics"`
	// CA is the file in the data directory that the gRPC door is verified by, ""
	// where it has no TLS or a certificate that somebody else has signed.
	CA string `json:"ca,omitempty"`
}

// Server is one running Ares process.
type Server struct {
	Endpoints  Endpoints
	AdminToken string // its path
	NodeToken  string // the token itself, for an agent in the same process
	Store      *store.Store
	View       *control.View
	Desk       *control.Desk
	Policies   *control.Policies
	Loop       *control.Loop
	Estimator  *control.Estimator
	Scorer     *control.Scorer
	Audit      *audit.Log
	Ledger     *control.Ledger

	cfg      Config
	log      *slog.Logger
	name     string
	stop     context.CancelFunc
	parts    sync.WaitGroup
	failed   chan error
	auth     *auth.Auth
	trust    *api.Trust
	notifier *notify.Notifier
	hosts    []string // names and addresses of this server
	doors    *api.Doors
	grpc     *grpc.Server
	http     []*http.Server
	close    sync.Once

	shipped   atomic.Pointer[audit.Shipper] // nil until history is prepared
	closing   atomic.Bool
	caughtUp  atomic.Int64               // a revision up to which the view misses nothing
	outrun    atomic.Pointer[ares.Error] // why this server must not lead, nil when it may
	redisAway atomic.Bool                // it is left alone for now
	resign    context.CancelFunc         // ends the loop for good
}

// Start assembles a server and starts it. It returns once every listener is
// open and the state is loaded.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if policy := cfg.engine().Placement; !score.Registered(policy) {
		return nil, fmt.Errorf("scheduler.placement %q is not linked into this program: use the program ares, or leave it empty", policy)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	s := &Server{cfg: cfg, log: log, failed: make(chan error, 16)}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.start(ctx, run); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx, run context.Context) error {
	s.View = control.NewView(time.Now)
	m := newMetrics(s.View)
	etcdTLS, err := s.cfg.Etcd.tls()
	if err != nil {
		return err
	}
	s.Store, err = store.Open(ctx, store.Config{
		Dir: storeDir(s.cfg.DataDir), Endpoints: s.cfg.Etcd.Endpoints, TLS: etcdTLS,
		Username: s.cfg.Etcd.Username, Password: s.cfg.Etcd.Password,
		Timeout: time.Duration(s.cfg.Etcd.TimeoutSeconds) * time.Second, Log: s.log, Observe: m.stored,
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
	if err = s.establish(ctx, run); err != nil {
		listeners.close()
		return err
	}
	s.Desk = &control.Desk{
		Store: s.Store, View: s.View, Now: time.Now, MinLostAfter: s.cfg.SessionTTL(0),
		Fleet:    control.NewFleet(s.View),
		MaxQueue: s.cfg.Scheduler.MaxQueueSize, NoGangs: !s.cfg.Scheduler.EnableGangScheduling,
		Infeasible: control.Infeasible(s.cfg.Scheduler.InfeasibleDeadlines),
	}
	if err = s.startPolicies(run, m); err != nil {
		listeners.close()
		return err
	}
	if err = s.openHistory(); err != nil {
		listeners.close()
		return err
	}
	shipped := s.shipAudit(run, m)
	s.startEstimator(ctx, run, m)
	s.Desk.Predict = s.Estimator.Predict
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
	s.part("view", func() error {
		return s.View.Run(run, &store.Past{Store: s.Store, Revisions: rememberedRevisions}, func(err error) { s.log.Warn("the store cannot be watched", "error", err) })
	})
	if err = s.load(ctx); err != nil {
		listeners.close()
		return err
	}
	s.serve(listeners, m)
	return s.writeEndpoints()
}

// load waits until the view, which begins in the past, has come to the
// present. Nobody is served before: limits would be judged by, and lists show,
// what is long over.
func (s *Server) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	now, err := s.Store.Revision(ctx)
	if err != nil {
		return err
	}
	if err = s.View.WaitFor(ctx, now); err != nil {
		return fmt.Errorf("load the state: %w", err)
	}
	return nil
}

// register makes what every server needs in the store: the default tenant and
// this server's tokens.
func (s *Server) register(ctx context.Context) error {
	id, err := serverID(s.cfg.DataDir)
	if err != nil {
		return err
	}
	s.name = id
	if _, _, err = s.Store.Identity(ctx); err != nil {
		return fmt.Errorf("name the store: %w", err)
	}
	tenant := ares.Tenant{
		ID: ares.DefaultTenant, Name: "Default", Limits: ares.NoLimits(), Weight: 1, MayPreempt: true, CreatedAt: time.Now(),
	}
	if err = s.Store.RegisterTenant(ctx, tenant); err != nil {
		return fmt.Errorf("make the default tenant: %w", err)
	}
	if _, err = ensureToken(ctx, s.Store, s.cfg.DataDir, AdminTokenFile, auth.RoleAdmin, id); err != nil {
		return err
	}
	s.AdminToken = filepath.Join(s.cfg.DataDir, AdminTokenFile)
	s.NodeToken, err = ensureToken(ctx, s.Store, s.cfg.DataDir, NodeTokenFile, auth.RoleNode, id)
	return err
}

// startLoop starts the loop; reaper, drainer and recorder run beside it on the leader.
// It returns what people should know of the whole.
func (s *Server) startLoop(run context.Context, m *metrics) (alert func() string) {
	run, s.resign = context.WithCancel(run)
	decisions := &control.Journal{Path: filepath.Join(s.cfg.DataDir, "decisions.jsonl"), MaxBytes: 64 << 20}
	archive := &control.Journal{Path: filepath.Join(s.cfg.DataDir, "archive.jsonl"), Sync: true}
	reaper := &control.Reaper{
		Store: s.Store, View: s.View, TTL: s.cfg.SessionTTL(0), Now: time.Now, Log: s.log, BrakePercent: s.cfg.Sessions.BrakePercent,
	}
	drainer := &control.Drainer{Store: s.Store, View: s.View, Now: time.Now, Log: s.log}
	recorder := &control.Recorder{
		Store: s.Store, View: s.View, Archive: archive, Now: time.Now, Log: s.log, Every: time.Minute,
		ArchiveAfter: time.Duration(s.cfg.Jobs.ArchiveAfterMinutes) * time.Minute,
		RememberFor:  time.Duration(s.cfg.Jobs.RememberDays) * 24 * time.Hour,
	}
	s.remember(recorder, m)
	s.Loop = control.NewLoop(s.View, s.cfg.engine())
	recorder.Fold = s.Loop.Fold
	s.Loop.Store, s.Loop.Server, s.Loop.Now, s.Loop.Log, s.Loop.Observe = s.Store, s.name, time.Now, s.log, m.decided
	s.Loop.Decided = m.topology.decided
	s.Loop.TTL = time.Duration(s.cfg.Scheduler.LeaderTTLSeconds) * time.Second
	s.Loop.Interval = time.Duration(s.cfg.Scheduler.SchedulingIntervalMS) * time.Millisecond
	if s.cfg.Scheduler.CheckLaws {
		s.Loop.Judge = m.judge(s.log)
	}
	s.Loop.Record = func(d control.Decision) {
		if err := decisions.Append(d); err != nil {
			s.log.Error("record a decision", "error", err)
		}
	}
	s.record(run)
	hold := &control.Hold{Store: s.Store, Log: s.log}
	s.Loop.Before = hold.Wait
	s.Loop.Beside = func(ctx context.Context, lead *store.Leadership) error {
		var wg sync.WaitGroup
		defer wg.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for name, part := range map[string]func(context.Context, *store.Leadership) error{
			"recorder": recorder.Run, "drainer": drainer.Run, "estimator": s.Estimator.Lead, "scorer": s.Scorer.Lead,
		} {
			wg.Go(func() {
				defer cancel()
				if err := part(ctx, lead); err != nil && !errors.Is(err, context.Canceled) {
					s.log.Error("a part of the leader ended", "part", name, "error", err)
				}
			})
		}
		return reaper.Run(ctx, lead)
	}
	s.part("loop", func() error {
		err := s.Loop.Run(run)
		return errors.Join(err, decisions.Close(), archive.Close())
	})
	return func() string { return cmp.Or(hold.Alert(), reaper.Alert()) }
}

// startEstimator starts what learns how long jobs run, with what is known of it,
// and what counts how nodes do.
// Without that it learns anew: nothing depends on it.
func (s *Server) startEstimator(ctx, run context.Context, m *metrics) {
	s.Estimator = control.NewEstimator(s.View)
	s.Estimator.Store, s.Estimator.Now, s.Estimator.Log = s.Store, time.Now, s.log
	if err := s.Estimator.Load(ctx); err != nil {
		s.log.Warn("what was learned of runtimes is lost", "error", err)
	}
	m.registry.MustRegister(foresight{s.Estimator})
	s.part("estimator", func() error { return s.Estimator.Run(run) })
	s.Scorer = control.NewScorer(s.View)
	s.Scorer.Store, s.Scorer.Now, s.Scorer.Log = s.Store, time.Now, s.log
	s.part("scorer", func() error { return s.Scorer.Run(run) })
}

// Advertised is the address at which others reach this server's gRPC.
func (s *Server) Advertised() string { return cmp.Or(s.cfg.AdvertiseAddr, s.Endpoints.GRPC) }

func (s *Server) openDoors(m *metrics, alert func() string, beside *aside.Redis, shipped *shippedAudit) error {
	advertise := s.Advertised()
	peers, err := s.peers()
	if err != nil {
		return err
	}
	if s.auth, err = s.cfg.Auth.open(s.Store); err != nil {
		return err
	}
	files := &api.Files{View: s.View, Server: advertise, TLS: peers}
	limits := s.cfg.Limits.api()
	if beside != nil {
		limits.Rate.Shared = beside
	}
	s.doors, err = api.New(api.Config{
		Policies: s.Policies, Notifier: s.notifier,
		Desk: s.Desk, View: s.View, Store: s.Store, Engine: s.Loop, Predict: s.Estimator.Predict, Alert: alert, Ready: s.ready,
		Auth: s.auth, Now: time.Now, Version: Version, Server: s.name, Hosts: s.hosts, Trust: s.trust,
		Logs: files, Log: s.log, Observe: m.called, Limits: limits, Shed: m.shedding, FreeMB: s.freeMB,
		Audit: s.Audit, AuditLog: s.Audit, AuditHistory: shipped, Ledger: s.Ledger, Currency: s.cfg.History.Currency,
		AgentService: &api.AgentDoor{
			Store: s.Store, View: s.View, Files: files, Server: advertise, TTL: s.cfg.SessionTTL, Now: time.Now, Claimed: m.claims.Inc, Outrun: s.refuseToLead,
		},
	})
	if err == nil {
		m.watchDoors(s.doors)
	}
	return err
}

// part runs one thing until it ends by itself or the server stops.
func (s *Server) part(name string, run func() error) {
	s.parts.Go(func() {
		if err := run(); err != nil {
			s.failed <- fmt.Errorf("%s: %w", name, err)
		}
	})
}

// Err tells when a part fails; the server should then be closed.
func (s *Server) Err() <-chan error { return s.failed }

// maxClosing is how long streams and calls under way have to end.
const maxClosing = 5 * time.Second

// Close stops everything in the order that leaves nobody hanging: it says that it
// is not ready, resigns so that another can lead, takes the file away that tells
// where it is, ends streams, lets calls under way end, and then the store.
func (s *Server) Close() {
	s.close.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), maxClosing)
		defer cancel()
		s.closing.Store(true)
		if s.resign != nil {
			s.resign()
		}
		s.removeEndpoints()
		if s.doors != nil {
			s.doors.Close(ctx)
		}
		s.drain(ctx)
		s.stop()
		s.parts.Wait()
		s.closeHistory()
		if s.Store != nil {
			if err := s.Store.Close(); err != nil {
				s.log.Warn("close the store", "error", err)
			}
		}
	})
}

// drain lets calls under way end, and cuts those that do not. All listeners at
// once: a reader of one that does not leave takes no time from the others.
func (s *Server) drain(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, h := range s.http {
		wg.Go(func() {
			if err := h.Shutdown(ctx); err != nil {
				_ = h.Close() // a reader that does not leave is cut
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

func (s *Server) serve(l listeners, m *metrics) {
	l = listeners{
		http:    m.bound("http", l.http, s.cfg.Limits.HTTPConnections),
		grpc:    m.bound("grpc", l.grpc, s.cfg.Limits.GRPCConnections),
		metrics: m.bound("metrics", l.metrics, maxMetricsConnections),
	}
	var opts []grpc.ServerOption
	if config := s.doorTLS(); config != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(config)))
	}
	s.grpc = s.doors.GRPC(opts...)
	s.part("grpc", func() error { return s.grpc.Serve(l.grpc) })
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.guardMetrics(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})))
	for name, h := range map[string]struct {
		listener net.Listener
		handler  http.Handler
		tls      *tls.Config
	}{"http": {l.http, s.doors.HTTP(), s.tlsFor(s.Endpoints.HTTP)}, "metrics": {l.metrics, mux, s.tlsFor(s.Endpoints.Metrics)}} {
		srv := &http.Server{
			Handler: h.handler, TLSConfig: h.tls, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: api.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		}
		s.http = append(s.http, srv)
		s.part(name, func() error {
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

// guardMetrics lets anybody read the metrics on loopback; elsewhere they need a
// token like everything else.
func (s *Server) guardMetrics(next http.Handler) http.Handler {
	if host, _, err := net.SplitHostPort(s.Endpoints.Metrics); err == nil && isLoopback(host) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		who, err := s.auth.Check(r.Context(), token)
		if err != nil {
			s.Audit.Refuse(r.Context(), audit.Entry{Action: "GET_METRICS", Source: r.RemoteAddr, Door: "metrics", Code: string(ares.CodeOf(err))})
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if !roles.Allows(who.Identity(), roles.ClusterRead, "", "") { // they tell of every tenant
			http.Error(w, "metrics are for those who are bound to all tenants, as viewers at least", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
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

// removeEndpoints takes the endpoints file away, unless it names another
// server by now: with an external store several may share a data directory.
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
		return nil, fmt.Errorf("read the CA certificate: %s holds none", path)
	}
	return pool, nil
}
