package engine

import (
	"fmt"
	"slices"

	ares "github.com/ares-scheduler/ares"
)

// Check says which law the state breaks, nil for none: no device is sold twice,
// every attempt has its whole gang, and the accounts, queues and index that are
// kept up to date say the same as counting anew. Tests, the simulator and a
// server in debug mode share it; it looks at everything and is not cheap.
func (s *State) Check() error {
	c := count{taken: map[deviceKey]int{}, nodes: map[string]nodeUse{}, tenants: map[string]ares.Use{}, shapes: map[*shape]int{}}
	if len(s.try.taken)+len(s.try.spent)+len(s.moved)+len(s.touched) > 0 {
		return fmt.Errorf("something is left of a decision or a batch")
	}
	pending, delayed := 0, 0
	for _, e := range s.entries() {
		if err := e.check(); err != nil {
			return err
		}
		c.add(e)
		switch e.wants() {
		case inPending:
			pending++
		case inDelayed:
			delayed++
		case inNone:
		}
	}
	if pending != len(s.pending) || delayed != len(s.delayed) {
		return fmt.Errorf("%d jobs may be placed and %d are delayed, but %d and %d are queued", pending, delayed, len(s.pending), len(s.delayed))
	}
	if !slices.IsSortedFunc(s.pending, inOrder) || !slices.IsSortedFunc(s.delayed, byDue) {
		return fmt.Errorf("a queue is out of order")
	}
	if err := s.checkArrays(); err != nil {
		return err
	}
	if err := c.checkTenants(s); err != nil {
		return err
	}
	return c.checkNodes(s)
}

// check wants an entry in its queue, and each attempt's gang whole.
func (e *entry) check() error {
	if e.queue != e.wants() || e.moved {
		return fmt.Errorf("job %s is in queue %d and belongs into %d", e.id, e.queue, e.wants())
	}
	if e.run == nil || e.job == nil {
		return nil
	}
	for i := range e.run.Attempts {
		a := &e.run.Attempts[i]
		if n := len(a.Seats); n > max(e.job.Members, 1) || n < least(&e.job.Spec) {
			return fmt.Errorf("attempt %d of job %s has %d seats for %d to %d members", a.Number, e.id, n, e.job.MinMembers, e.job.Members)
		}
		for k := range a.Seats {
			if a.Seats[k].Rank != k {
				return fmt.Errorf("attempt %d of job %s has no rank %d", a.Number, e.id, k)
			}
		}
	}
	return nil
}

type deviceKey struct{ node, device string }

type nodeUse struct{ seats, cpus, memory int }

// count is the accounts counted anew from the runs alone.
type count struct {
	taken   map[deviceKey]int
	nodes   map[string]nodeUse
	tenants map[string]ares.Use
	shapes  map[*shape]int
}

func (c *count) add(e *entry) {
	if e.shape != nil {
		c.shapes[e.shape]++
	}
	if e.run == nil {
		return
	}
	held := e.run.Phase.Active() && (e.job == nil || !e.isArray())
	for _, a := range e.run.Attempts {
		for _, h := range a.Seats {
			if h.State == ares.SeatReleased || h.State == ares.SeatCleared {
				continue
			}
			u := c.nodes[h.Node]
			c.nodes[h.Node] = nodeUse{u.seats + 1, u.cpus + h.CPUs, u.memory + h.Memory}
			for _, sh := range h.Shares {
				c.taken[deviceKey{h.Node, sh.Device}] += sh.Milli
			}
			if h.State == ares.SeatVoided {
				continue // the node's, not the tenant's
			}
			held = true
			if e.job != nil {
				c.tenants[e.job.Tenant] = c.tenants[e.job.Tenant].Add(seatUse(&h.Seat, e.job))
			}
		}
	}
	if held && e.job != nil {
		c.tenants[e.job.Tenant] = c.tenants[e.job.Tenant].Add(ares.Use{Jobs: 1})
	}
}

func (c *count) checkTenants(s *State) error {
	for id, t := range s.tenants { // order-free: any broken law will do
		if t.use != c.tenants[id] {
			return fmt.Errorf("tenant %s holds %+v, its account says %+v", id, c.tenants[id], t.use)
		}
	}
	if len(c.shapes) != len(s.shapes.byKey) || len(c.shapes)+len(s.shapes.free) != s.shapes.count {
		return fmt.Errorf("%d shapes live, %d are kept", len(c.shapes), len(s.shapes.byKey))
	}
	for sh, refs := range c.shapes { // order-free: any broken law will do
		if sh.refs != refs || s.shapes.byKey[sh.key] != sh {
			return fmt.Errorf("shape %s has %d jobs, its count says %d", sh.key, refs, sh.refs)
		}
		if err := s.checkFilter(sh); err != nil {
			return err
		}
	}
	return nil
}

// checkFilter wants the filter's set to be what looking at every node finds.
func (s *State) checkFilter(sh *shape) error {
	if s.shapes.sieve[sh.filter.key] != sh.filter || len(s.shapes.sieve) > len(s.shapes.byKey) {
		return fmt.Errorf("filter %s is not the one kept", sh.filter.key)
	}
	if sh.filter.fleet != s.fleet {
		return nil // will be found anew
	}
	for i, n := range s.nodes {
		if in := sh.filter.nodes[i/64]&(1<<(i%64)) != 0; in != n.likes(sh) {
			return fmt.Errorf("filter %s has node %s: %t", sh.filter.key, n.id, in)
		}
	}
	return nil
}

func (c *count) checkNodes(s *State) error {
	if len(s.nodes) != len(s.byID) || !slices.IsSortedFunc(s.nodes, func(a, b *node) int { return byNodeID(a, b.id) }) {
		return fmt.Errorf("the nodes are out of order")
	}
	accounts := 0
	for i, n := range s.nodes {
		if u := (nodeUse{n.seats, n.cpus, n.memory}); u != c.nodes[n.id] {
			return fmt.Errorf("node %s holds %+v, its account says %+v", n.id, c.nodes[n.id], u)
		}
		if n.forgotten() {
			return fmt.Errorf("node %s is kept though nothing speaks of it", n.id)
		}
		whole := 0
		for _, d := range n.devices {
			taken := c.taken[deviceKey{n.id, d.id}]
			if taken != d.taken {
				return fmt.Errorf("device %s of node %s has %d/1000 taken, its account says %d", d.id, n.id, taken, d.taken)
			}
			if taken > wholeMilli {
				return fmt.Errorf("device %s of node %s is sold twice: %d/1000", d.id, n.id, taken)
			}
			if taken > 0 {
				accounts++
			}
			if d.usable && taken == 0 {
				whole++
			}
		}
		if n.at != i || n.whole != whole || s.sky.tiers[s.sky.size+i] != n.left() {
			return fmt.Errorf("the index of node %s is stale", n.id)
		}
	}
	if accounts != len(c.taken) {
		return fmt.Errorf("%d devices are held, %d have an account", len(c.taken), accounts)
	}
	return c.checkSky(&s.sky)
}

func (c *count) checkSky(k *sky) error {
	for i := 1; i < k.size; i++ {
		if k.tiers[i] != k.tiers[2*i].most(k.tiers[2*i+1]) {
			return fmt.Errorf("tier %d of the index is stale", i)
		}
	}
	return nil
}
