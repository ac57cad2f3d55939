package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
)

// `doctor` runs `ares doctor` on a server. It returns a map from the subject of each finding to
// the finding. Each finding has the form "state: detail → remedy".
func (w *testCluster) doctor(h *cluster.Server) map[string]string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), w.Ares, "doctor", "-o", "json",
		"--server", h.At.GRPC, "--token-file", filepath.Join(h.Dir, server.AdminTokenFile), "--data-dir", h.Dir).Output()
	if _, exit := errors.AsType[*exec.ExitError](err); err != nil && !exit {
		w.t.Fatal(err)
	}
	var said struct {
		Findings []struct{ What, State, Detail, Remedy string }
	}
	if err := json.Unmarshal(out, &said); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	found := map[string]string{}
	for _, f := range said.Findings {
		found[f.What] = f.State + ": " + f.Detail + " → " + f.Remedy
	}
	return found
}

// The function `says` checks that the findings contain the expected words.
func says(t *testing.T, found map[string]string, want map[string][]string) {
	t.Helper()
	for what, words := range want {
		for _, word := range words {
			if !strings.Contains(found[what], word) {
				t.Errorf("of %s it says %q, want %q", what, found[what], word)
			}
		}
	}
}

// notReady waits until a server answers that it is not ready. The answer must contain the given
// word.
func notReady(t *testing.T, s *cluster.Server, word string) {
	t.Helper()
	poll(t, patience, s.Name+" to say that it is not ready", func() (bool, string) {
		status, said, err := s.Get("/api/v1/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(said, word), fmt.Sprint(status, said, err)
	})
}

func TestAStoreWithoutAMajorityIsTold(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(3))
	members := w.Etcd
	s := w.StartServer("server")
	w.StartAgent("node-a", s)
	c := w.Client(s)
	online(t, c, "node-a")
	says(t, w.doctor(s), map[string][]string{
		"store": {"ok: 3 of 3"}, "server": {"ok: "}, "leader": {"ok: " + s.ID()}, "nodes": {"ok: 1 online"}, "clock rate": {"ok: ", "25 %"},
	})

	// With one etcd member down, the other members still form a majority, so the server keeps
	// working.
	members[2].Kill()
	s.AwaitReady()
	says(t, w.doctor(s), map[string][]string{"server": {"ok: "}, "store": {"note: 1 of 3", members[2].Client}})

	members[1].Kill()
	notReady(t, s, "the store does not answer")
	says(t, w.doctor(s), map[string][]string{
		"server": {"fault: ", "not ready", "majority"},
		"store":  {"fault: no majority", members[1].Client, members[2].Client, "ares restore"},
	})

	members[1].Start()
	members[2].Start()
	s.AwaitReady()
	says(t, w.doctor(s), map[string][]string{"server": {"ok: "}, "store": {"ok: 3 of 3"}})

	s.Kill()
	says(t, w.doctor(s), map[string][]string{"server": {"fault: ", "ares"}, "clock": {"ok: "}})
}

func TestAStoreOutOfSpaceIsTold(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(1, "--quota-backend-bytes", "4194304"))
	s := w.StartServer("server")
	w.StartAgent("node-a", s)
	c := w.Client(s)
	online(t, c, "node-a")
	id := w.submit(c, w.job("runs", untilReleased))
	w.started(id, 1, 1)

	raw, err := clientv3.New(clientv3.Config{Endpoints: w.Endpoints(), Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	block := strings.Repeat("x", 1<<20)
	var revision int64
	for {
		resp, full := raw.Put(t.Context(), "somebody else's", block)
		if full != nil {
			break
		}
		revision = resp.Header.Revision
	}
	notReady(t, s, "the store takes no writes")
	says(t, w.doctor(s), map[string][]string{
		"server": {"fault: ", "out of space"}, "store": {"ok: "}, "store alarm": {"fault: NOSPACE", "etcdctl alarm disarm", "defrag"},
	})

	// The job ends during the outage. The agent holds the job's result until
	// the store accepts writes again.
	w.release("runs")
	poll(t, patience, "its end on the node", func() (bool, string) { return len(of(w.lines(id), "end", 1)) == 1, "" })
	if _, err = raw.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if _, err = raw.Defragment(t.Context(), w.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err = raw.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.AwaitReady()
	w.ends(c, id, "succeeded")
	if found := w.doctor(s); found["store alarm"] != "" {
		t.Errorf("the alarm is still told: %v", found)
	}
}
