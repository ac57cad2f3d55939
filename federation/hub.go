package federation

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// DefaultHeartbeat is the time between two heartbeats of a member.
const DefaultHeartbeat = 2 * time.Second

// Hub offers waiting jobs to clusters, and writes their claims and reports. Every server of a hub has a Hub, but only the
// leader's Hub has sessions with members: another server refuses the stream, and the member dials the next one. So one
// process knows all summaries and all silences, and a member has at most one session.
type Hub struct {
	apipb.UnimplementedFederationServiceServer

	Store  *store.Store
	Server string        // this server's name
	TTL    time.Duration // of leadership
	Now    func() time.Time
	Log    *slog.Logger
	// Version is the version of this build, for members.
	Version string
	// Authenticate returns an error unless the caller of a stream may speak for the cluster. If it is nil, the hub believes
	// the name in the hello; only tests do that.
	Authenticate func(ctx context.Context, cluster string) error
	// Chooser decides which jobs are offered to which clusters, by the clusters' summaries. It must be set before the view
	// runs. If it is nil, every job is offered by its priority, to the clusters that Choose returns.
	Chooser *choose.Chooser
	// Choose ranks the clusters that may run a job, best first. Without it, ChooseAny is used.
	Choose func(job *ares.Job, run *ares.Run, clusters []Candidate) []string
	// Heartbeat is the time between two heartbeats of a member. Default DefaultHeartbeat.
	Heartbeat time.Duration
	// Interval is the longest time between two rounds of offers.
	Interval time.Duration
	// Observe is called with the time that each decision took, and may be nil.
	Observe func(took time.Duration)
	// Reachable is called when a cluster opens a session, and when it has missed its heartbeats. It may be nil.
	Reachable func(cluster string, reachable bool)
	// Alarm is called when a hello must be refused because the member's store was copied or rolled back. It may be nil.
	Alarm func(cluster, why string)
	// Seal returns what proves that this hub has said something about a cluster, also after its restore. If it is nil, a restored
	// hub believes what members keep of its words; only tests do that.
	Seal func(cluster string, revision int64, word string) []byte
	// RecordRoster writes the roster where a backup of the hub's store does not reach: into the history database. If it is nil,
	// only members keep the roster.
	RecordRoster func(context.Context, *store.Roster) error
	// The function Before runs at the start of each term as leader, and may be nil.
	Before func(context.Context, *store.Leadership) error
	// The function WhileLeading runs while this server is the leader. Its context ends with the term. It may be nil.
	WhileLeading func(context.Context, *store.Leadership) error

	view  *cache.View
	term  atomic.Pointer[term]
	reads readers

	mu      sync.Mutex
	grants  map[ares.JobID]*ares.Grant
	open    map[ares.JobID]*ares.Grant // those of the grants that are open offers
	touched map[ares.JobID]bool        // jobs, runs and grants that changed since the leader last looked
	reset   bool                       // everything may have changed
	news    chan struct{}

	choosing sync.Mutex              // guards the Chooser and the map
	shown    map[string]shownCluster // what the Chooser was told of each cluster
}

// NewHub returns a Hub. The given view keeps it up to date.
func NewHub(view *cache.View) *Hub {
	h := &Hub{
		view: view, Heartbeat: DefaultHeartbeat, Interval: time.Second,
		grants: map[ares.JobID]*ares.Grant{}, open: map[ares.JobID]*ares.Grant{}, touched: map[ares.JobID]bool{}, news: make(chan struct{}, 1), shown: map[string]shownCluster{},
		reads: readers{links: map[string]*readLink{}, heard: map[string]time.Time{}},
	}
	view.Feed(h.apply)
	return h
}

// The method `apply` notes which jobs changed. The view is locked while it runs, so it only notes.
func (h *Hub) apply(b ares.Batch) {
	h.mu.Lock()
	if b.Reset {
		h.grants, h.open = map[ares.JobID]*ares.Grant{}, map[ares.JobID]*ares.Grant{}
		h.touched, h.reset = map[ares.JobID]bool{}, true
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Grant != nil:
			h.grants[e.Grant.Job] = e.Grant
			if delete(h.open, e.Grant.Job); e.Grant.State == ares.GrantOffered {
				h.open[e.Grant.Job] = e.Grant
			}
			h.touched[e.Grant.Job] = true
		case e.Job != nil:
			h.touched[e.Job.ID] = true
		case e.Run != nil:
			h.touched[e.Run.Job] = true
		case e.Gone.Kind == ares.KindGrant:
			delete(h.grants, ares.JobID(e.Gone.ID))
			delete(h.open, ares.JobID(e.Gone.ID))
			h.touched[ares.JobID(e.Gone.ID)] = true
		case e.Gone.Kind == ares.KindJob:
			h.touched[ares.JobID(e.Gone.ID)] = true
		}
	}
	h.mu.Unlock()
	h.applyToChooser(b)
	wake(h.news)
}

// The method `grant` returns the grant of a job as the view knows it, or nil.
func (h *Hub) grant(id ares.JobID) *ares.Grant {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants[id]
}

// OfferedTo returns the clusters to which a job is offered now, the best first.
func (h *Hub) OfferedTo(id ares.JobID) []string {
	if g := h.grant(id); g != nil && g.State == ares.GrantOffered {
		return slices.Clone(g.Clusters)
	}
	return nil
}

// Run campaigns for leadership until ctx ends, and runs the federation while this server leads.
func (h *Hub) Run(ctx context.Context) error {
	for {
		err := h.Store.Lead(ctx, h.Server, h.TTL, h.lead)
		if ctx.Err() != nil {
			return nil
		}
		h.Log.Warn("leadership ended", "error", err)
		if !pause.For(ctx, time.Second) {
			return nil
		}
	}
}

// The method `lead` runs one term as leader. Sessions are accepted after the term has read what it needs, and end with it.
func (h *Hub) lead(ctx context.Context, lead *store.Leadership) error {
	h.Log.Info("leading", "server", h.Server, "revision", lead.Revision)
	if h.Before != nil {
		if err := h.Before(ctx, lead); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	t, err := h.newTerm(ctx, lead)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	parts := []func(context.Context, *store.Leadership) error{t.run, h.WhileLeading}
	for _, part := range parts {
		if part != nil {
			wg.Go(func() { stop(part(ctx, lead)) })
		}
	}
	h.term.Store(t)
	<-ctx.Done()
	h.term.Store(nil)
	t.endSessions()
	wg.Wait()
	return context.Cause(ctx)
}

// Connect serves the control stream of a member.
func (h *Hub) Connect(stream apipb.FederationService_ConnectServer) error {
	t := h.term.Load()
	if t == nil {
		return status.Error(codes.Unavailable, "this server is not the leader of the hub: connect to another one")
	}
	return t.connect(stream)
}
