package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/live"
)

// run runs an ares command that must succeed.
func (w *world) run(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), w.ares, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("ares %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// before is what happened before everything was lost.
type before struct {
	servers []*host
	agents  []*proc

	file                       string // the backup
	held, late, once, ended    string // jobs that the backup knows
	apart                      string // another, on node-b
	younger                    string // one that it does not
	endedSpec                  *apipb.JobSpec
	fences                     []int64 // that were given out
	heldPid, latePid, youngPid int
}

// live makes a history: jobs in every state, a backup, and more after it.
func (w *world) live(c *client.Client, b *before) {
	t := w.t
	t.Helper()
	cordon := func(node string) {
		if _, err := c.Cordon(t.Context(), node, "for the test"); err != nil {
			t.Fatal(err)
		}
	}
	cordon("node-a")
	b.apart = w.submit(c, w.job("apart", stubborn))
	w.started(b.apart, 1, 1)
	uncordon(t, c, "node-a")
	b.held = w.submit(c, w.job("held", untilReleased))
	once := w.job("once", untilReleased)
	once.ExecutionMode = "at_most_once"
	b.once = w.submit(c, once)
	b.endedSpec = w.job("ended", untilReleased)
	b.ended = w.submit(c, b.endedSpec)
	for _, id := range []string{b.held, b.once, b.ended} {
		w.started(id, 1, 1)
	}
	cordon("node-a")
	cordon("node-b")
	b.late = w.submit(c, w.job("late", untilReleased))

	b.file = filepath.Join(w.dir, "backup")
	said := w.run("backup", b.file, "--server", b.servers[0].at.GRPC, "--token-file", filepath.Join(b.servers[0].dir, server.AdminTokenFile))
	if !strings.Contains(said, "checked") {
		t.Errorf("the backup says %q", said)
	}

	// From here on everything is lost.
	uncordon(t, c, "node-a", "node-b")
	b.younger = w.submit(c, w.job("younger", untilReleased))
	for i := range 20 { // so that plenty of fences are given out
		w.ends(c, w.submit(c, w.job(fmt.Sprintf("more-%d", i), "")), ares.Succeeded)
	}
	b.heldPid = w.started(b.held, 1, 1)[0].pid
	b.latePid = w.started(b.late, 1, 1)[0].pid
	b.youngPid = w.started(b.younger, 1, 1)[0].pid
	w.release("ended")
	w.ends(c, b.ended, ares.Succeeded)
	b.fences = w.fences()
}

func uncordon(t *testing.T, c *client.Client, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		if _, err := c.Uncordon(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
}

// fences are all that jobs were ever started with, in order.
func (w *world) fences() []int64 {
	var out []int64
	for _, path := range w.witnesses() {
		for _, l := range of(w.lines(strings.TrimSuffix(filepath.Base(path), ".trace")), "start", 0) {
			out = append(out, l.fence)
		}
	}
	slices.Sort(out)
	return out
}

// archive writes what the recorder would have written of a job that ended.
func (w *world) archive(s *store.Store, id string) string {
	w.t.Helper()
	snap, err := s.Job(w.t.Context(), ares.JobID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"job": snap.Job, "run": snap.Run})
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.dir, "archive.jsonl")
	if err := os.WriteFile(path, append(line, '\n'), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// after judges what became of everything.
func (w *world) after(c *client.Client, b *before) {
	t := w.t
	t.Helper()
	status, err := c.ClusterStatus(t.Context())
	if err != nil || !strings.Contains(status.GetAlert(), "restored from a backup") {
		t.Errorf("nobody is told that nothing is placed: %q, %v", status.GetAlert(), err)
	}
	uncordon(t, c, "node-a", "node-b") // the cordons were part of the backup
	online(t, c, "node-a")
	for name, pid := range map[string]int{"held": b.heldPid, "late": b.latePid, "younger": b.youngPid} {
		poll(t, patience, "the end of "+name+" of before", func() (bool, string) { return !alive(pid), procState(pid) })
	}
	if j, err := c.Job(t.Context(), b.younger); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a job that the backup does not know: %v, %v", j, err)
	}
	if got, err := c.Submit(t.Context(), b.endedSpec); err != nil || got.GetStatus() != "duplicate" || got.GetState() != string(ares.Succeeded) {
		t.Errorf("the request of a job that had ended: %v, %v", got, err)
	}
	if j := w.ends(c, b.once, ares.Lost); len(of(w.lines(b.once), "start", 0)) != 1 {
		t.Errorf("an at_most_once job was started again: %v", j.GetAttempts())
	}
	for _, name := range []string{"held", "late", "apart"} {
		w.release(name)
	}
	w.ends(c, b.apart, ares.Succeeded)
	w.ends(c, b.held, ares.Succeeded)
	w.state(c, b.late, ares.Succeeded)
	w.ends(c, w.submit(c, w.job("afterwards", "")), ares.Succeeded)
	w.neverTogether(b.late)
	w.neverTogether(b.held)
	w.neverTogether(b.apart)

	all := w.fences()
	if fresh := all[len(b.fences):]; len(fresh) != 4 || fresh[0] <= b.fences[len(b.fences)-1] {
		t.Errorf("fences after the restore are %v, before it they were up to %d", fresh, b.fences[len(b.fences)-1])
	}
}

// neverTogether checks that no process of a job shows life after one with a
// higher fence began. Attempts of the time that was lost are counted again, so
// their numbers say nothing.
func (w *world) neverTogether(id string) {
	w.t.Helper()
	lines := w.lines(id)
	for _, start := range of(lines, "start", 0) {
		for _, l := range lines {
			if l.fence < start.fence && l.at > start.at {
				w.t.Errorf("%s: fence %d wrote %q at %s, after fence %d had begun at %s", id, l.fence, l.verb, l.at, start.fence, start.at)
			}
		}
	}
}

func (b *before) killAll() {
	for _, p := range b.agents {
		p.kill()
	}
	for _, s := range b.servers {
		s.kill()
	}
}

// A server loses its data, gets it back from a backup, and finds agents that
// hold what was started since.
func TestRestoreOfAnEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	b := &before{servers: []*host{s}, agents: []*proc{w.agent("node-a", s), w.agent("node-b", s)}}
	c := w.client(s)
	online(t, c, "node-a", "node-b")
	w.live(c, b)

	if out, err := exec.Command(w.ares, "restore", b.file, "--data-dir", s.dir, "--force").CombinedOutput(); err == nil || !strings.Contains(string(out), "a server runs") {
		t.Errorf("restored under a running server: %v\n%s", err, out)
	}
	b.killAll()
	lost, err := store.Open(t.Context(), store.Config{Dir: filepath.Join(s.dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	archive := w.archive(lost, b.ended)
	if err := lost.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(w.run("restore", b.file, "--data-dir", s.dir, "--archive", archive, "--force"))
	s.start()
	s.ready()
	b.agents[0].start() // node-b never returns; what it runs is ended by its supervisor
	w.after(c, b)
}

// A restored image of a machine, or etcd's own tool without a revision bump,
// puts a store back in time, and nothing in it says so. The agents know.
func TestAStorePutBackInTimeIsNotLed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	a := w.agent("node-a", s)
	c := w.client(s)
	online(t, c, "node-a")
	w.ends(c, w.submit(c, w.job("first", "")), ares.Succeeded)
	s.kill()
	dir, saved := filepath.Join(s.dir, "store"), filepath.Join(w.dir, "saved")
	if err := os.CopyFS(saved, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.ready()
	online(t, c, "node-a")
	for i := range 30 {
		w.ends(c, w.submit(c, w.job(fmt.Sprintf("more-%d", i), "")), ares.Succeeded)
	}
	a.kill()
	s.kill()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	s.start()
	a.start()
	poll(t, patience, "the server to say that it must not lead", func() (bool, string) {
		said, err := s.read("/api/v1/ready")
		return strings.Contains(said, "ares restore"), fmt.Sprint(said, err)
	})
	poll(t, patience, "the agent to say why", func() (bool, string) { return a.says("put back to an earlier time"), "" })
	poll(t, patience, "nobody to lead", func() (bool, string) {
		status, err := c.ClusterStatus(t.Context())
		return err == nil && status.GetLeader() == "", fmt.Sprint(status.GetLeader(), err)
	})
	fences := w.fences()
	pending := w.submit(c, w.job("nobody places it", ""))

	// The remedy: what there is, restored as it should be.
	file := filepath.Join(w.dir, "backup")
	w.run("backup", file, "--data-dir", s.dir)
	s.kill()
	w.run("restore", file, "--data-dir", s.dir, "--force", "--hold", "8s")
	s.start()
	s.ready()
	online(t, c, "node-a")
	w.ends(c, pending, ares.Succeeded)
	if all := w.fences(); len(all) != len(fences)+1 || all[len(all)-1] <= fences[len(fences)-1] {
		t.Errorf("fences are %v, before they were %v", all, fences)
	}
}

func (h *host) read(path string) (string, error) {
	ctx, cancel := context.WithTimeout(h.t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+h.at.HTTP+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return string(data), err
}

// member is one etcd of three.
type member struct {
	*proc

	name, client, peer string
	dir                string
}

func (w *world) members3() []*member {
	w.t.Helper()
	var out []*member
	var cluster, clients []string
	for i := range 3 {
		m := &member{name: fmt.Sprintf("etcd-%d", i+1), client: "http://" + live.FreeAddr(w.t), peer: "http://" + live.FreeAddr(w.t)}
		m.dir = filepath.Join(w.dir, m.name)
		out = append(out, m)
		cluster, clients = append(cluster, m.name+"="+m.peer), append(clients, m.client)
	}
	for _, m := range out {
		m.proc = w.start(m.name, program(w.t, "ARES_TEST_ETCD", "../../.bin/etcd", "make tools"), nil,
			"--name", m.name, "--data-dir", m.dir, "--listen-client-urls", m.client, "--advertise-client-urls", m.client,
			"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", strings.Join(cluster, ","),
			"--log-level", "error")
	}
	w.etcd = strings.Join(clients, ",")
	return out
}

func TestRestoreOfThreeMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	members := w.members3()
	one, two := w.server("one"), w.server("two")
	b := &before{servers: []*host{one, two}, agents: []*proc{w.agent("node-a", one, two), w.agent("node-b", two, one)}}
	c := w.client(one, two)
	online(t, c, "node-a", "node-b")
	w.live(c, b)

	archive := w.archive(w.open(), b.ended)
	b.killAll()
	var cluster []string
	for _, m := range members {
		m.kill()
		cluster = append(cluster, m.name+"="+m.peer)
	}
	prepared := filepath.Join(w.dir, "prepared")
	t.Log(w.run("restore", "prepare", b.file, prepared, "--archive", archive))
	for _, m := range members {
		if err := os.RemoveAll(m.dir); err != nil {
			t.Fatal(err)
		}
		w.run("restore", prepared, "--etcd-data-dir", m.dir, "--name", m.name,
			"--initial-cluster", strings.Join(cluster, ","), "--initial-advertise-peer-urls", m.peer)
		m.start()
	}
	for _, s := range b.servers {
		s.start()
	}
	for _, s := range b.servers {
		s.ready()
	}
	for _, a := range b.agents {
		a.start()
	}
	w.after(c, b)
	w.sameContent(members)
}

// sameContent compares the hashes of the members' data.
func (w *world) sameContent(members []*member) {
	w.t.Helper()
	etcdctl := program(w.t, "ARES_TEST_ETCDCTL", "../../.bin/etcdctl", "make tools")
	poll(w.t, patience, "the members to hold the same", func() (bool, string) {
		out, err := exec.CommandContext(w.t.Context(), etcdctl, "--endpoints", w.etcd, "endpoint", "hashkv", "-w", "json").Output()
		if err != nil {
			return false, err.Error()
		}
		var said []struct {
			HashKV struct {
				Hash     int64 `json:"hash"`
				Revision int64 `json:"hash_revision"`
			}
		}
		if err := json.Unmarshal(out, &said); err != nil || len(said) != len(members) {
			return false, fmt.Sprint(err, string(out))
		}
		for _, s := range said {
			if s != said[0] || s.HashKV.Hash == 0 {
				return false, string(out)
			}
		}
		return true, ""
	})
}
