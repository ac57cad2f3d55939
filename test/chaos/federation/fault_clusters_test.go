package federation_test

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/live"
)

// administer repeats an administrator's call at a site until it succeeds, for at most a minute.
func (s *site) administer(what string, call func(context.Context, *client.Client) error) {
	s.t.Helper()
	c := s.patient()
	defer c.Close()
	ctx, cancel := fromRouter(2 * time.Minute)
	defer cancel()
	live.Await(s.t, 90*time.Second, what, func() (bool, string) {
		err := call(ctx, c)
		return err == nil, fmt.Sprint(err)
	})
}

// memberships is the name that a fault reserves which changes which clusters belong to the hub. Otherwise a restore of the hub could
// forget such a change, and only an administrator could repeat it.
const memberships = "memberships"

// reserveWith reserves a site and the memberships.
func (t *tempter) reserveWith(s *site) (release func(), ok bool) {
	free, ok := t.reserve(s)
	if !ok {
		return nil, false
	}
	if !t.f.Take(memberships) {
		free()
		return nil, false
	}
	return inject.Both(free, func() { t.f.Drop(memberships) }), true
}

// deadAndBack cuts a cluster from the hub, declares it dead although it lives, and lets it come back.
func deadAndBack(t *tempter) *inject.Mishap {
	m := t.f.members[t.IntN(len(t.f.members))]
	release, ok := t.reserveWith(m)
	if !ok {
		return nil
	}
	undo := t.f.cut(m, toHub|fromHub)
	t.rest(t.Between(2000, 8000))
	t.f.declareDead(m, true)
	d := t.Between(1000, 10_000)
	back := func() { t.f.awaitReady(m); t.f.happened(verdict.Back, m, true) }
	return &inject.Mishap{Target: m.name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(undo, back, release)}
}

// declareDead declares a cluster dead. The verdict must know of it before it has effects.
func (f *fleet) declareDead(m *site, alive bool) {
	f.happened(verdict.Dead, m, alive)
	f.hub.administer("declare "+m.name+" dead", func(ctx context.Context, c *client.Client) error {
		_, err := c.DeclareClusterDead(ctx, m.name, "a test of faults")
		return err
	})
}

// awaitReady waits until the hub has a cluster as ready, whatever an administrator has decided about it.
func (f *fleet) awaitReady(m *site) {
	f.t.Helper()
	f.hub.administer("cluster "+m.name+" to be ready again", func(ctx context.Context, c *client.Client) error {
		at, err := c.Cluster(ctx, m.name)
		if err != nil {
			return err
		}
		if at.GetState() == "cordoned" || at.GetState() == "draining" {
			_, err = c.UncordonCluster(ctx, m.name)
		} else if at.GetState() != "ready" {
			err = fmt.Errorf("it is %s", at.GetState())
		}
		return err
	})
}

// goneForGood destroys a cluster with everything that runs in it, and declares it dead. At most one cluster is lost in a run.
func goneForGood(t *tempter) *inject.Mishap {
	m := t.f.members[t.IntN(len(t.f.members))]
	if len(t.f.gone) > 0 || !t.f.Take("one cluster") {
		return nil
	}
	release, ok := t.reserveWith(m)
	if !ok {
		t.f.Drop("one cluster")
		return nil
	}
	t.f.mu.Lock()
	t.f.gone[m.name] = true
	t.f.mu.Unlock()
	t.f.happened(verdict.Lost, m, false)
	m.destroy()
	d := t.Between(1000, 15_000)
	return &inject.Mishap{Target: m.name, Detail: "and declared dead after " + d.String(), Lasts: d, Undo: func() {
		t.f.declareDead(m, false)
		release()
	}}
}

// The method `destroy` kills every process of a site for good.
func (s *site) destroy() {
	for _, p := range s.processes() {
		p.End()
	}
	for _, m := range append(s.controls, s.workers...) {
		for pids := m.Pids(); len(pids) > 0; pids = m.Pids() {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
			}
		}
	}
}

// drain empties a cluster for a while. In half of the cases, its jobs are stopped and run elsewhere.
func drain(t *tempter) *inject.Mishap {
	m, release, ok := t.member()
	if !ok {
		return nil
	}
	stop := t.IntN(2) == 0
	ctx, cancel := context.WithTimeout(t.Ctx, 10*time.Second)
	defer cancel()
	c := t.f.hub.patient()
	defer c.Close()
	if _, err := c.DrainCluster(ctx, m.name, "a test of faults", stop); err != nil {
		release()
		return nil
	}
	d := t.Between(3000, 12_000)
	return &inject.Mishap{Target: m.name, Detail: fmt.Sprintf("stops jobs %t, %s", stop, inject.For(d)), Lasts: d, Undo: inject.Both(func() { t.f.awaitReady(m) }, release)}
}

// leaveAndJoin lets a cluster leave the hub and join it again while jobs are submitted everywhere else.
func leaveAndJoin(t *tempter) *inject.Mishap {
	m := t.f.members[t.IntN(len(t.f.members))]
	release, ok := t.reserveWith(m)
	if !ok {
		return nil
	}
	m.quiet.Store(true)
	detail := "with nothing left there"
	t.f.hub.administer("drain "+m.name, func(ctx context.Context, c *client.Client) error {
		_, err := c.DrainCluster(ctx, m.name, "it leaves", true)
		return err
	})
	m.awaitIdle()
	m.administer(m.name+" to leave", func(ctx context.Context, c *client.Client) error {
		member, err := c.Membership(ctx)
		if err == nil && member.GetName() != "" {
			err = c.LeaveHub(ctx)
		}
		return err
	})
	t.f.happened(verdict.Left, m, true)
	d := t.Between(500, 5000)
	return &inject.Mishap{Target: m.name, Detail: detail, Lasts: d, Undo: func() {
		t.f.join(m)
		m.quiet.Store(false)
		release()
	}}
}

// awaitIdle waits until every job of a site has ended.
func (s *site) awaitIdle() {
	s.t.Helper()
	live.Await(s.t, 2*time.Minute, s.name+" to have no jobs", func() (bool, string) {
		job, n := s.rec.Unsettled()
		return n == 0, fmt.Sprint(n, " jobs, such as ", job)
	})
}
