package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
)

// errTaken is the refusal of a session because another agent has this node's
// name: to go on would be to fight with it.
var errTaken = errors.New("the node's name is taken")

// Agent holds the seats of one node.
type Agent struct {
	cfg      Config
	log      *slog.Logger
	link     *link
	runner   *run.Runner
	source   gpu.Source
	instance string
	apart    *isolation
	refuses  string    // why no job may run here at all, "" when one may
	identity *pki.Node // nil where a token speaks for the node
	outcast  error     // why a server does not take the certificate any more

	session atomic.Int64 // revision of the present session, 0 without one
	renewed atomic.Int64 // run.BootTime at which the last acknowledged renewal was sent

	mu         sync.Mutex
	node       ares.Node
	untold     bool // node has changed since a server was told
	failures   int  // starts that failed by this node's fault, in a row
	unfitSince run.BootTime
	first      *arrival // of this identity, nil before its first session
	store      lineage  // what is known of the store it is served from
	seats      map[run.Key]*seat
	orders     []*apipb.SeatOrder // as last sent by a server
	seen       int64              // revision they are true at
	wg         sync.WaitGroup     // one for each seat's life
	life       context.Context    // ends with the agent
}

// New prepares an agent: its identity, its devices and the seats that outlived
// its last run.
func New(ctx context.Context, cfg Config) (*Agent, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	// Jobs start elsewhere: what they are told of this directory must be absolute.
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find the agent's directory: %w", err)
	}
	cfg.Dir = dir
	if err = os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the agent's directory: %w", err)
	}
	a := &Agent{cfg: cfg, log: cfg.Log.With("node", cfg.Node), seats: map[run.Key]*seat{}}
	if cfg.Token == "" {
		if a.identity, err = pki.OpenNode(CertificateDir(cfg.Dir), cfg.Node, time.Now); err != nil {
			return nil, err
		}
		if !a.identity.Joined() && cfg.Join == "" {
			return nil, fmt.Errorf("%w: %w", ErrNotJoined, a.identity.Lacks())
		}
	}
	a.link = newLink(&cfg, a.identity)
	if a.instance, err = instance(cfg.Dir); err != nil {
		return nil, err
	}
	a.first = readArrival(cfg.Dir)
	a.store = readLineage(cfg.Dir)
	supervisor, err := run.Supervisor(filepath.Join(cfg.Dir, "bin"))
	if err != nil {
		return nil, err
	}
	if a.runner, err = run.Open(filepath.Join(cfg.Dir, "seats"), supervisor); err != nil {
		return nil, err
	}
	if a.apart, err = openIsolation(cfg.Isolation, a.runner.Means(), cfg.Dir); err != nil {
		return nil, errors.Join(err, a.runner.Close())
	}
	if a.source, err = gpu.Find(ctx, cfg.Mock, cfg.Node, a.log); err != nil {
		return nil, err
	}
	machine, err := a.source.Detect(ctx)
	if err != nil {
		return nil, fmt.Errorf("find devices: %w", err)
	}
	for _, w := range machine.Warnings {
		a.log.Warn("devices", "warning", w)
	}
	contained, why := a.runner.Contained()
	if !contained {
		a.log.Warn("jobs are not held by a cgroup: their death is verified by a sweep of their descendants only", "why", why)
	}
	if a.apart.mode == IsolateNone {
		a.log.Warn("jobs run as the agent's own user", "isolation", a.apart.describe())
	}
	if a.refuses = a.apart.refusal(); a.refuses != "" {
		a.log.Error("no job may run here", "why", a.refuses)
	}
	address := cfg.Address
	if address == "" {
		address = "127.0.0.1"
	}
	a.node = ares.Node{
		ID: cfg.Node, Address: address, Devices: machine.Devices, Links: machine.Links, CPUs: machine.CPUs,
		MemoryMB: machine.MemoryMB, Labels: cfg.Labels, NUMA: machine.NUMA, Taints: cfg.Taints, Mock: machine.Mock, Contains: contained, Version: cfg.Version,
		Isolation: clip(a.apart.describe(), 1024), Unfit: clip(a.refuses, 512),
	}
	return a, nil
}

// Node is what this machine offers.
func (a *Agent) Node() ares.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node
}

// Run holds the node's seats until ctx ends. Processes live on then, under
// their supervisors, for a restarted agent to take up again.
func (a *Agent) Run(ctx context.Context) error {
	defer a.link.Close()
	defer func() { _ = a.runner.Close() }()
	life, stop := context.WithCancel(ctx)
	defer a.wg.Wait()
	defer stop()
	a.life = life
	if err := a.adopt(life); err != nil {
		return err
	}
	for ctx.Err() == nil {
		err := a.ensureCertificate(life)
		if err == nil {
			err = a.serve(life)
			a.refused(err)
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
		// Not all at once: a server that comes back is awaited by its whole fleet.
		if !pause(ctx, time.Second/2+rand.N(time.Second)) {
			return nil
		}
	}
	return nil
}

// busy says whether processes of jobs may live here.
func (a *Agent) busy() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.seats) > 0
}

// leave ends the session when the agent is asked to end and holds nothing, so
// that the node is known to be gone at once and not only after its TTL.
func (a *Agent) leave(ctx context.Context) {
	session := a.session.Load()
	if ctx.Err() == nil || a.busy() || session == 0 {
		return
	}
	control, _, _, err := a.link.connections()
	if err != nil {
		return // the session ends by its TTL
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, err = control.CloseSession(ctx, &apipb.CloseSessionRequest{Ref: &apipb.SessionRef{NodeId: a.cfg.Node, Session: session}})
	if err != nil {
		a.log.Info("the session ends by its TTL", "error", apipb.FromStatus(err))
	}
}

// serve is one session: open it, then renew it, follow the seats and serve
// files until one of these ends.
func (a *Agent) serve(ctx context.Context) error {
	control, bulk, server, err := a.link.connections()
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	sent := run.Now()
	resp, err := control.OpenSession(opening, a.introduce())
	if err != nil {
		err = apipb.FromStatus(err)
		if ares.CodeOf(err) != ares.Exhausted { // a server that is busy with others is there
			a.link.next(server)
		}
		if ares.CodeOf(err) == ares.Conflict {
			return fmt.Errorf("open session at %s: %w: %w", server, errTaken, err)
		}
		return fmt.Errorf("open session at %s: %w", server, err)
	}
	ttl := time.Duration(resp.TtlSeconds) * time.Second
	if err := errors.Join(a.arrived(resp.Session), a.belong(resp)); err != nil {
		return err
	}
	a.acknowledged(sent)
	a.session.Store(resp.Session)
	a.log.Info("session open", "server", server, "session", resp.Session, "ttl", ttl)

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

// arrived notes the first session of this identity.
func (a *Agent) arrived(session int64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.first != nil {
		return nil
	}
	first := &arrival{revision: session, at: run.Now()}
	if err := first.write(a.cfg.Dir); err != nil {
		return fmt.Errorf("note the first session: %w", err)
	}
	a.first = first
	return nil
}

// renew extends the session until it cannot. A renewal that is not answered
// in the time between two has failed, and the next server is tried.
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
			continue // the next step is soon enough
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

// renewEvery is the time between two renewals: an eighth of the TTL, but not
// more than an eighth of the least patience among the jobs that are held. In a
// large fleet a session may outlive a job's patience, and a job must not be
// given up for one renewal that failed.
func (a *Agent) renewEvery(ttl time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.seats { // order-free: a minimum
		patience := ares.MinLostAfterSec * time.Second // until a server has told of the seat
		if s.order != nil {
			patience = time.Duration(s.order.GetLostAfterSeconds()) * time.Second
		}
		ttl = min(ttl, patience)
	}
	return ttl / 8
}

// acknowledged notes that a renewal sent at a time was acknowledged, and tells
// every supervisor, each for itself: one that does not answer must delay
// neither the others nor the next renewal.
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

// fresh says whether a seat of that patience may still be claimed or spawned
// (R4): less than half of it has passed since the last acknowledged renewal
// was sent. Before the first one it counts as expired (R6).
func fresh(renewed run.BootTime, lostAfter time.Duration) bool {
	return renewed != 0 && run.Now().Sub(renewed) < lostAfter/2
}

// clip keeps a text within what the contract allows, or a server takes nothing
// of a node's words.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// Starts that fail by this node's own fault one after the other make it unfit
// for a while: it would only draw job after job and lose them.
const (
	maxFailures = 3
	unfitFor    = time.Minute
)

// startFailed counts such a start; started forgets them.
func (a *Agent) startFailed(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failures++; a.failures >= maxFailures && a.node.Unfit == "" {
		a.log.Error("this node is unfit for a while: jobs cannot be started here", "why", why)
		a.node.Unfit, a.unfitSince, a.untold = clip(why, 512), run.Now(), true
	}
}

// pause waits, and says whether it was not cut short.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
