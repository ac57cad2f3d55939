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
)

// doctor asks the doctor about a server and returns its findings by what they
// are about, as "state: detail → remedy".
func (w *world) doctor(h *host) map[string]string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), w.ares, "doctor", "-o", "json",
		"--server", h.at.GRPC, "--token-file", filepath.Join(h.dir, server.AdminTokenFile), "--data-dir", h.dir).Output()
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

// says wants findings that contain words.
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

// notReady waits until a server says so, with a word.
func (h *host) notReady(word string) {
	h.t.Helper()
	poll(h.t, patience, h.name+" to say that it is not ready", func() (bool, string) {
		status, _ := h.get("/api/v1/ready")
		said, err := h.read("/api/v1/ready")
		return status == http.StatusServiceUnavailable && strings.Contains(said, word), fmt.Sprint(status, said, err)
	})
}

func TestAStoreWithoutAMajorityIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	members := w.members3()
	s := w.server("server")
	w.agent("node-a", s)
	c := w.client(s)
	online(t, c, "node-a")
	says(t, w.doctor(s), map[string][]string{
		"store": {"ok: 3 of 3"}, "server": {"ok: "}, "leader": {"ok: " + s.id()}, "nodes": {"ok: 1 online"}, "clock rate": {"ok: ", "25 %"},
	})

	// One away: a majority is there, and the server goes on.
	members[2].kill()
	s.ready()
	says(t, w.doctor(s), map[string][]string{"server": {"ok: "}, "store": {"note: 1 of 3", members[2].client}})

	members[1].kill()
	s.notReady("the store does not answer")
	says(t, w.doctor(s), map[string][]string{
		"server": {"fault: ", "not ready", "majority"},
		"store":  {"fault: no majority", members[1].client, members[2].client, "ares restore"},
	})

	members[1].start()
	members[2].start()
	s.ready()
	says(t, w.doctor(s), map[string][]string{"server": {"ok: "}, "store": {"ok: 3 of 3"}})

	s.kill()
	says(t, w.doctor(s), map[string][]string{"server": {"fault: ", "ares"}, "clock": {"ok: "}})
}

func TestAStoreOutOfSpaceIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.startEtcd("--quota-backend-bytes", "4194304")
	s := w.server("server")
	w.agent("node-a", s)
	c := w.client(s)
	online(t, c, "node-a")
	id := w.submit(c, w.job("runs", untilReleased))
	w.started(id, 1, 1)

	raw, err := clientv3.New(clientv3.Config{Endpoints: []string{w.etcd}, Logger: zap.NewNop()})
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
	s.notReady("the store takes no writes")
	says(t, w.doctor(s), map[string][]string{
		"server": {"fault: ", "out of space"}, "store": {"ok: "}, "store alarm": {"fault: NOSPACE", "etcdctl alarm disarm", "defrag"},
	})

	// The job ends meanwhile; its result waits on the agent and is committed later.
	w.release("runs")
	poll(t, patience, "its end on the node", func() (bool, string) { return len(of(w.lines(id), "end", 1)) == 1, "" })
	if _, err = raw.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if _, err = raw.Defragment(t.Context(), w.etcd); err != nil {
		t.Fatal(err)
	}
	if _, err = raw.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	s.ready()
	w.ends(c, id, "succeeded")
	if found := w.doctor(s); found["store alarm"] != "" {
		t.Errorf("the alarm is still told: %v", found)
	}
}
