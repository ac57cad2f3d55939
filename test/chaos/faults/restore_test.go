package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// This method runs an ares command that must succeed.
func (w *testCluster) run(args ...string) string {
	w.t.Helper()
	out, err := exec.CommandContext(w.t.Context(), w.Ares, args...).CombinedOutput()
	if err != nil {
		w.t.Fatalf("ares %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// This type records the state of the cluster before the store was lost.
type before struct {
	servers []*cluster.Server
	agents  []*cluster.Process

	file                       string // path of the backup
	held, late, once, ended    string // jobs that the backup contains
	apart                      string // another job of the backup, on node-b
	younger                    string // a job that the backup does not contain
	endedSpec                  *apipb.JobSpec
	fences                     []int64 // all fences used so far
	heldPid, latePid, youngPid int
}

// This method creates jobs in several states, then makes a backup, and then
// creates another job.
func (w *testCluster) live(c *client.Client, b *before) {
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

	b.file = filepath.Join(w.Dir, "backup")
	said := w.run("backup", b.file, "--server", b.servers[0].At.GRPC, "--token-file", filepath.Join(b.servers[0].Dir, server.AdminTokenFile))
	if !strings.Contains(said, "checked") {
		t.Errorf("the backup says %q", said)
	}

	// The restore will lose every change that follows.
	uncordon(t, c, "node-a", "node-b")
	b.younger = w.submit(c, w.job("younger", untilReleased))
	for i := range 20 { // so that many fences are used
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

// This method returns the fences of all attempts that ever started, in order.
func (w *testCluster) fences() []int64 {
	var out []int64
	for _, path := range w.witnesses() {
		for _, l := range of(w.lines(strings.TrimSuffix(filepath.Base(path), ".trace")), "start", 0) {
			out = append(out, l.fence)
		}
	}
	slices.Sort(out)
	return out
}

// `archive` archives a finished job in the same way as the Archiver.
func (w *testCluster) archive(s *store.Store, id string) string {
	w.t.Helper()
	snap, err := s.Job(w.t.Context(), ares.JobID(id))
	if err != nil {
		w.t.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"job": snap.Job, "run": snap.Run})
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.Dir, "archive.jsonl")
	if err := os.WriteFile(path, append(line, '\n'), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

// This method checks the state of every job after the restore.
func (w *testCluster) after(c *client.Client, b *before) {
	t := w.t
	t.Helper()
	status, err := c.ClusterStatus(t.Context())
	if err != nil || !strings.Contains(status.GetAlert(), "restored from a backup") {
		t.Errorf("nobody is told that nothing is placed: %q, %v", status.GetAlert(), err)
	}
	uncordon(t, c, "node-a", "node-b") // the cordons were part of the backup
	online(t, c, "node-a")
	for name, pid := range map[string]int{"held": b.heldPid, "late": b.latePid, "younger": b.youngPid} {
		poll(t, patience, "the end of "+name+" of before", func() (bool, string) { return !cluster.Alive(pid), cluster.State(pid) })
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

// neverTogether checks that no process of a job is active after a process with
// a higher fence has started. It does not compare attempt numbers, because
// attempt numbers from the lost period are used again.
func (w *testCluster) neverTogether(id string) {
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
		p.Kill()
	}
	for _, s := range b.servers {
		s.Kill()
	}
}

// TestRestoreOfAnEmbeddedStore deletes a server's data and restores it from a
// backup. The agents still run seats that were started after the backup.
func TestRestoreOfAnEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	b := &before{servers: []*cluster.Server{s}, agents: []*cluster.Process{w.StartAgent("node-a", s), w.StartAgent("node-b", s)}}
	c := w.Client(s)
	online(t, c, "node-a", "node-b")
	w.live(c, b)

	if out, err := exec.Command(w.Ares, "restore", b.file, "--data-dir", s.Dir, "--force").CombinedOutput(); err == nil || !strings.Contains(string(out), "a server is using") {
		t.Errorf("restored under a running server: %v\n%s", err, out)
	}
	b.killAll()
	lost, err := store.Open(t.Context(), store.Config{Dir: filepath.Join(s.Dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	archive := w.archive(lost, b.ended)
	if err := lost.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(w.run("restore", b.file, "--data-dir", s.Dir, "--archive", archive, "--force"))
	s.Start()
	s.AwaitReady()
	b.agents[0].Start() // node-b never returns; its supervisor ends its job
	w.after(c, b)
}

// TestAStorePutBackInTimeIsNotLed resets the store to an older state. A store
// also goes back to an older state when an administrator restores a disk image.
// The same happens with etcd's own restore tool, unless the revision is raised.
// Nothing in the store shows that its state is outdated, but the server's mark
// does. The agent gets no session.
func TestAStorePutBackInTimeIsNotLed(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	a := w.StartAgent("node-a", s)
	c := w.Client(s)
	online(t, c, "node-a")
	w.ends(c, w.submit(c, w.job("first", "")), ares.Succeeded)
	s.Kill()
	dir, saved := filepath.Join(s.Dir, "store"), filepath.Join(w.Dir, "saved")
	if err := os.CopyFS(saved, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.AwaitReady()
	online(t, c, "node-a")
	for i := range 30 {
		w.ends(c, w.submit(c, w.job(fmt.Sprintf("more-%d", i), "")), ares.Succeeded)
	}
	a.Kill()
	s.Kill()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	s.Start()
	a.Start()
	poll(t, patience, "the server to say that it must not lead", func() (bool, string) {
		_, said, err := s.Get("/api/v1/ready")
		return strings.Contains(said, "ares restore"), fmt.Sprint(said, err)
	})
	poll(t, patience, "the agent to say why", func() (bool, string) { return a.Logged("but the store is at revision"), "" })
	poll(t, patience, "nobody to lead", func() (bool, string) {
		status, err := c.ClusterStatus(t.Context())
		return err == nil && status.GetLeader() == "", fmt.Sprint(status.GetLeader(), err)
	})
	fences := w.fences()
	pending := w.submit(c, w.job("nobody places it", ""))

	// The remedy is to back up the current store and to restore that backup
	// with Ares.
	file := filepath.Join(w.Dir, "backup")
	w.run("backup", file, "--data-dir", s.Dir)
	s.Kill()
	w.run("restore", file, "--data-dir", s.Dir, "--force", "--hold", "8s")
	s.Start()
	s.AwaitReady()
	online(t, c, "node-a")
	w.ends(c, pending, ares.Succeeded)
	if all := w.fences(); len(all) != len(fences)+1 || all[len(all)-1] <= fences[len(fences)-1] {
		t.Errorf("fences are %v, before they were %v", all, fences)
	}
}

func TestRestoreOfThreeMembers(t *testing.T) {
	t.Parallel()
	w := newCluster(t, cluster.Etcd(3))
	one, two := w.StartServer("one"), w.StartServer("two")
	b := &before{servers: []*cluster.Server{one, two}, agents: []*cluster.Process{w.StartAgent("node-a", one, two), w.StartAgent("node-b", two, one)}}
	c := w.Client(one, two)
	online(t, c, "node-a", "node-b")
	w.live(c, b)

	archive := w.archive(w.Store(), b.ended)
	b.killAll()
	for _, m := range w.Etcd {
		m.Kill()
	}
	prepared := filepath.Join(w.Dir, "prepared")
	t.Log(w.run("restore", "prepare", b.file, prepared, "--archive", archive))
	for _, m := range w.Etcd {
		if err := os.RemoveAll(m.Dir); err != nil {
			t.Fatal(err)
		}
		w.run("restore", prepared, "--etcd-data-dir", m.Dir, "--name", m.Name,
			"--initial-cluster", w.InitialCluster(), "--initial-advertise-peer-urls", m.Peer)
		m.Start()
	}
	for _, s := range b.servers {
		s.Start()
	}
	for _, s := range b.servers {
		s.AwaitReady()
	}
	for _, a := range b.agents {
		a.Start()
	}
	w.after(c, b)
	w.sameContent()
}

// sameContent compares the hashes of the etcd members' data.
func (w *testCluster) sameContent() {
	w.t.Helper()
	etcdctl := live.Etcdctl.Path(w.t)
	poll(w.t, patience, "the members to hold the same", func() (bool, string) {
		out, err := exec.CommandContext(w.t.Context(), etcdctl, "--endpoints", strings.Join(w.Endpoints(), ","), "endpoint", "hashkv", "-w", "json").Output()
		if err != nil {
			return false, err.Error()
		}
		var said []struct {
			HashKV struct {
				Hash     int64 `json:"hash"`
				Revision int64 `json:"hash_revision"`
			}
		}
		if err := json.Unmarshal(out, &said); err != nil || len(said) != len(w.Etcd) {
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
