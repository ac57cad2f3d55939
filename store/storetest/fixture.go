package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// Noon is the fixed time that tests use as the current time.
var Noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

// SessionTTL is the shortest TTL that an external etcd supports. Tests that wait for the end of a
// session use this TTL. Sessions that must not end have a TTL longer than any test.
const SessionTTL = 2 * time.Second

// This counter makes each generated name unique.
var names atomic.Int64

// Name returns a name that no other test uses.
func Name(kind string) string { return fmt.Sprintf("%s-%d", kind, names.Add(1)) }

// NewTenant stores a tenant without limits.
func NewTenant(tb testing.TB, s *store.Store) ares.Tenant {
	tb.Helper()
	t, err := s.CreateTenant(tb.Context(), ares.Tenant{ID: Name("tenant"), Limits: ares.NoLimits(), Weight: 1, CreatedAt: Noon})
	if err != nil {
		tb.Fatalf("create tenant: %v", err)
	}
	return t
}

// JobOf returns the request to create a job with the given spec. Admission makes such requests
// too.
func JobOf(tenant ares.Tenant, spec ares.Spec) store.Creation {
	digest := ares.DigestOf(spec)
	spec.Tenant = tenant.ID
	if spec.RequestID == "" {
		spec.RequestID = Name("request")
	}
	return store.Creation{TenantRevision: tenant.Revision, Job: &ares.Job{
		Spec: spec.WithDefaults(), ID: ares.NewJobID(tenant.ID, spec.RequestID), Digest: digest, AcceptedAt: Noon, Owner: "somebody",
	}}
}

// Sleep returns a job spec with a small request.
func Sleep() ares.Spec { return ares.Spec{Command: []string{"sleep", "1"}, GPUs: 1, CPUs: 1} }

// NewJob stores a job of a new tenant.
func NewJob(tb testing.TB, s *store.Store, edit ...func(*ares.Spec)) *ares.Job {
	tb.Helper()
	spec := Sleep()
	for _, e := range edit {
		e(&spec)
	}
	ask := JobOf(NewTenant(tb, s), spec)
	if c := s.Create(tb.Context(), []store.Creation{ask})[0]; c.Err != nil || c.Duplicate {
		tb.Fatalf("create job: %+v", c)
	}
	return ask.Job
}

// Gang returns a function that turns a spec into a gang of n members.
func Gang(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.Members = n } }

// Node is a node with its session.
type Node struct {
	ares.Node

	Session  int64
	Instance string
}

// NewNode opens a session for a node with eight devices. By default the session outlives the
// test.
func NewNode(tb testing.TB, s *store.Store, ttl ...time.Duration) *Node {
	tb.Helper()
	n := &Node{Node: ares.Node{ID: Name("node"), CPUs: 64, MemoryMB: 1 << 16}, Instance: Name("instance")}
	for i := range 8 {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s/gpu-%d", n.ID, i), Index: i, Type: "gpu", MemoryMB: 80_000, Healthy: true})
	}
	n.Open(tb, s, append(ttl, 5*time.Minute)[0])
	return n
}

// Open opens a new session for the node.
func (n *Node) Open(tb testing.TB, s *store.Store, ttl time.Duration) {
	tb.Helper()
	sess, err := s.OpenSession(tb.Context(), n.Node, n.Instance, "server-1", ttl, 0)
	if err != nil {
		tb.Fatalf("open session of %s: %v", n.ID, err)
	}
	n.Session = sess.Revision
}

// Close ends the node's session.
func (n *Node) Close(tb testing.TB, s *store.Store) {
	tb.Helper()
	if err := s.CloseSession(tb.Context(), n.ID, n.Session); err != nil {
		tb.Fatalf("close session of %s: %v", n.ID, err)
	}
}

// Revision returns the revision of the node's record, as the leader's timer would
// see it.
func (n *Node) Revision(tb testing.TB, s *store.Store) int64 {
	tb.Helper()
	for _, raw := range Records(tb, s, "nodes/"+n.ID) {
		return raw.Revision
	}
	tb.Fatalf("there is no record of node %s", n.ID)
	return 0
}

// SessionOf returns the revision of a node's current session.
func SessionOf(tb testing.TB, s *store.Store, node string) int64 {
	tb.Helper()
	for _, raw := range Records(tb, s, "sessions/"+node) {
		if strings.HasSuffix(raw.Key, "sessions/"+node) {
			return raw.Revision
		}
	}
	tb.Fatalf("node %s has no session", node)
	return 0
}

// NewLead makes this process the leader. Leadership ends when the test ends or
// when the returned function is called.
func NewLead(tb testing.TB, s *store.Store) (lead *store.Leadership, resign func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	leads, ended := make(chan *store.Leadership), make(chan error, 1)
	go func() {
		ended <- s.Lead(ctx, "server-1", time.Minute, func(ctx context.Context, l *store.Leadership) error {
			leads <- l
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	done := false
	resign = func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			tb.Errorf("leadership ended with %v", err)
		}
	}
	tb.Cleanup(resign)
	select {
	case lead = <-leads:
	case err := <-ended:
		ended <- err
		tb.Fatalf("lead: %v", err)
	}
	return lead, resign
}

// Get reads a job.
func Get(tb testing.TB, s *store.Store, id ares.JobID) store.Snapshot {
	tb.Helper()
	snap, err := s.Job(tb.Context(), id)
	if err != nil {
		tb.Fatalf("read job: %v", err)
	}
	return snap
}

// Placing returns the change that places a job's ranks, one on each node.
func Placing(tb testing.TB, s *store.Store, job *ares.Job, nodes ...*Node) store.Change {
	tb.Helper()
	run := Get(tb, s, job.ID).Run
	var seats []ares.Seat
	for rank, n := range nodes {
		seats = append(seats, ares.Seat{
			Node: n.ID, Rank: rank, CPUs: 1, NUMA: -1, Shares: []ares.Share{{Device: n.Devices[0].ID, Milli: 1000}},
		})
	}
	if err := run.Place(seats, 100, Noon); err != nil {
		tb.Fatalf("place: %v", err)
	}
	return store.Change{Job: job.ID, Next: run, New: true}
}

// Place commits the placement of one job and returns its seats.
func Place(tb testing.TB, s *store.Store, lead *store.Leadership, job *ares.Job, nodes ...*Node) []store.SeatRef {
	tb.Helper()
	_, dropped, err := s.Commit(tb.Context(), lead, "digest", []store.Change{Placing(tb, s, job, nodes...)})
	if err != nil || len(dropped) > 0 {
		tb.Fatalf("commit: dropped %v, %v", dropped, err)
	}
	run := Get(tb, s, job.ID).Run
	var out []store.SeatRef
	for rank, n := range nodes {
		out = append(out, store.SeatRef{Job: job.ID, Fence: run.Fence(), Rank: rank, Node: n.ID})
	}
	return out
}

// Claim claims each seat for its node.
func Claim(tb testing.TB, s *store.Store, seats []store.SeatRef, nodes ...*Node) {
	tb.Helper()
	for i, ref := range seats {
		if err := s.Claim(tb.Context(), ref, nodes[i].Session, Noon); err != nil {
			tb.Fatalf("claim rank %d: %v", ref.Rank, err)
		}
	}
}

// Finish reports that a rank has ended.
func Finish(tb testing.TB, s *store.Store, ref store.SeatRef, outcome ares.Outcome) ares.Run {
	tb.Helper()
	run, err := s.Finish(tb.Context(), ref, Result(outcome), Noon)
	if err != nil {
		tb.Fatalf("finish rank %d: %v", ref.Rank, err)
	}
	return run
}

// Release frees a rank's seat.
func Release(tb testing.TB, s *store.Store, refs ...store.SeatRef) {
	tb.Helper()
	for _, ref := range refs {
		if err := s.Release(tb.Context(), ref); err != nil {
			tb.Fatalf("release rank %d: %v", ref.Rank, err)
		}
	}
}

// Result returns the result of a rank that ended with the given outcome.
func Result(outcome ares.Outcome) ares.RankResult {
	res := ares.RankResult{Outcome: outcome, Reason: "the test says " + string(outcome), StartedAt: Noon, EndedAt: Noon}
	if outcome == ares.OutcomeFailed {
		res.ExitCode = 1
	}
	return res
}

// Records returns the stored records below a key prefix.
func Records(tb testing.TB, s *store.Store, room string) []store.Raw {
	tb.Helper()
	var out []store.Raw
	if err := s.Dump(tb.Context(), room, func(r store.Raw) error { out = append(out, r); return nil }); err != nil {
		tb.Fatalf("dump %s: %v", room, err)
	}
	return out
}

// This function returns the body of a dumped record as decoded JSON.
func body(tb testing.TB, raw store.Raw, kind string) map[string]any {
	tb.Helper()
	var rec map[string]map[string]any
	if err := json.Unmarshal([]byte(raw.JSON), &rec); err != nil {
		tb.Fatalf("%s: %v in %s", raw.Key, err, raw.JSON)
	}
	return rec[kind]
}

// This function checks that an error has the given code and contains all the
// given words.
func refused(tb testing.TB, err error, code ares.Code, words ...string) {
	tb.Helper()
	if ares.CodeOf(err) != code {
		tb.Errorf("got error %v (%q), want code %q", err, ares.CodeOf(err), code)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			tb.Errorf("the error %q does not say %q", err, w)
		}
	}
}

// This function checks that a job is in the given phase.
func phase(tb testing.TB, s *store.Store, id ares.JobID, want ares.Phase) ares.Run {
	tb.Helper()
	run := Get(tb, s, id).Run
	if run.Phase != want {
		tb.Fatalf("the job is %s (%s), want %s", run.Phase, run.Reason, want)
	}
	return run
}
