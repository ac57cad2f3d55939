package faults_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// unstored returns the ranks whose output a node has not stored at the servers yet.
func (w *testCluster) unstored(node string) []string {
	w.t.Helper()
	var out []string
	for _, dir := range []string{"seats", "logs"} {
		list, err := os.ReadDir(filepath.Join(w.Path(node), "agent", "seats", dir))
		if err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list {
			out = append(out, e.Name())
		}
	}
	return out
}

// TestOutputOutlivesItsNode kills the agent and the server again and again while output is stored. Whatever the output is read from, it is
// whole, or the reader gets an error. In the end the node is removed with its disk, and all output is read whole.
func TestOutputOutlivesItsNode(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := w.StartServer("server")
	c := w.Client(s)
	a := w.StartAgent("node-a", s)
	online(t, c, "node-a")
	want, ids := map[string]string{}, []string{}
	for i := range 12 {
		lines := []int{0, 3, 1_500_000}[i%3]
		spec := &apipb.JobSpec{
			RequestId: fmt.Sprintf("%s/%d", t.Name(), i), Name: fmt.Sprintf("prints-%d", i), LostAfterSeconds: 30,
			Command: []string{"sh", "-c", fmt.Sprintf("test %d = 0 || seq %d0000000 %d", lines, i+1, (i+1)*10000000+lines)},
		}
		id := w.submit(c, spec)
		var b strings.Builder
		for n := 0; n <= lines && lines > 0; n++ {
			fmt.Fprintln(&b, (i+1)*10000000+n)
		}
		ids, want[id] = append(ids, id), b.String()
	}
	read := func(id string) (string, error) {
		var b bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		err := c.Logs(ctx, id, client.LogOptions{}, &b)
		return b.String(), err
	}
	victims := []*cluster.Process{a, a, s.Process}
	for range 12 {
		p := victims[r.IntN(len(victims))]
		rest(time.Duration(r.IntN(1500)) * time.Millisecond)
		p.Kill()
		rest(time.Duration(r.IntN(300)) * time.Millisecond)
		p.Start()
		if p == s.Process {
			s.AwaitReady()
		}
		id := ids[r.IntN(len(ids))]
		if j, err := c.Job(t.Context(), id); err != nil || ares.Phase(j.GetState()) != ares.Succeeded {
			continue
		}
		if got, err := read(id); err == nil && got != want[id] {
			t.Fatalf("%s: %d bytes are read as if they were all %d", id, len(got), len(want[id]))
		}
	}
	for _, id := range ids {
		w.ends(c, id, ares.Succeeded)
	}
	poll(t, patience, "the output to be stored", func() (bool, string) {
		left := w.unstored("node-a")
		return len(left) == 0, fmt.Sprint(left)
	})
	a.Kill()
	if err := os.RemoveAll(filepath.Join(w.Path("node-a"), "agent", "seats")); err != nil {
		t.Fatal(err)
	}
	poll(t, patience, "the node to be removed", func() (bool, string) {
		_, err := c.RemoveNode(t.Context(), "node-a", true)
		return err == nil, fmt.Sprint(err)
	})
	s.Kill() // what is stored survives it
	s.Start()
	s.AwaitReady()
	for _, id := range ids {
		if got, err := read(id); err != nil || got != want[id] {
			t.Errorf("%s: %d bytes of %d, %v", id, len(got), len(want[id]), err)
		}
	}
}

// TestAgentKilledWhileItStoresOutput kills the agent before and after each call that stores the output of ended ranks, at the servers and on
// its own disk. The next agent stores everything, once, and keeps nothing twice.
func TestAgentKilledWhileItStoresOutput(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"agentBeforeStoreLogs", "agentAfterStoreLogs"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			w := newCluster(t, cluster.Binary(live.Failpoints.Path(t)))
			s := w.StartServer("server")
			c := w.Client(s)
			a := w.StartAgent("node-a", s)
			online(t, c, "node-a")
			a.Kill()
			// The agent is killed in its first call, the next agent in its second one, and so on.
			armed := func(calls int) string {
				if calls == 0 {
					return "GOFAIL_FAILPOINTS=" + point + "=panic"
				}
				return fmt.Sprintf("GOFAIL_FAILPOINTS=%s=%d*sleep(0)->panic", point, calls)
			}
			a.Start(armed(0))
			ids, want := []string{}, map[string]string{}
			for i, lines := range []int{0, 1_200_000, 3} { // the second one needs several calls
				spec := &apipb.JobSpec{
					RequestId: fmt.Sprint(point, i), Name: fmt.Sprint("prints-", i), Command: []string{"sh", "-c", fmt.Sprintf("seq %d", lines)}, LostAfterSeconds: 120,
				}
				id := w.submit(c, spec)
				var b strings.Builder
				for n := range lines {
					fmt.Fprintln(&b, n+1)
				}
				ids, want[id] = append(ids, id), b.String()
			}
			read := func(id string) string {
				t.Helper()
				var b bytes.Buffer
				if err := c.Logs(t.Context(), id, client.LogOptions{}, &b); err != nil {
					t.Errorf("%s: %v", id, err)
				}
				return b.String()
			}
			isOver := func() (bool, string) {
				for _, id := range ids {
					if j, err := c.Job(t.Context(), id); err != nil || ares.Phase(j.GetState()) != ares.Succeeded {
						return false, fmt.Sprint(j.GetState(), j.GetReason(), err)
					}
				}
				left := w.unstored("node-a")
				return len(left) == 0, fmt.Sprint(left)
			}
			killed := 0
			for isDone := false; !isDone; {
				poll(t, patience, "the agent to be killed, or to have stored everything", func() (bool, string) {
					select {
					case <-a.Ended():
						return true, ""
					default:
					}
					over, state := isOver()
					isDone = over
					return over, state
				})
				if !isDone {
					killed++
					a.Start(armed(killed))
				}
			}
			if killed < 3 {
				t.Errorf("the agent was killed in %d calls, which are not all calls for one job", killed)
			}
			for _, id := range ids {
				if got := read(id); got != want[id] {
					t.Errorf("%s: %d bytes of %d on the node", id, len(got), len(want[id]))
				}
			}
			held := diskOf(t, filepath.Join(w.Path("node-a"), "agent", "seats"))
			if most := int64(len(want[ids[1]])) * 5 / 4; held > most {
				t.Errorf("the node keeps %d bytes for %d bytes of output", held, len(want[ids[1]]))
			}
			a.Kill()
			if err := os.RemoveAll(filepath.Join(w.Path("node-a"), "agent", "seats")); err != nil {
				t.Fatal(err)
			}
			poll(t, patience, "the node to be removed", func() (bool, string) {
				_, err := c.RemoveNode(t.Context(), "node-a", true)
				return err == nil, fmt.Sprint(err)
			})
			for _, id := range ids {
				if got := read(id); got != want[id] {
					t.Errorf("%s: %d bytes of %d at the servers", id, len(got), len(want[id]))
				}
			}
		})
	}
}

// diskOf returns the size of all files below a directory.
func diskOf(t *testing.T, dir string) (size int64) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			size += st.Size()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return size
}
