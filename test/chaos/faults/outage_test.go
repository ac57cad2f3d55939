package faults_test

import (
	"fmt"
	"net/http"
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outageEndsNoJob(t, kind)
		})
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
