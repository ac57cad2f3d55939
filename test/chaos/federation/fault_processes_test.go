package federation_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/cluster"
)

func (t *tempter) rest(d time.Duration) { pause.For(t.Ctx, d) }

func hubServer(sig syscall.Signal) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		release, ok := t.reserve(t.f.hub)
		if !ok {
			return nil
		}
		return t.takeDown(t.f.hub, t.f.hub.servers[t.IntN(len(t.f.hub.servers))], sig, t.Between(0, 6000), release)
	}
}

func hubLeaderKill(t *tempter) *inject.Mishap {
	release, ok := t.reserve(t.f.hub)
	if !ok {
		return nil
	}
	i := t.f.hub.leader(t.Ctx)
	if i < 0 {
		release()
		return nil
	}
	return t.takeDown(t.f.hub, t.f.hub.servers[i], syscall.SIGKILL, t.Between(0, 8000), release)
}

// The method `freeze` stops processes for a while.
func (t *tempter) freeze(target string, d time.Duration, release func(), processes ...*cluster.Process) *inject.Mishap {
	var undo []func()
	for _, p := range processes {
		undo = append(undo, p.Freeze())
	}
	return &inject.Mishap{Target: target, Detail: inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

// The method `kill` kills processes for a while.
func (t *tempter) kill(target string, d time.Duration, release func(), processes ...*cluster.Process) *inject.Mishap {
	var undo []func()
	for _, p := range processes {
		p.Kill()
		undo = append(undo, func() { p.Start() })
	}
	return &inject.Mishap{Target: target, Detail: inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

func hubServerStop(t *tempter) *inject.Mishap {
	release, ok := t.reserve(t.f.hub)
	if !ok {
		return nil
	}
	p := t.f.hub.servers[t.IntN(len(t.f.hub.servers))]
	return t.freeze(p.Name, t.Between(1000, 12_000), release, p)
}

// hubEtcd kills some of the hub's three etcd members. Without two of them, its store refuses everything.
func hubEtcd(n int) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		release, ok := t.reserve(t.f.hub)
		if !ok {
			return nil
		}
		down := slices.Clone(t.f.hub.etcds)
		t.Shuffle(len(down), func(i, k int) { down[i], down[k] = down[k], down[i] })
		return t.kill(fmt.Sprint(n, " etcd members of the hub"), t.Between(2000, 12_000), release, down[:n]...)
	}
}

// hubGone kills every process of the hub at once.
func hubGone(t *tempter) *inject.Mishap {
	release, ok := t.reserve(t.f.hub)
	if !ok {
		return nil
	}
	return t.kill("hub", t.Between(3000, 20_000), release, slices.Concat(t.f.hub.etcds, t.f.hub.servers)...)
}

// hubStop stops every server of the hub at once.
func hubStop(t *tempter) *inject.Mishap {
	release, ok := t.reserve(t.f.hub)
	if !ok {
		return nil
	}
	return t.freeze("hub", t.Between(2000, 12_000), release, t.f.hub.servers...)
}

// hubSplit disconnects one machine of the hub from the two others. Clusters and clients can still reach it.
func hubSplit(t *tempter) *inject.Mishap {
	release, ok := t.reserve(t.f.hub)
	if !ok {
		return nil
	}
	i, twoWay, d, undo := t.IntN(len(t.f.hub.controls)), t.IntN(2) == 0, t.Between(2000, 12_000), []func(){}
	for k, other := range t.f.hub.controls {
		if k == i {
			continue
		}
		undo = append(undo, machines.Cut(t.f.t, t.f.hub.controls[i], other))
		if twoWay {
			undo = append(undo, machines.Cut(t.f.t, other, t.f.hub.controls[i]))
		}
	}
	return &inject.Mishap{Target: t.f.hub.controls[i].Name, Detail: fmt.Sprintf("both ways %t %s", twoWay, inject.For(d)), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

func clusterServer(sig syscall.Signal) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		m, release, ok := t.member()
		if !ok {
			return nil
		}
		return t.takeDown(m, m.servers[t.IntN(len(m.servers))], sig, t.Between(0, 6000), release)
	}
}

func clusterServerStop(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	p := m.servers[t.IntN(len(m.servers))]
	return t.freeze(p.Name, t.Between(1000, 10_000), release, p)
}

func clusterEtcdKill(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	return t.kill(m.etcds[0].Name, t.Between(500, 8000), release, m.etcds[0])
}

// clusterStop stops every server of a cluster at once. Its agents go on.
func clusterStop(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	return t.freeze(m.name, t.Between(2000, 12_000), release, m.servers...)
}

func agentKill(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	return t.takeDown(m, m.agents[t.IntN(len(m.agents))], syscall.SIGKILL, t.Between(100, 15_000), release)
}

// failpoint sets a failpoint in a server of the hub or of a cluster. When the server reaches it, it dies, stalls, or gets an error
// from its store, before or after the store did what it was asked. The verbs of grants and loans are preferred.
func failpoint(hub bool) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		s := t.f.hub
		if !hub {
			s = t.f.members[t.IntN(len(t.f.members))]
		}
		release, ok := t.reserve(s)
		if !ok {
			return nil
		}
		m := s.controls[t.IntN(len(s.controls))]
		if i := s.leader(t.Ctx); i >= 0 && t.IntN(3) > 0 {
			m = s.controls[i] // most verbs are the leader's
		}
		point := t.choosePoint(m)
		if point == "" {
			release()
			return nil
		}
		term := "panic"
		switch p := t.IntN(10); {
		case p < 4:
			term = fmt.Sprintf(`%d.0%%return("made to fail")`, 10+t.IntN(60))
		case p < 6:
			term = fmt.Sprintf("%d*sleep(%d)", 1+t.IntN(4), 200+t.IntN(4000))
		}
		at := fmt.Sprintf("http://%s:%d/%s", m.IP, failpointPort, point)
		if err := setFailpoint(t.Ctx, http.MethodPut, at, term); err != nil {
			release()
			return nil
		}
		d := t.Between(1000, 8000)
		off := func() { _ = setFailpoint(context.Background(), http.MethodDelete, at, "") } // a dead process has no active failpoints
		return &inject.Mishap{Target: m.Name, Detail: point + " " + term + " " + inject.For(d), Lasts: d, Undo: inject.Both(off, release)}
	}
}

// verbs are parts of the names of the failpoints around what is special to a federation.
var verbs = []string{"Grant", "Claim", "Loan", "Lend", "Report", "Return", "CopyRuns", "Offer", "Bind", "Withdraw", "Drop", "Confirm", "Suspend", "Hello", "Accept"}

// choosePoint chooses one of the failpoints of a server, or "" if the server does not answer.
func (t *tempter) choosePoint(m *machines.Machine) string {
	ctx, cancel := context.WithTimeout(t.Ctx, 2*time.Second)
	defer cancel()
	text, err := machines.Call(ctx, http.MethodGet, fmt.Sprintf("http://%s:%d/", m.IP, failpointPort), nil)
	if err != nil {
		return ""
	}
	var all, special []string
	for line := range strings.Lines(text) {
		name, _, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || !strings.HasPrefix(name, "store") {
			continue
		}
		all = append(all, name)
		if slices.ContainsFunc(verbs, func(v string) bool { return strings.Contains(name, v) }) {
			special = append(special, name)
		}
	}
	if len(special) > 0 && t.IntN(3) > 0 {
		all = special
	}
	if len(all) == 0 {
		return ""
	}
	return all[t.IntN(len(all))]
}

func setFailpoint(ctx context.Context, method, url, term string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err := machines.Call(ctx, method, url, []byte(term))
	return err
}
