package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/live"
)

// This fault, called compaction, stops a server and compacts the store's old revisions. The
// server's watch then cannot resume at its last revision.
func compaction(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	thaw := t.fleet.servers[i].Freeze()
	d := t.Between(1000, 5000)
	return &inject.Mishap{Target: t.fleet.servers[i].Name, Detail: "stopped " + inject.For(d), Lasts: d, Undo: func() {
		// Keep the revisions that the recorder has not seen yet. The record would otherwise have
		// a gap.
		_, _ = t.fleet.etcdctl("compact", fmt.Sprint(t.scene.rec.Seen()))
		thaw()
		release()
	}}
}

// etcdSpace fills the store to its space quota. A full store rejects every
// write until an operator frees space.
func etcdSpace(t *tempter) *inject.Mishap {
	_, release, ok := t.control()
	if !ok {
		return nil
	}
	block := strings.Repeat("x", 1<<20)
	said := ""
	for n := 0; n < 2*t.fleet.patience.space>>20 && !strings.Contains(said, "space exceeded") && t.Ctx.Err() == nil; n++ {
		said, _ = t.fleet.etcdctlIn(block, "put", fmt.Sprintf("/junk/%d", n))
	}
	d := t.Between(1000, 8000)
	return &inject.Mishap{Target: "etcd", Detail: fmt.Sprintf("%q %s", said, inject.For(d)), Lasts: d, Undo: inject.Both(t.fleet.makeRoom, release)}
}

// makeRoom frees space in the store with the steps that `ares doctor` recommends to an operator.
func (f *fleet) makeRoom() {
	live.Await(f.t, time.Minute, "room in the store", func() (bool, string) {
		if _, err := f.etcdctl("del", "--prefix", "/junk/"); err == nil {
			return true, ""
		}
		said, _ := f.etcdctl("alarm", "disarm") // otherwise nothing can be deleted either
		return false, said
	})
	if out, err := f.etcdctl("get", "--write-out=fields", "--limit=1", "/none"); err == nil {
		for line := range strings.Lines(out) {
			if rev, ok := strings.CutPrefix(line, `"Revision" : `); ok {
				_, _ = f.etcdctl("compact", strings.TrimSpace(rev))
			}
		}
	}
	_, _ = f.etcdctl("defrag", "--cluster")
	_, _ = f.etcdctl("alarm", "disarm")
}

func (f *fleet) etcdctl(args ...string) (string, error) { return f.etcdctlIn("", args...) }

func (f *fleet) etcdctlIn(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, live.Etcdctl.Path(f.t),
		append([]string{"--endpoints", strings.Join(f.endpoints(), ",")}, args...)...)
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// This fault sets a failpoint in a server or an agent. When the process reaches
// the failpoint, it dies, stalls or returns an error, once or several times.
func failpoint(server bool) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		i, release, ok := t.worker()
		among := t.fleet.workers
		if server {
			i, release, ok = t.control()
			among = t.fleet.controls
		}
		if !ok {
			return nil
		}
		m := among[i]
		points := slices.DeleteFunc(listFailpoints(t.Ctx, m), func(point string) bool { return strings.HasPrefix(point, "agent") == server })
		if len(points) == 0 {
			release()
			return nil
		}
		point := points[t.IntN(len(points))]
		term := failure(t.Rand, point)
		at := fmt.Sprintf("http://%s:%d/%s", m.IP, failpointPort, point)
		if err := failpointCall(t.Ctx, http.MethodPut, at, term); err != nil {
			if strings.Contains(err.Error(), "parse") {
				t.fleet.t.Error(err)
			}
			release()
			return nil
		}
		d := t.Between(500, 5000)
		off := func() { _ = failpointCall(context.Background(), http.MethodDelete, at, "") } // a dead process has no active failpoints
		return &inject.Mishap{Target: m.Name, Detail: point + " " + term + " " + inject.For(d), Lasts: d, Undo: inject.Both(off, release)}
	}
}

// This function chooses what happens at a failpoint. In most cases, the process
// dies at the failpoint.
func failure(rng *rand.Rand, point string) string {
	p := rng.IntN(10)
	switch {
	case p < 4 && (strings.HasPrefix(point, "store") || strings.HasPrefix(point, "door")) && point != "doorBeforeDispatch":
		return fmt.Sprintf(`%d.0%%return("made to fail")`, 5+rng.IntN(60))
	case p < 6:
		return fmt.Sprintf("%d*sleep(%d)", 1+rng.IntN(4), 200+rng.IntN(4000))
	}
	return "panic"
}

func listFailpoints(ctx context.Context, m *machines.Machine) []string {
	text, err := failpointText(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", m.IP, failpointPort), "")
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out = append(out, name)
		}
	}
	return out
}

func failpointCall(ctx context.Context, method, url, term string) error {
	_, err := failpointText(ctx, method, url, term)
	return err
}

func failpointText(ctx context.Context, method, url, body string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return machines.Call(ctx, method, url, []byte(body))
}
