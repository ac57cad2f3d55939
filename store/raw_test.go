package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storepb"
	"github.com/ares-scheduler/ares/store/storetest"
)

// A `rig` holds an external etcd, a store that uses this etcd, and an etcd client that bypasses the
// store.
type rig struct {
	etcd *storetest.Etcd
	s    *store.Store
	raw  *clientv3.Client
}

func newRig(t *testing.T) *rig {
	t.Helper()
	etcd := storetest.External(t)
	return &rig{etcd, etcd.Open(t), etcd.Client(t)}
}

func (r *rig) put(t *testing.T, key string, value []byte) {
	t.Helper()
	if _, err := r.raw.Put(t.Context(), key, string(value)); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) record(t *testing.T, key string) *storepb.Record {
	t.Helper()
	got, err := r.raw.Get(t.Context(), key)
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("read %s: %v, %v", key, got, err)
	}
	rec := &storepb.Record{}
	if err := proto.Unmarshal(got.Kvs[0].Value, rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

func encode(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// This function adds an unknown field to a message, as a newer version of Ares would.
func future(m proto.Message, value string) {
	field := protowire.AppendString(protowire.AppendTag(nil, 900, protowire.BytesType), value)
	m.ProtoReflect().SetUnknown(field)
}

func futureOf(t *testing.T, m proto.Message) string {
	t.Helper()
	fields := m.ProtoReflect().GetUnknown()
	if len(fields) == 0 {
		return ""
	}
	_, _, n := protowire.ConsumeTag(fields)
	v, k := protowire.ConsumeString(fields[n:])
	if n < 0 || k < 0 {
		t.Fatalf("cannot read %x", fields)
	}
	return v
}

// TestFieldsOfANewerVersionSurvive changes a run that a newer server wrote. The first change
// is an agent's report, and the second change is a plan. The test checks that no field of the
// newer version is lost.
func TestFieldsOfANewerVersionSurvive(t *testing.T) {
	r := newRig(t)
	lead, _ := storetest.NewLead(t, r.s)
	job := storetest.NewJob(t, r.s, storetest.Gang(2))
	a, b := storetest.NewNode(t, r.s), storetest.NewNode(t, r.s)
	seats := storetest.Place(t, r.s, lead, job, a, b)
	storetest.Claim(t, r.s, seats, a, b)

	key := "/ares/runs/" + string(job.ID)
	rec := r.record(t, key)
	run := rec.GetRun()
	future(rec, "record")
	future(run, "run")
	future(run.Attempts[0], "attempt")
	future(run.Attempts[0].Seats[1], "seat")
	r.put(t, key, encode(t, rec))
	check := func(when string) {
		t.Helper()
		now := r.record(t, key)
		a := now.GetRun().Attempts[0]
		got := []string{futureOf(t, now), futureOf(t, now.GetRun()), futureOf(t, a), futureOf(t, a.Seats[1]), futureOf(t, a.Seats[0])}
		if want := []string{"record", "run", "attempt", "seat", ""}; !slices.Equal(got, want) {
			t.Errorf("%s the newer fields are %q, want %q", when, got, want)
		}
	}
	storetest.Finish(t, r.s, seats[0], ares.OutcomeFailed)
	check("after a report")
	storetest.Finish(t, r.s, seats[1], ares.OutcomeStopped)
	storetest.Release(t, r.s, seats...)
	next := storetest.Get(t, r.s, job.ID).Run
	if err := next.Ready(storetest.Noon.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, dropped, err := r.s.Commit(t.Context(), lead, "digest", []store.Change{{Job: job.ID, Next: next}}); err != nil || len(dropped) > 0 {
		t.Fatalf("dropped %v, %v", dropped, err)
	}
	storetest.Place(t, r.s, lead, job, a, b)
	check("after a plan")
	run = r.record(t, key).GetRun()
	if got := futureOf(t, run.Attempts[1]); got != "" {
		t.Errorf("a new attempt has the old one's field %q", got)
	}
}

// TestARecordThisVersionCannotReadIsRefused checks the error for an unreadable record. The error
// must name the record's key and say what to do.
func TestARecordThisVersionCannotReadIsRefused(t *testing.T) {
	r := newRig(t)
	job := storetest.NewJob(t, r.s)
	key := "/ares/jobs/" + string(job.ID)
	good := r.record(t, key)
	newer := proto.CloneOf(good)
	newer.MinReader = 3
	unknownBody := &storepb.Record{}
	future(unknownBody, "a body of another kind")
	for name, c := range map[string]struct {
		value []byte
		words []string
	}{
		"a newer format": {encode(t, newer), []string{key, "newer version of Ares", "upgrade"}},
		"garbage":        {[]byte("not a record"), []string{key}},
		"an empty value": {nil, []string{key}},
		"a newer body":   {encode(t, unknownBody), []string{key}},
	} {
		t.Run(name, func(t *testing.T) {
			r.put(t, key, c.value)
			_, readErr := r.s.Job(t.Context(), job.ID)
			_, stopErr := r.s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: storetest.Noon})
			watchErr := r.s.Watch(t.Context(), func(ares.Batch) error { return errors.New("it was delivered") })
			for doing, err := range map[string]error{"read": readErr, "cancel": stopErr, "watch": watchErr} {
				if err == nil {
					t.Errorf("%s: it was read all the same", doing)
					continue
				}
				for _, w := range c.words {
					if !strings.Contains(err.Error(), w) {
						t.Errorf("%s: the error %q does not say %q", doing, err, w)
					}
				}
			}
			if raw := storetest.Records(t, r.s, "jobs/"+string(job.ID)); len(raw) != 1 {
				t.Errorf("a dump must show it all the same, got %+v", raw)
			}
		})
	}
	r.put(t, key, encode(t, good))
}

// TestFieldsOfANewerVersionSurviveAnOperator changes tenants, queues, the topology and usage that a
// newer server wrote. The fields that this version does not know must survive.
func TestFieldsOfANewerVersionSurviveAnOperator(t *testing.T) {
	r, ctx := newRig(t), t.Context()
	job := storetest.NewJob(t, r.s)
	if _, err := r.s.CreateQueue(ctx, ares.Queue{Tenant: job.Tenant, Name: "q"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.s.PutTopology(ctx, ares.Topology{}); err != nil {
		t.Fatal(err)
	}
	r.put(t, "/ares/usage/"+job.Tenant+"/default", encode(t, &storepb.Record{Body: &storepb.Record_Usage{Usage: &storepb.Usage{GpuSeconds: 1}}}))
	inside := map[string]func(*storepb.Record) proto.Message{
		"/ares/tenants/" + job.Tenant:            func(rec *storepb.Record) proto.Message { return rec.GetTenant() },
		"/ares/queues/" + job.Tenant + "/q":      func(rec *storepb.Record) proto.Message { return rec.GetQueue() },
		"/ares/topology/fleet":                   func(rec *storepb.Record) proto.Message { return rec.GetTopology() },
		"/ares/usage/" + job.Tenant + "/default": func(rec *storepb.Record) proto.Message { return rec.GetUsage() },
	}
	for key, body := range inside {
		rec := r.record(t, key)
		future(rec, "record")
		future(body(rec), "body")
		r.put(t, key, encode(t, rec))
	}
	tenant, err := r.s.Tenant(ctx, job.Tenant)
	if err == nil {
		tenant.Weight = 7
		_, err = r.s.UpdateTenant(ctx, tenant)
	}
	queue, queueErr := r.s.Queue(ctx, job.Tenant, "q")
	if queueErr == nil {
		queue.Weight = 7
		_, queueErr = r.s.UpdateQueue(ctx, queue)
	}
	top, topErr := r.s.Topology(ctx)
	if topErr == nil {
		top.MaxNodesPerLeaf = 7
		_, topErr = r.s.PutTopology(ctx, top)
	}
	use, useErr := r.s.Usage(ctx, job.Tenant, "default")
	run, stopErr := r.s.RequestStop(ctx, job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: storetest.Noon})
	if use.GPUSecs = 7; useErr == nil && stopErr == nil {
		useErr = r.s.ArchiveUsed(ctx, job, &run, &use, nil, 0)
	}
	if err = errors.Join(err, queueErr, topErr, stopErr, useErr); err != nil {
		t.Fatal(err)
	}
	for key, body := range inside {
		now := r.record(t, key)
		if futureOf(t, now) != "record" || futureOf(t, body(now)) != "body" || !strings.Contains(now.String(), ":7") {
			t.Errorf("%s was changed to %v, without its newer fields", key, now)
		}
	}
}

// TestARoomOfANewerVersionIsLeftAlone writes a record whose key prefix only a newer version
// knows. The watch must ignore the record, unless the record says that every reader must
// understand it.
func TestARoomOfANewerVersionIsLeftAlone(t *testing.T) {
	r := newRig(t)
	rec := &storepb.Record{}
	future(rec, "a wing")
	r.put(t, "/ares/wings/w1", encode(t, rec))
	enough := errors.New("enough")
	if err := r.s.Watch(t.Context(), func(ares.Batch) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want the room to be ignored", err)
	}
	rec.MinReader = 3
	r.put(t, "/ares/wings/w1", encode(t, rec))
	err := r.s.Watch(t.Context(), func(ares.Batch) error { return enough })
	if err == nil || !strings.Contains(err.Error(), "/ares/wings/w1") {
		t.Errorf("got %v, want it to name the record it must not ignore", err)
	}
}

// TestWrittenIsWhatThisProcessWrote checks that Written returns the revision of this process's last
// write. Writes in nested transactions count too. Writes of other processes and transactions that
// change nothing must not affect the result.
func TestWrittenIsWhatThisProcessWrote(t *testing.T) {
	r := newRig(t)
	node := storetest.NewNode(t, r.s)
	at, err := r.s.Cordon(t.Context(), ares.Cordon{Node: node.ID, By: "me", Since: storetest.Noon})
	if err != nil || r.s.Written() != at {
		t.Errorf("written up to %d, want %d (%v)", r.s.Written(), at, err)
	}
	gone, err := r.s.Cordon(t.Context(), ares.Cordon{Node: node.ID})
	if err != nil || gone <= at || r.s.Written() != gone {
		t.Errorf("written up to %d, want %d after %d (%v)", r.s.Written(), gone, at, err)
	}
	r.put(t, "/somebody/else", nil)
	if _, err = r.s.Cordon(t.Context(), ares.Cordon{Node: node.ID}); err != nil || r.s.Written() != gone {
		t.Errorf("written up to %d, want %d as before (%v)", r.s.Written(), gone, err)
	}
	// If a batch contains a repeated request, each job of the batch is written in its own nested
	// transaction.
	tenant := storetest.NewTenant(t, r.s)
	creations := func(names ...string) (out []store.Creation) {
		for _, name := range names {
			job := &ares.Job{Spec: ares.Spec{Tenant: tenant.ID, Command: []string{"true"}}.WithDefaults(), ID: ares.NewJobID(tenant.ID, name)}
			out = append(out, store.Creation{Job: job, TenantRevision: tenant.Revision})
		}
		return out
	}
	r.s.Create(t.Context(), creations("first"))
	before := r.s.Written()
	for i, c := range r.s.Create(t.Context(), creations("first", "second")) {
		if c.Err != nil || c.Duplicate != (i == 0) {
			t.Fatalf("job %d: %+v", i, c)
		}
	}
	if now, err := r.s.Revision(t.Context()); err != nil || now <= before || r.s.Written() != now {
		t.Errorf("written up to %d, want %d, which the new job of the batch made (%v)", r.s.Written(), now, err)
	}
	before = r.s.Written()
	r.put(t, "/somebody/else", nil)
	if again := r.s.Create(t.Context(), creations("first", "second")); !again[1].Duplicate || r.s.Written() != before {
		t.Errorf("written up to %d, want %d as before: %+v", r.s.Written(), before, again)
	}
}

// TestATombstoneIsSmall checks that the stored record of an archived job is
// small.
func TestATombstoneIsSmall(t *testing.T) {
	r := newRig(t)
	for _, phase := range []ares.Phase{ares.Succeeded, ares.Cancelled} {
		job := storetest.NewJob(t, r.s)
		key := "/ares/jobs/" + string(job.ID)
		run, err := r.s.RequestStop(t.Context(), job.ID, ares.Stop{Why: ares.StopCancel, By: "me", At: storetest.Noon})
		if err != nil {
			t.Fatal(err)
		}
		run.Phase = phase
		if err = r.s.Archive(t.Context(), job, &run, nil); err != nil {
			t.Fatal(err)
		}
		got, err := r.raw.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(got.Kvs[0].Value); n > 64 {
			t.Errorf("the tombstone of a %s job is %d bytes, at most 64 are promised", phase, n)
		}
	}
}

// TestResyncAfterCompaction delays a watch until etcd has compacted the revisions that
// the watch missed.
func TestResyncAfterCompaction(t *testing.T) {
	r := newRig(t)
	storetest.NewJob(t, r.s)
	var mu sync.Mutex
	jobs := map[ares.JobID]bool{}
	resets := 0
	var late *ares.Job
	done := errors.New("done")
	err := r.s.Watch(t.Context(), func(b ares.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if b.Reset {
			resets++
			clear(jobs)
		}
		for _, e := range b.Events {
			if e.Job != nil {
				jobs[e.Job.ID] = true
			}
		}
		if resets == 1 {
			late = storetest.NewJob(t, r.s)
			got, err := r.raw.Get(t.Context(), "/ares/")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.raw.Compact(t.Context(), got.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
				t.Fatal(err)
			}
			return nil
		}
		return done
	})
	if !errors.Is(err, done) || resets != 2 || !jobs[late.ID] || len(jobs) != 2 {
		t.Errorf("ended with %v after %d snapshots, jobs %v", err, resets, jobs)
	}
}

// TestALostLeaseEndsTheTerm revokes the leader's lease. The effect is the same as if the lease
// expires while the leader is paused.
func TestALostLeaseEndsTheTerm(t *testing.T) {
	r := newRig(t)
	job, node := storetest.NewJob(t, r.s), storetest.NewNode(t, r.s)
	var old *store.Leadership
	err := r.s.Lead(t.Context(), "server-1", 5*time.Second, func(ctx context.Context, l *store.Leadership) error {
		old = l
		got, err := r.raw.Get(ctx, "/ares/loop/leader")
		if err != nil {
			return err
		}
		if _, err := r.raw.Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the term ended with %v", err)
	}
	if _, _, err := r.s.Commit(t.Context(), old, "digest", []store.Change{storetest.Placing(t, r.s, job, node)}); ares.CodeOf(err) != ares.Fenced {
		t.Errorf("its plan: %v", err)
	}
	lead, _ := storetest.NewLead(t, r.s)
	storetest.Place(t, r.s, lead, job, node)
}

// TestTwoServersAcceptOneRequestOnce checks that two servers accept the same request only once.
func TestTwoServersAcceptOneRequestOnce(t *testing.T) {
	etcd := storetest.External(t)
	servers := []*store.Store{etcd.Open(t), etcd.Open(t)}
	tenant := storetest.NewTenant(t, servers[0])
	for range 5 {
		ask := storetest.JobOf(tenant, storetest.Sleep())
		answers := make([]store.Created, 64)
		var wg sync.WaitGroup
		for i := range answers {
			wg.Go(func() { answers[i] = servers[i%2].Create(t.Context(), []store.Creation{ask})[0] })
		}
		wg.Wait()
		first := 0
		for i, got := range answers {
			if got.Err != nil || got.ID != ask.Job.ID {
				t.Errorf("answer %d: %+v", i, got)
			}
			if !got.Duplicate {
				first++
			}
		}
		if first != 1 {
			t.Errorf("%d of %d were told that their job is new", first, len(answers))
		}
		if jobs := storetest.Records(t, servers[1], "jobs/"); len(jobs) == 0 || jobs[0].Revision != jobs[0].CreateRevision {
			t.Errorf("the job was written more than once: %+v", jobs)
		}
	}
	if jobs := storetest.Records(t, servers[0], "jobs/"); len(jobs) != 5 {
		t.Errorf("%d jobs are stored, want 5", len(jobs))
	}
}

// TestAStoreThatIsGone checks that the error for an unknown outcome differs from the error
// for a rejection.
func TestAStoreThatIsGone(t *testing.T) {
	etcd := storetest.External(t)
	// The timeout is long enough for an answer from etcd while etcd is still running.
	s, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tenant, job := storetest.NewTenant(t, s), storetest.NewJob(t, s)
	lead := &store.Leadership{}
	etcd.Kill()
	var all sync.WaitGroup // all calls wait equally long
	for doing, do := range map[string]func() error{
		"create": func() error {
			return s.Create(t.Context(), []store.Creation{storetest.JobOf(tenant, storetest.Sleep())})[0].Err
		},
		"read": func() error { _, err := s.Job(t.Context(), job.ID); return err },
		"commit": func() error {
			_, _, err := s.Commit(t.Context(), lead, "digest", []store.Change{{Job: job.ID, Next: ares.NewRun(storetest.Noon)}})
			return err
		},
		"open a session": func() error {
			_, err := s.OpenSession(t.Context(), ares.Node{ID: "n"}, "instance", "server", storetest.SessionTTL, 0)
			return err
		},
		"ready": func() error { return s.Ready(t.Context()) },
		"renew": func() error { return s.RenewSession(t.Context(), "n", 1) },
		"open": func() error {
			_, err := store.Open(t.Context(), store.Config{Endpoints: etcd.Endpoints, Timeout: 300 * time.Millisecond})
			return err
		},
	} {
		all.Go(func() {
			if err := do(); ares.CodeOf(err) != ares.Unavailable {
				t.Errorf("%s: got %v, want unavailable", doing, err)
			}
		})
	}
	all.Wait()
}
