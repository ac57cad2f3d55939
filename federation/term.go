package federation

import (
	"context"
	"errors"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// A term is the time of one leadership: the sessions of the members, and what the leader knows of them.
type term struct {
	*Hub

	ctx  context.Context
	lead *store.Leadership
	id   store.Identity
	me   string // the hub's incarnation

	changed chan struct{} // holds one token when a session began, ended or changed

	mu       sync.Mutex
	clusters map[string]store.Cluster
	outdated bool                 // a session has changed the record of its cluster
	sessions map[string]*session  // by cluster; a session is here from its hello on
	asking   *store.Asking        // while the hub asks every member after a restore (F6), otherwise nil
	unheard  map[string]time.Time // when a cluster without a session was heard last
	lost     map[string]bool      // clusters that were reported as unreachable
	// revisions are the highest ones of the members' stores, as named by heartbeats, by the identity of the store.
	revisions map[string]int64
	biddings  map[ares.JobID]*bidding
	// offersBack is true when a member has offered to give a job back since the hub looked at these offers.
	offersBack bool
	quoted     map[ares.JobID]quotedOffer // the open offers that this leader has made with the Chooser
	roster     *store.Roster              // as of the last read of the clusters
	recorded   *store.Roster              // the last one that was written to history
	words      *clusterWords              // what is said about clusters

	binder     binder
	rosterNews chan struct{} // holds one token when the roster is to be written to history

	loanAnswers []loanAnswer // that were not written yet
	lendDue     bool         // the loans must be decided again

	// Only the goroutine of run uses these.
	waiting  map[ares.JobID]bool // jobs that could be offered
	waitsFor string              // clusters that a restored hub waits for, as last logged
	unlisted string              // clusters whose names are not stored outside the hub, as last logged
	read     time.Time           // when the clusters were read last
	lending  lending
	// remembered is when the revisions in heartbeats were written last.
	remembered time.Time
}

func (h *Hub) newTerm(ctx context.Context, lead *store.Leadership) (*term, error) {
	id, revision, err := h.Store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	asking, err := h.Store.Asking(ctx)
	if err != nil {
		return nil, err
	}
	words, err := h.Store.ClusterMetadata(ctx, id.Store)
	if err != nil {
		return nil, err
	}
	if err = h.view.WaitFor(ctx, revision); err != nil {
		return nil, err
	}
	t := &term{
		Hub: h, ctx: ctx, lead: lead, id: id, me: incarnation(id, 0), asking: asking, changed: make(chan struct{}, 1),
		clusters: map[string]store.Cluster{}, sessions: map[string]*session{}, unheard: map[string]time.Time{}, lost: map[string]bool{}, revisions: map[string]int64{},
		biddings: map[ares.JobID]*bidding{}, quoted: map[ares.JobID]quotedOffer{}, waiting: map[ares.JobID]bool{},
		roster: &store.Roster{}, rosterNews: make(chan struct{}, 1), words: &clusterWords{metadataOf(words)},
	}
	if asking != nil {
		h.Log.Warn("the hub's store was restored from a backup: nothing is granted until every cluster has answered")
	}
	h.mu.Lock()
	h.reset = true // a new leader looks at every job
	h.mu.Unlock()
	return t, nil
}

// roundPause lets changes that come one after the other be handled together: a round costs almost the same for one as for many.
const roundPause = 5 * time.Millisecond

// The method `run` is the leader's work: it tells members what changed, makes offers, and watches for silence.
func (t *term) run(ctx context.Context, _ *store.Leadership) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.RecordRoster != nil {
		wg.Go(func() { t.recordRosters(ctx) })
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-t.news:
		case <-t.changed:
		}
		if err := t.round(ctx); err != nil {
			if ctx.Err() != nil || ares.CodeOf(err) == ares.Fenced {
				return err
			}
			t.Log.Warn("a round of the hub failed and is tried again", "error", err)
		}
		timer.Reset(min(t.Interval, t.Heartbeat))
		pause.For(ctx, roundPause)
	}
}

// The method `round` does everything that is due now. A round follows each change, so what only depends on the time is done
// once in an interval: reading the clusters, and looking for jobs to take back.
func (t *term) round(ctx context.Context) error {
	due, err := t.readClusters(ctx)
	if err != nil {
		return err
	}
	t.dropSilent()
	if t.isAsking() {
		return t.resolve(ctx)
	}
	err = t.lend(ctx) // before the offers that depend on it
	t.look()
	t.tellRoster()
	t.tellMetadata()
	t.askForReturns(due)
	if err = errors.Join(err, t.vouch(ctx)); due {
		err = errors.Join(err, t.fence(ctx), t.rememberRevisions(ctx))
	}
	return errors.Join(err, t.offers(ctx))
}

// readClusters reads the records of the clusters, if they may have changed. It returns false if it did not.
func (t *term) readClusters(ctx context.Context) (bool, error) {
	t.mu.Lock()
	due := t.outdated || time.Since(t.read) >= min(t.Interval, t.Heartbeat)
	t.outdated = false
	t.mu.Unlock()
	if !due {
		return false, nil
	}
	list, revision, err := t.Store.ClustersAt(ctx)
	if err != nil {
		return false, err
	}
	known, decided := make(map[string]store.Cluster, len(list)), false
	t.mu.Lock()
	for i := range list {
		known[list[i].Name] = list[i]
		was := t.clusters[list[i].Name]
		decided = decided || was.Decided != list[i].Decided || was.Stops != list[i].Stops
	}
	err = t.describe(list)
	t.clusters, t.read = known, time.Now()
	t.setRoster(list, revision)
	t.mu.Unlock()
	if err != nil {
		return false, err
	}
	if decided { // a drained cluster is asked to return its jobs
		t.Hub.mu.Lock()
		t.reset = true
		t.Hub.mu.Unlock()
	}
	return true, nil
}

func (t *term) isAsking() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asking != nil
}

// The method `look` tells members about the jobs that changed, and notes which jobs wait for an offer.
func (t *term) look() {
	t.Hub.mu.Lock()
	touched, all := t.touched, t.reset
	t.touched, t.reset = map[ares.JobID]bool{}, false
	for _, id := range t.lending.takeHeld() {
		touched[id] = true
	}
	if all {
		for id := range t.grants { // order-free: a set
			touched[id] = true
		}
	}
	t.Hub.mu.Unlock()
	if all {
		clear(t.waiting)
		t.view.Search(func(*ares.Job) bool { return true }, func(e *entry) bool {
			touched[e.Job.ID] = true
			return true
		})
	}
	for id := range touched { // order-free: jobs are independent
		e, g := t.view.Job(id), t.grant(id)
		if e != nil && g == nil && mayBeOffered(e) {
			t.waiting[id] = true
		} else {
			delete(t.waiting, id)
		}
		t.tell(id, e, g)
	}
}

// snapshot returns the pure state from which the rules decide, as of a linearizable read of the grants.
func (t *term) snapshot(ctx context.Context) (*grant.Hub, error) {
	grants, revision, err := t.Store.Grants(ctx)
	if err != nil {
		return nil, err
	}
	if err = t.view.WaitFor(ctx, revision); err != nil {
		return nil, err
	}
	list, err := t.Store.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	out := &grant.Hub{Clusters: map[string]grant.Cluster{}, Jobs: map[ares.JobID]grant.Job{}}
	for i := range list {
		out.Clusters[list[i].Name] = grant.Cluster{Incarnation: list[i].Incarnation, Dead: list[i].Decided == store.ClusterDead}
	}
	for i := range grants {
		g := &grants[i]
		j := grant.Job{Epoch: g.Epoch, Cluster: g.Cluster, Incarnation: g.Incarnation}
		if e := t.view.Job(g.Job); e != nil {
			j.Once, j.Cancel = e.Job.Mode == ares.AtMostOnce, e.Run.Stop != nil
		}
		out.Jobs[g.Job] = j
	}
	return out, nil
}

func (t *term) endSessions() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sessions { // order-free: sessions are independent
		s.end(errTermEnded)
	}
}

var errTermEnded = ares.Errorf(ares.Unavailable, "this server is no longer the leader of the hub")
