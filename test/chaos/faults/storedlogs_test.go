package faults_test

import (
	"bytes"
	"context"
	"fmt"
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
