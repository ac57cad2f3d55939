package faults_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/cluster"
)

// storeOutage is how long nodes must be able to do without the store under the
// default settings. An agent renews its session every 2.5 s. A supervisor
// decides to end its job 12.5 s after the last acknowledged renewal was sent. So
// 2 s are left for the next renewal after the outage.
const storeOutage = 8 * time.Second

// TestAShortOutageOfTheStoreEndsNoJob makes the store unreachable for the server,
// with the default session TTL and lost_after. No job may be ended or repeated.
func TestAShortOutageOfTheStoreEndsNoJob(t *testing.T) {
	for name, kind := range map[string]func(w *testCluster, link *wire) (end func()){
		"frozen": func(w *testCluster, _ *wire) func() { return w.Etcd[0].Freeze() },
		"refused": func(_ *testCluster, link *wire) func() {
			link.refuse(true)
			link.hangUp()
			return func() { link.refuse(false) }
		},
		"silent": func(_ *testCluster, link *wire) func() { // as after a network failure; neither end is told
			link.refuse(true)
			link.cut()
			return func() { link.refuse(false) }
		},
	} {
		// The margin is 2 s, so the clusters run one after the other.
		t.Run(name, func(t *testing.T) { outageEndsNoJob(t, kind) })
	}
}

func outageEndsNoJob(t *testing.T, begin func(*testCluster, *wire) (end func())) {
	w := newDefaultCluster(t, cluster.Etcd(1))
	link := newWire(t, strings.TrimPrefix(w.Etcd[0].Client, "http://"))
	w.Etcd[0].Client = "http://" + link.listener.Addr().String()
	s := w.StartServer("server")
	c := w.Client(s)
	var nodes, names, ids []string
	for i := range 4 { // their renewals are due at different times
		nodes = append(nodes, fmt.Sprintf("node-%d", i))
		w.StartAgent(nodes[i], s)
	}
	online(t, c, nodes...)
	for i := range 5 {
		names = append(names, fmt.Sprintf("steady-%d", i))
		spec := w.job(names[i], untilReleased)
		spec.LostAfterSeconds, spec.GpuCount = 0, 2
		if i == 4 {
			spec.GpuCount, spec.Members = 1, 4
		}
		ids = append(ids, w.submit(c, spec))
	}
	var deaths []*death
	for i, id := range ids {
		ranks := 1
		if i == 4 {
			ranks = 4
		}
		for _, l := range w.started(id, 1, ranks) {
			deaths = append(deaths, watch(t, l.pid))
		}
		if j := w.state(c, id, ares.Running); j.GetSpec().GetLostAfterSeconds() != int32(ares.DefaultLostAfter/time.Second) {
			t.Fatalf("its lost_after is %d s", j.GetSpec().GetLostAfterSeconds())
		}
	}

	end := begin(w, link)
	rest(storeOutage - 2*time.Second)
	if status, _, err := s.Get("/api/v1/ready"); status == http.StatusOK {
		t.Errorf("without the store the server answered %d, %v", status, err)
	}
	rest(2 * time.Second)
	end()
	// A supervisor that had decided to end its job during the outage would have ended it by now.
	rest(ares.DefaultLostAfter*8/10 - storeOutage)
	for _, d := range deaths {
		if d.dead() {
			t.Errorf("process %d was ended %s after the start of the outage", d.pid, ares.DefaultLostAfter*8/10-time.Since(d.wall))
		}
	}
	for i, id := range ids {
		w.release(names[i])
		if j := w.ends(c, id, ares.Succeeded); j.GetAttempt() != 1 || len(of(w.lines(id), "start", 0)) != int(j.GetMembers()) {
			t.Errorf("%s took %d attempts: %v", names[i], j.GetAttempt(), w.lines(id))
		}
	}
}

// TestRecoveryAtTheDefaults kills the agent of a gang's node for good, with the
// default session TTL and lost_after. The supervisor, which outlives its agent,
// must end the rank's process within 0.8 × lost_after of the last renewal. The
// gang must run again only after the whole lost_after.
func TestRecoveryAtTheDefaults(t *testing.T) {
	t.Parallel()
	w := newDefaultCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	w.StartAgent("node-a", s)
	b := w.StartAgent("node-b", s)
	online(t, c, "node-a", "node-b")
	gang := w.job("gang", stubborn) // SIGTERM does not end it
	gang.LostAfterSeconds, gang.Members, gang.GpuCount = 0, 2, 4
	id := w.submit(c, gang)
	first := w.started(id, 1, 2)
	j := w.state(c, id, ares.Running)
	lost := first[slices.IndexFunc(first, func(l line) bool { return j.GetAttempts()[0].GetSeats()[l.rank].GetNode() == "node-b" })]
	d := watch(t, lost.pid)
	w.StartAgent("node-c", s)
	online(t, c, "node-c")

	b.Kill()
	killed := boot()
	second := w.started(id, 2, 2)
	after(t, second, d)
	// The last renewal was sent up to an eighth of the TTL before the agent was killed.
	const renewal, slack = 2500 * time.Millisecond, 100 * time.Millisecond
	if dead := d.boot - killed; dead > ares.DefaultLostAfter*8/10+slack {
		t.Errorf("the process died %s after its agent, want at most %s", dead, ares.DefaultLostAfter*8/10)
	}
	for _, l := range second {
		if took := l.at - killed; took < ares.DefaultLostAfter-renewal-slack {
			t.Errorf("rank %d ran again %s after the loss, before lost_after was over", l.rank, took)
		} else {
			t.Logf("rank %d ran again %s after the loss", l.rank, took)
		}
	}
	poll(t, patience, "the recovery to be counted", func() (bool, string) {
		n := s.Metric("topology_scheduler_recovery_duration_seconds_count")
		return n == 1, fmt.Sprint(n)
	})
	// It counts from the last renewal, and so never less than lost_after.
	if sum := s.Metric("topology_scheduler_recovery_duration_seconds_sum"); sum < ares.DefaultLostAfter.Seconds() {
		t.Errorf("the recovery took %.1f s by the metric, less than lost_after", sum)
	}
	w.release("gang")
	w.ends(c, id, ares.Succeeded)
}
