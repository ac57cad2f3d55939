package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/agent/image"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/agent/trash"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/pki"
)

// errTaken means that another agent already has a session under this node's name. An agent that gets this error exits, so that two
// agents do not compete for one session.
var errTaken = errors.New("another agent already uses this node's name")

// Agent runs the seats of one node.
type Agent struct {
	cfg             Config
	log             *slog.Logger
	link            *serverLink
	runner          *run.Runner
	bin             *trash.Bin // working directories of ended seats, which are being deleted
	source          gpu.Source
	profile         string // name of the simulated machine, "" for a real one
	instance        string
	isolation       *isolation
	refuses         string    // why no job may run here at all, "" if jobs may
	identity        *pki.Node // nil when the agent authenticates with a token
	rejected        error     // why a server rejects the certificate
	watcher         *watcher
	starts          startLimit
	uploads         *logUploads
	jobs            *grpc.Server      // serves the processes of the jobs
	images          *image.Store      // nil if the node runs no images
	runtime         string            // path of the OCI runtime
	noContainerRoot string            // why jobs cannot be root in their images, "" if they can
	probing         sync.Mutex        // held while a test container runs
	describing      sync.Mutex        // held while the CDI specification is made
	cdi             map[string]string // CDI names of the devices; empty for simulated devices

	session atomic.Int64 // revision of the current session, 0 without one
	renewed atomic.Int64 // run.BootTime at which the last acknowledged renewal was sent

	mu         sync.Mutex
	node       ares.Node
	untold     bool // node has changed since the last report
	failures   int  // number of consecutive failed starts caused by the node
	unfitSince run.BootTime
	first      *firstSession // first session of this identity, nil before it
	store      storeIdentity // identity of the store that the servers use
	seats      map[run.Key]*seat
	orders     []*apipb.SeatOrder      // as last sent by a server
	released   map[run.Key]bool        // seats that a server has released in this session; an older list may still name them
	sessions   map[sessionKind]int     // open sessions of users
	attached   map[run.Key]*attachment // the sessions that write to the input of jobs
	seen       int64                   // revision of the state that the orders were read from
	wg         sync.WaitGroup          // one for each seat goroutine
	life       context.Context         // ends with the agent
}

// New prepares an agent. New loads the agent's identity, detects the devices, and takes over the seats that a previous agent process
// left on this node.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	// Jobs run in other directories, so the paths passed to them must be absolute.
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("determine the agent's directory: %w", err)
	}
	cfg.Dir = dir
	if err = os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the agent's directory: %w", err)
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("node", cfg.Node), seats: map[run.Key]*seat{}, released: map[run.Key]bool{}, sessions: map[sessionKind]int{}, attached: map[run.Key]*attachment{}, watcher: newWatcher(cfg.Watch), starts: newStartLimit(), uploads: newLogUploads()}
	if cfg.Token == "" {
		if a.identity, err = pki.OpenNode(CertificateDir(cfg.Dir), cfg.Node, time.Now); err != nil {
			return nil, err
		}
		if !a.identity.Joined() && cfg.Join == "" {
			return nil, fmt.Errorf("%w: %w", ErrNotJoined, a.identity.NotJoinedReason())
		}
	}
	a.link, a.jobs = newLink(&cfg, a.identity), a.newJobServer()
	if a.instance, err = instance(cfg.Dir); err != nil {
		return nil, err
	}
	a.first = readFirstSession(cfg.Dir)
	a.store = readStoreIdentity(cfg.Dir)
	supervisor, err := run.Supervisor(filepath.Join(cfg.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	if err = a.openRunner(supervisor); err != nil {
		return nil, err
	}
	if a.isolation, err = openIsolation(cfg.Isolation, a.runner.Means(), cfg.Dir); err != nil {
		return nil, errors.Join(err, a.bin.Close(), a.runner.Close())
	}
	if a.source, err = gpu.Find(ctx, cfg.Mock, cfg.Node, a.log); err != nil {
		return nil, err
	}
	machine, err := a.source.Detect(ctx)
	if err != nil {
		return nil, fmt.Errorf("find devices: %w", err)
	}
	a.profile = machine.Profile
	for _, w := range machine.Warnings {
		a.log.Warn("devices", "warning", w)
	}
	contained, why := a.runner.Contained()
	if !contained {
		a.log.Warn("jobs are not held by a cgroup: their death is verified by a sweep of their descendants only", "why", why)
	}
	if why := a.runner.NoJobSocket(); why != "" {
		a.log.Info("jobs have no socket (ares rank)", "why", why)
	}
	if a.isolation.mode == IsolateNone {
		a.log.Warn("jobs run as the agent's own user", "isolation", a.isolation.describe())
	}
	if a.refuses = a.isolation.refusalReason(); a.refuses != "" {
		a.log.Error("no job may run on this node", "why", a.refuses)
	}
	noImages := a.openImages(ctx, &machine)
	if noImages != "" {
		a.log.Info("the node runs no jobs with images", "why", noImages)
	}
	a.describe(&machine, contained, noImages)
	return a, nil
}

// The method `describe` sets the node's record, which describes this machine. Jobs with images run here if `noImages` is "".
func (a *Agent) describe(machine *gpu.Machine, contained bool, noImages string) {
	cfg := &a.cfg
	address := cfg.Address
	if address == "" {
		address = "127.0.0.1"
	}
	a.node = ares.Node{
		ID: cfg.Node, Address: address, Devices: machine.Devices, Links: machine.Links, CPUs: machine.CPUs,
		MemoryMB: machine.MemoryMB, Labels: cfg.Labels, NUMA: machine.NUMA, Taints: cfg.Taints, Mock: machine.Mock, Contains: contained, Version: cfg.Version,
		Isolation: ares.Truncate(a.isolation.describe(), 1024), Unfit: ares.Truncate(a.refuses, 512), TrustedOnly: a.isolation.trustedOnly(),
		Images: noImages == "", NoImages: ares.Truncate(noImages, 1024), OwnNetwork: a.isolation.noNetwork() == "", Attachable: true,
		ContainerRoot: noImages == "" && a.noContainerRoot == "", NoContainerRoot: ares.Truncate(a.noContainerRoot, 1024),
	}
}

// Node returns the node's record, which describes this machine.
func (a *Agent) Node() ares.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node
}

// MockProfile returns the name of the simulated machine, or "" for a real one.
func (a *Agent) MockProfile() string { return a.profile }

// Run serves the node's seats until ctx ends. When ctx ends, the jobs' processes keep running under their supervisors, and a
// restarted agent adopts them.
func (a *Agent) Run(ctx context.Context) error {
	defer a.link.Close()
	defer func() { _ = errors.Join(a.bin.Close(), a.runner.Close()) }()
	watched := make(chan struct{})
	a.watcher.start(watched)
	defer a.watcher.wait()
	defer close(watched)
	life, stop := context.WithCancel(ctx)
	defer a.jobs.Stop()
	defer a.wg.Wait()
	defer stop()
	a.life = life
	if err := a.adopt(life); err != nil {
		return err
	}
	a.mu.Lock()
	a.freeUsers()
	a.mu.Unlock()
	a.emptyTrash(life)
	if a.images != nil {
		a.wg.Go(func() { a.collectImages(life) })
		a.wg.Go(func() {
			if err := a.images.Serve(life, a.cfg.Dir); err != nil {
				a.log.Warn("ares image does not work on this node", "error", err)
			}
		})
		defer a.images.Close()
	}
	for ctx.Err() == nil {
		err := a.ensureCertificate(life)
		if err == nil {
			err = a.serve(life)
			a.noteRejection(err)
		}
		a.leave(ctx)
		a.session.Store(0)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errRenewed) {
			continue
		}
		a.log.Warn("session ended", "error", err)
		if errors.Is(err, errTaken) || errors.Is(err, ErrNotJoined) && !a.busy() {
			return err
		}
		if !pause.For(ctx, a.retryDelay()) {
			return nil
		}
	}
	return nil
}

// The method `busy` reports whether job processes may still be alive on this node.
func (a *Agent) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seats) > 0
}

// The method `leave` closes the session if the agent stops and no seat is left on the node. The servers then know
// immediately that the node is gone, and do not wait until the session's TTL expires.
func (a *Agent) leave(ctx context.Context) {
	session := a.session.Load()
	if ctx.Err() == nil || a.busy() || session == 0 {
		return
	}
	control, bulk, _, err := a.link.connections()
	if err != nil {
		return // the session will expire after its TTL
	}
	ref := &apipb.SessionRef{NodeId: a.cfg.Node, Session: session}
	a.storeLastLogs(context.WithoutCancel(ctx), bulk, ref)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, err = control.CloseSession(ctx, &apipb.CloseSessionRequest{Ref: ref})
	if err != nil {
		a.log.Info("the session ends by its TTL", "error", apipb.FromStatus(err))
	}
}

// The method `serve` opens a session, renews it, follows the node's seats and serves files. It returns when any of
// these tasks ends.
func (a *Agent) serve(ctx context.Context) error {
	control, bulk, server, err := a.link.connections()
	if err != nil {
		return err
	}
	sent := run.Now()
	opening, cancel := context.WithTimeout(ctx, a.openTimeout(sent))
	defer cancel()
	resp, err := control.OpenSession(opening, a.openSessionRequest())
	if err != nil {
		err = apipb.FromStatus(err)
		if ares.CodeOf(err) != ares.Exhausted { // a busy server is alive
			a.link.next(server)
		}
		if ares.CodeOf(err) == ares.Conflict {
			return fmt.Errorf("open session at %s: %w: %w", server, errTaken, err)
		}
		return fmt.Errorf("open session at %s: %w", server, err)
	}
	ttl := time.Duration(resp.TtlSeconds) * time.Second
	if err := errors.Join(a.noteFirstSession(resp.Session), a.noteStore(resp)); err != nil {
		return err
	}
	a.acknowledged(sent)
	a.session.Store(resp.Session)
	a.log.Info("session open", "server", server, "session", resp.Session, "ttl", ttl)
	a.watcher.tell(Change{Step: StepRegistered, Text: server})

	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	ref := &apipb.SessionRef{NodeId: a.cfg.Node, Session: resp.Session}
	var wg sync.WaitGroup
	parts := map[string]func() error{
		"renew":    func() error { return a.renew(ctx, control, ref, ttl) },
		"seats":    func() error { return a.follow(ctx, control, ref) },
		"files":    func() error { return a.serveFiles(ctx, bulk, ref) },
		"progress": func() error { return a.reportProgress(ctx, control, ref) },
		"devices":  func() error { return a.watchDevices(ctx, control, ref) },
		"logs":     func() error { return a.keepStoringLogs(ctx, bulk, ref) },
	}
	if a.identity != nil {
		parts["certificate"] = func() error { return a.renewCertificate(ctx) }
	}
	for name, part := range parts {
		wg.Go(func() { end(fmt.Errorf("%s: %w", name, part())) })
	}
	<-ctx.Done()
	wg.Wait()
	a.link.next(server)
	return context.Cause(ctx)
}

// noteFirstSession stores the first session that was opened with this agent's identity.
func (a *Agent) noteFirstSession(session int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first != nil {
		return nil
	}
	first := &firstSession{revision: session, at: run.Now()}
	if err := first.write(a.cfg.Dir); err != nil {
		return fmt.Errorf("record the first session: %w", err)
	}
	a.first = first
	return nil
}

// The method `renew` extends the session until a renewal fails. A renewal counts as failed if it is not answered before the next
// one is due. When a renewal fails, the agent connects to the next server.
func (a *Agent) renew(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef, ttl time.Duration) error {
	step := min(ttl, ares.MinLostAfterSec*time.Second) / 8
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		every, sent := a.renewEvery(ttl), run.Now()
		if sent.Sub(run.BootTime(a.renewed.Load()))+step <= every+step/4 {
			continue // the next renewal is soon enough
		}
		call, cancel := context.WithTimeout(ctx, every)
		_, err := c.RenewSession(call, &apipb.RenewSessionRequest{Ref: ref})
		cancel()
		if err != nil {
			return apipb.FromStatus(err)
		}
		a.acknowledged(sent)
	}
}

// renewEvery returns the time between two renewals. The interval is an eighth of the session's TTL, or of the shortest lost_after among
// the node's jobs, whichever is shorter. In a large cluster the TTL may exceed a job's lost_after. If the interval depended only on the
// TTL, one failed renewal could end the job.
func (a *Agent) renewEvery(ttl time.Duration) time.Duration {
	if shortest := a.shortestLostAfter(); shortest > 0 {
		ttl = min(ttl, shortest)
	}
	return ttl / 8
}

// shortestLostAfter returns the shortest lost_after among the node's jobs, or 0 if the node has no jobs.
func (a *Agent) shortestLostAfter() (shortest time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seats { // order-free: a minimum
		lostAfter := ares.MinLostAfterSec * time.Second // used until a server has sent the seat's order
		if s.order != nil {
			lostAfter = time.Duration(s.order.GetLostAfterSeconds()) * time.Second
		}
		if shortest == 0 || lostAfter < shortest {
			shortest = lostAfter
		}
	}
	return shortest
}

// The method `acknowledged` stores the send time of an acknowledged renewal, and passes this time on to every supervisor. Each
// supervisor is informed in a separate goroutine. A supervisor that does not answer must not delay the other supervisors or the next
// renewal.
func (a *Agent) acknowledged(sent run.BootTime) {
	a.renewed.Store(int64(sent))
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seats {
		if s.proc == nil || s.result != nil || s.foreign {
			continue
		}
		a.wg.Go(func() {
			err := s.proc.Renewed(a.life, sent)
			if err != nil && !errors.Is(err, run.ErrEnded) && a.life.Err() == nil {
				a.log.Warn("renewal did not reach a supervisor", "seat", s.key, "error", err)
			}
		})
	}
}

// isFresh reports whether a seat with the given lost_after may still be claimed or started (R4). A seat may be claimed or started until
// half of its lost_after has passed. The time counts from the moment at which the last acknowledged renewal was sent. Before the first
// renewal, isFresh returns false (R6).
func isFresh(renewed run.BootTime, lostAfter time.Duration) bool {
	return renewed != 0 && run.Now().Sub(renewed) < lostAfter/2
}

// If maxFailures consecutive starts fail because of this node, the node reports itself as unfit for the duration unfitFor.
// Without this report, one job after another would be placed on the broken node and fail there.
const (
	maxFailures = 3
	unfitFor    = time.Minute
)

// startFailed counts a start that failed because of this node. A successful start resets the count of failed starts.
func (a *Agent) startFailed(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures++; a.failures >= maxFailures && a.node.Unfit == "" {
		a.log.Error("this node is unfit for a while: jobs cannot be started here", "why", why)
		a.node.Unfit, a.unfitSince, a.untold = ares.Truncate(why, 512), run.Now(), true
	}
}
