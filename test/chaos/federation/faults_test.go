package federation_test

import (
	"context"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/cluster"
)

// This variable lists all kinds of injected faults, with their relative frequencies.
var faults = []inject.Fault[*tempter]{
	{Kind: "link-cut", Weight: 4, Do: cutLink(toHub | fromHub)},
	{Kind: "link-cut-answers", Weight: 3, Do: cutLink(fromHub)}, // the hub hears the cluster, and the cluster hears nothing
	{Kind: "link-cut-news", Weight: 3, Do: cutLink(toHub)},
	{Kind: "link-slow", Weight: 4, Do: slowLink},
	{Kind: "link-stall", Weight: 3, Do: stallLink("upstream", "downstream")},
	{Kind: "link-drops-answers", Weight: 3, Do: stallLink("downstream")},
	{Kind: "link-reset", Weight: 3, Do: resetLink},
	{Kind: "link-flaps", Weight: 2, Do: flapLink},
	{Kind: "hub-server-kill", Weight: 3, Do: hubServer(syscall.SIGKILL)},
	{Kind: "hub-server-restart", Weight: 2, Do: hubServer(syscall.SIGTERM)},
	{Kind: "hub-leader-kill", Weight: 4, Do: hubLeaderKill},
	{Kind: "hub-server-stop", Weight: 3, Do: hubServerStop},
	{Kind: "hub-etcd-kill", Weight: 2, Do: hubEtcd(1)},
	{Kind: "hub-etcd-quorum", Weight: 2, Do: hubEtcd(2)},
	{Kind: "hub-gone", Weight: 2, Do: hubGone},
	{Kind: "hub-stop", Weight: 1, Do: hubStop},
	{Kind: "hub-split", Weight: 2, Do: hubSplit},
	{Kind: "hub-failpoint", Weight: 5, Do: failpoint(true)},
	{Kind: "hub-restore", Weight: 1, Do: hubRestore},
	{Kind: "cluster-server-kill", Weight: 4, Do: clusterServer(syscall.SIGKILL)},
	{Kind: "cluster-server-restart", Weight: 2, Do: clusterServer(syscall.SIGTERM)},
	{Kind: "cluster-server-stop", Weight: 3, Do: clusterServerStop},
	{Kind: "cluster-etcd-kill", Weight: 3, Do: clusterEtcdKill},
	{Kind: "cluster-stop", Weight: 2, Do: clusterStop},
	{Kind: "cluster-failpoint", Weight: 5, Do: failpoint(false)},
	{Kind: "agent-kill", Weight: 2, Do: agentKill},
	{Kind: "cluster-restore", Weight: 2, Do: clusterRestore},
	{Kind: "both-restore", Weight: 1, Do: bothRestore},
	{Kind: "cluster-rollback", Weight: 2, Do: rollBack},
	{Kind: "cluster-copy", Weight: 2, Do: copyStore},
	{Kind: "cluster-dead-and-back", Weight: 2, Do: deadAndBack},
	{Kind: "cluster-drain", Weight: 2, Do: drain},
	{Kind: "cluster-leave-join", Weight: 1, Do: leaveAndJoin},
	{Kind: "cluster-gone", Weight: 1, Do: goneForGood},
}

// A `tempter` injects faults into a fleet. Several tempters do so at the same time, on different targets.
type tempter struct {
	*inject.Injector
	f *fleet
}

// The method `member` reserves a cluster for one fault. The function `release` ends the reservation.
func (t *tempter) member() (m *site, release func(), ok bool) {
	m = t.f.members[t.IntN(len(t.f.members))]
	release, ok = t.reserve(m)
	return m, release, ok
}

func (t *tempter) reserve(s *site) (release func(), ok bool) {
	if t.f.isGone(s) || !t.f.Take(s.name) {
		return nil, false
	}
	return func() { t.f.Drop(s.name) }, true
}

// takeDown stops a process for a while, and sometimes restarts it with a wrong wall clock.
func (t *tempter) takeDown(s *site, p *cluster.Process, sig syscall.Signal, d time.Duration, release func()) *inject.Mishap {
	wall, detail := t.Wall()
	p.Stop(sig, 20*time.Second)
	return &inject.Mishap{Target: p.Name, Detail: inject.For(d) + detail, Lasts: d, Undo: inject.Both(func() { p.Start(wall...) }, release)}
}

// fromRouter makes calls outside a run's context, which ends before the last fault is undone.
func fromRouter(atMost time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), atMost)
}

// These constants say which direction of the connections between a cluster and the hub is cut.
const (
	toHub = 1 << iota
	fromHub
)

// cutLink drops every packet between a cluster and the hub, in one direction or both.
func cutLink(ways int) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		m, release, ok := t.member()
		if !ok {
			return nil
		}
		d := t.Between(500, 15_000)
		return &inject.Mishap{Target: m.name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.f.cut(m, ways), release)}
	}
}

// The method `cut` cuts a cluster from the hub until the returned function is called.
func (f *fleet) cut(m *site, ways int) func() {
	var undo []func()
	for _, c := range m.controls {
		if ways&toHub != 0 {
			undo = append(undo, machines.Cut(f.t, c, f.proxies))
		}
		if ways&fromHub != 0 {
			undo = append(undo, machines.Cut(f.t, f.proxies, c))
		}
	}
	return inject.Both(undo...)
}

// The method `spoil` disturbs all connections of a cluster to the hub, until the returned function is called.
func (f *fleet) spoil(m *site, kind string, attributes map[string]any, streams ...string) func() {
	var undo []func()
	for k := range f.hub.controls {
		undo = append(undo, f.toxics.Spoil(link(m, k), kind, attributes, streams...))
	}
	return inject.Both(undo...)
}

// slowLink makes a round trip between a cluster and the hub take 150 ms longer.
func slowLink(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	d := t.Between(2000, 20_000)
	undo := t.f.spoil(m, "latency", map[string]any{"latency": 75, "jitter": 5}, "upstream", "downstream")
	return &inject.Mishap{Target: m.name, Detail: "150 ms " + inject.For(d), Lasts: d, Undo: inject.Both(undo, release)}
}

// stallLink keeps the connections of a cluster open while nothing gets through.
func stallLink(streams ...string) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		m, release, ok := t.member()
		if !ok {
			return nil
		}
		d := t.Between(1000, 12_000)
		return &inject.Mishap{Target: m.name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.f.spoil(m, "timeout", map[string]any{"timeout": 0}, streams...), release)}
	}
}

// resetLink resets the connections of a cluster: what it has just sent was perhaps done, and no answer comes.
func resetLink(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	d := t.Between(500, 5000)
	return &inject.Mishap{Target: m.name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.f.spoil(m, "reset_peer", map[string]any{"timeout": 200}, "upstream", "downstream"), release)}
}

// flapLink cuts a cluster from the hub again and again.
func flapLink(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	n := 2 + t.IntN(3)
	for range n {
		undo := t.f.cut(m, toHub|fromHub)
		t.rest(t.Between(3500, 5000))
		undo()
		t.rest(t.Between(2000, 5000))
	}
	return &inject.Mishap{Target: m.name, Detail: "several times", Undo: release}
}
