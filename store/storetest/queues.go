package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

var queueLaws = []law{
	{"AQueueChangesByItsRevision", queueRules},
	{"QueuesAreATree", queueTree},
	{"ConcurrentChangesMakeNoRing", queueRing},
	{"AJobNeedsItsQueue", queueNeeded},
	{"QueuesGoWithTheirTenant", queuesGo},
	{"ATopologyIsReplacedByItsRevision", topologyRules},
	{"UseIsBookedWithTheArchival", usageBooked},
	{"AnAttemptKeepsItsMeritAndAnElementItsArray", meritKept},
	{"AWatchShowsQueuesTopologyAndUse", watchShares},
}

func newQueue(t *testing.T, s *store.Store, q ares.Queue) ares.Queue {
	t.Helper()
	q.Limits, q.CreatedAt = ares.NoLimits(), Noon
	made, err := s.CreateQueue(t.Context(), q)
	if err != nil {
		t.Fatalf("create queue %s: %v", q.ID(), err)
	}
	return made
}

func queueRules(t *testing.T, s *store.Store) {
	want := ares.Queue{
		Tenant: NewTenant(t, s).ID, Name: "training", Weight: 2.5, CreatedAt: Noon,
		Limits: ares.Limits{GPUs: 1, GPUMemoryMB: 2, CPUs: 3, MemoryMB: 4, ConcurrentJobs: 5, PendingJobs: 6},
		Quotas: []ares.Quota{{Model: "h100", Nominal: 16, Borrow: 8, Lend: ares.Unlimited}, {Nominal: 32}},
	}
	made, err := s.CreateQueue(t.Context(), want)
	if err != nil || made.Revision == 0 {
		t.Fatalf("%+v, %v", made, err)
	}
	want.Revision = made.Revision
	var got ares.Queue
	if got, err = s.Queue(t.Context(), want.Tenant, want.Name); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("stored %+v, want %+v, %v", got, want, err)
	}
	if got, err = s.CreateQueue(t.Context(), want); err != nil || got.Revision != made.Revision {
		t.Errorf("the same again: %+v, %v", got, err)
	}
	other := want
	other.Weight = 7
	_, err = s.CreateQueue(t.Context(), other)
	refused(t, err, ares.Conflict, "exists already")
	changed, err := s.UpdateQueue(t.Context(), other)
	if err != nil || changed.Revision <= made.Revision {
		t.Fatalf("%+v, %v", changed, err)
	}
	want.Weight = 9
	_, err = s.UpdateQueue(t.Context(), want)
	refused(t, err, ares.Conflict, "changed by another request")
	refused(t, s.DeleteQueue(t.Context(), want.Tenant, want.Name, made.Revision), ares.Conflict)
	if err = s.DeleteQueue(t.Context(), want.Tenant, want.Name, changed.Revision); err != nil {
		t.Fatal(err)
	}
	_, err = s.Queue(t.Context(), want.Tenant, want.Name)
	refused(t, err, ares.NotFound, want.Name)
	_, err = s.UpdateQueue(t.Context(), changed)
	refused(t, err, ares.NotFound)
	refused(t, s.DeleteQueue(t.Context(), want.Tenant, want.Name, changed.Revision), ares.NotFound)
	_, err = s.CreateQueue(t.Context(), ares.Queue{Tenant: Name("nobody"), Name: "q"})
	refused(t, err, ares.NotFound, "tenant")
}

func queueTree(t *testing.T, s *store.Store) {
	tenant, stranger := NewTenant(t, s).ID, NewTenant(t, s).ID
	newQueue(t, s, ares.Queue{Tenant: stranger, Name: "theirs"})
	_, err := s.CreateQueue(t.Context(), ares.Queue{Tenant: tenant, Name: "a", Parent: "theirs"})
	refused(t, err, ares.Invalid, "no queue theirs of tenant "+tenant)
	newQueue(t, s, ares.Queue{Tenant: tenant, Name: "under-default", Parent: ares.DefaultQueue})
	parent := ""
	var chain []ares.Queue
	for i := range ares.MaxQueueDepth {
		q := newQueue(t, s, ares.Queue{Tenant: tenant, Name: fmt.Sprintf("q%d", i), Parent: parent})
		chain, parent = append(chain, q), q.Name
	}
	_, err = s.CreateQueue(t.Context(), ares.Queue{Tenant: tenant, Name: "deep", Parent: parent})
	refused(t, err, ares.Invalid, "9 levels", "the limit is 8")
	top := newQueue(t, s, ares.Queue{Tenant: tenant, Name: "top"})
	chain[0].Parent = top.Name // moves the whole chain one level down
	_, err = s.UpdateQueue(t.Context(), chain[0])
	refused(t, err, ares.Invalid, "9 levels")
	chain[0].Parent = chain[3].Name
	_, err = s.UpdateQueue(t.Context(), chain[0])
	refused(t, err, ares.Invalid, "cycle")
	refused(t, s.DeleteQueue(t.Context(), tenant, "q6", chain[6].Revision), ares.Conflict, "such as q7")
	if err = s.DeleteQueue(t.Context(), tenant, "q7", chain[7].Revision); err != nil {
		t.Error(err)
	}
}

// queueRing makes two concurrent changes that are each valid, but that together would form a
// cycle.
func queueRing(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s).ID
	for round := range 10 {
		a := newQueue(t, s, ares.Queue{Tenant: tenant, Name: fmt.Sprintf("a%d", round)})
		b := newQueue(t, s, ares.Queue{Tenant: tenant, Name: fmt.Sprintf("b%d", round)})
		a.Parent, b.Parent = b.Name, a.Name
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, q := range []ares.Queue{a, b} {
			wg.Go(func() { _, errs[i] = s.UpdateQueue(t.Context(), q) })
		}
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) {
			t.Fatalf("round %d: %v and %v, want exactly one to be refused", round, errs[0], errs[1])
		}
		refused(t, errors.Join(errs...), ares.Invalid, "cycle")
	}
}

func queueNeeded(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	inQueue := Sleep()
	inQueue.Queue = "training"
	got := create(t, s, JobOf(tenant, inQueue), JobOf(tenant, Sleep()))
	if !got[0].Stale || got[1].Err != nil {
		t.Errorf("got %+v, want only the job without a queue to be accepted", got)
	}
	q := newQueue(t, s, ares.Queue{Tenant: tenant.ID, Name: "training"})
	if got = create(t, s, JobOf(tenant, inQueue)); got[0].Err != nil {
		t.Error(got[0].Err)
	}
	if _, err := s.UpdateQueue(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	if got = create(t, s, JobOf(tenant, inQueue)); got[0].Err != nil {
		t.Errorf("a changed queue is there all the same: %v", got[0].Err)
	}
}

func queuesGo(t *testing.T, s *store.Store) {
	tenant := NewTenant(t, s)
	newQueue(t, s, ares.Queue{Tenant: tenant.ID, Name: "training"})
	if err := s.DropQueues(t.Context(), tenant.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Queue(t.Context(), tenant.ID, "training"); err != nil {
		t.Errorf("the queues of a tenant that is there stay: %v", err)
	}
	if err := s.DeleteTenant(t.Context(), tenant.ID, tenant.Revision); err != nil {
		t.Fatal(err)
	}
	back, err := s.UndeleteTenant(t.Context(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Queue(t.Context(), tenant.ID, "training"); err != nil {
		t.Errorf("an undone deletion keeps the queues: %v", err)
	}
	if err = s.DeleteTenant(t.Context(), tenant.ID, back.Revision); err != nil {
		t.Fatal(err)
	}
	if _, err = s.CreateTenant(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	_, err = s.Queue(t.Context(), tenant.ID, "training")
	refused(t, err, ares.NotFound)
}

func topologyRules(t *testing.T, s *store.Store) {
	was, err := s.Topology(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ares.Topology{
		Domains: []ares.Domain{
			{Name: "spine-1", Level: ares.LevelSpine, Switch: "400GbE"},
			{Name: "leaf-1", Level: ares.LevelLeaf, Parent: "spine-1", Adjacent: []string{"leaf-2"}, Switch: "slow", Nodes: []string{"n1", "n2"}},
			{Name: "leaf-2", Level: ares.LevelLeaf, Parent: "spine-1"},
		},
		Switches: []ares.Switch{{Name: "slow", Gbps: 1, LatencyNanos: 9000}}, Weights: ares.DefaultWeights(),
		MaxNodesPerLeaf: 4, MaxGPUsPerLeaf: 32, Revision: was.Revision,
	}
	made, err := s.PutTopology(t.Context(), want)
	if err != nil || made.Revision <= was.Revision {
		t.Fatalf("%+v, %v", made, err)
	}
	if again, againErr := s.PutTopology(t.Context(), want); againErr != nil || again.Revision != made.Revision {
		t.Errorf("the same again: %+v, %v", again, againErr)
	}
	want.Revision = made.Revision
	if got, readErr := s.Topology(t.Context()); readErr != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("stored %+v, want %+v, %v", got, want, readErr)
	}
	old := want
	old.Revision, old.MaxNodesPerLeaf = was.Revision, 7
	_, err = s.PutTopology(t.Context(), old)
	refused(t, err, ares.Conflict, "changed by another request")
	large := want
	for i := range 20_000 {
		large.Domains = append(large.Domains, ares.Domain{Name: fmt.Sprintf("a-leaf-with-a-rather-long-name-that-takes-room-%d", i), Level: ares.LevelLeaf})
	}
	_, err = s.PutTopology(t.Context(), large)
	refused(t, err, ares.TooLarge)
}

func usageBooked(t *testing.T, s *store.Store) {
	job := NewJob(t, s)
	u, err := s.Usage(t.Context(), job.Tenant, "default")
	if err != nil || u != (ares.Usage{Tenant: job.Tenant, Queue: "default"}) {
		t.Fatalf("got %+v, %v before anything was archived", u, err)
	}
	run, err := s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	if err != nil {
		t.Fatal(err)
	}
	u.At, u.GPUMilliSecs, u.CPUSecs, u.MemoryGBSecs, u.Month, u.GPUSecs = Noon, 1<<40, 2, 3, "2030-01", 4
	stale := u
	stale.Revision = 1
	refused(t, s.ArchiveUsed(t.Context(), job, &run, &stale, nil, 0), ares.Conflict)
	if Get(t, s, job.ID).Tombstone != nil {
		t.Error("the job was archived without its use")
	}
	if err = s.ArchiveUsed(t.Context(), job, &run, &u, nil, 0); err != nil {
		t.Fatal(err)
	}
	got, err := s.Usage(t.Context(), job.Tenant, "default")
	if u.Revision = got.Revision; err != nil || got.Revision == 0 || got != u {
		t.Errorf("stored %+v, want %+v, %v", got, u, err)
	}
}

func meritKept(t *testing.T, s *store.Store) {
	ask := JobOf(NewTenant(t, s), Sleep())
	ask.Job.ArrayOf, ask.Job.ArrayIndex = "job-array", 17
	create(t, s, ask)
	lead, resign := NewLead(t, s)
	defer resign()
	c := Placing(t, s, ask.Job, NewNode(t, s))
	want := ares.PlacementScore{
		Level: ares.LevelLeaf, Domain: "leaf-1", Availability: 900, Alignment: 800, Utilization: 700, History: 600, Weighted: 500,
		Stranded: -400, Bandwidth: 300, FirstFit: 200, NetworkGbps: 100, NetworkLatencyNanos: 3000,
	}
	c.Next.Last().PlacementScore = want
	if _, dropped, err := s.Commit(t.Context(), lead, "digest", []store.Change{c}); err != nil || len(dropped) > 0 {
		t.Fatalf("commit: dropped %v, %v", dropped, err)
	}
	snap := Get(t, s, ask.Job.ID)
	if got := snap.Run.Last().PlacementScore; got != want {
		t.Errorf("stored %+v, want %+v", got, want)
	}
	if snap.Job.ArrayOf != "job-array" || snap.Job.ArrayIndex != 17 {
		t.Errorf("stored element %d of %q", snap.Job.ArrayIndex, snap.Job.ArrayOf)
	}
}

// watchShares checks the queues, the topology and the usage that a watch reports. They must
// equal the records that were written.
func watchShares(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches, ready, ended := make(chan ares.Batch, 1024), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Watch(ctx, func(b ares.Batch) error {
			if b.Reset {
				close(ready)
				return nil
			}
			batches <- b
			return nil
		})
	}()
	<-ready
	job := NewJob(t, s)
	q := newQueue(t, s, ares.Queue{Tenant: job.Tenant, Name: "training"})
	top, err := s.Topology(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if top, err = s.PutTopology(ctx, ares.Topology{MaxNodesPerLeaf: top.MaxNodesPerLeaf + 1, Revision: top.Revision}); err != nil {
		t.Fatal(err)
	}
	run, err := s.RequestStop(ctx, job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: Noon})
	if err != nil {
		t.Fatal(err)
	}
	if err = s.ArchiveUsed(ctx, job, &run, &ares.Usage{Tenant: job.Tenant, Queue: "default", At: Noon, GPUSecs: 5}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err = s.DeleteQueue(ctx, q.Tenant, q.Name, q.Revision); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for gone := false; !gone; {
		for _, e := range (<-batches).Events {
			seen["queue"] = seen["queue"] || e.Queue != nil && reflect.DeepEqual(*e.Queue, q)
			seen["topology"] = seen["topology"] || e.Topology != nil && reflect.DeepEqual(*e.Topology, top)
			seen["usage"] = seen["usage"] || e.Usage != nil && e.Usage.Tenant == job.Tenant && e.Usage.Queue == "default" && e.Usage.GPUSecs == 5
			gone = gone || e.Gone == ares.Gone{Kind: ares.KindQueue, ID: q.ID()}
		}
	}
	for _, kind := range []string{"queue", "topology", "usage"} {
		if !seen[kind] {
			t.Errorf("the watch did not show the %s as it was written", kind)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
}
