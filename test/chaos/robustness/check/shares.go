package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O4 checks that no device is allocated twice. At every recorded
// revision, the seats that are not released must not use more than 100 % of any
// device. They also must not use more cores or memory than their node has. A
// seat may use only devices that its node has reported. The file overlaps.go
// checks the conflicts that processes detect with locks.
//
// The check of allocations in this file does not use the engine's code. The
// file laws.go repeats the check with the engine's laws.
type shares struct {
	*book
	devices map[device]int // thousandths in use
	cpus    map[string]int // in use, by node
	memory  map[string]int
	touched map[device]bool // changed by the current revision; an entry without an ID is the node itself
	full    map[string]bool // already reported; cleared when it no longer holds
}

type device struct{ node, id string }

// The constant `whole` is the size of one whole device, in thousandths.
const whole = 1000

func (f *shares) step(c *change) {
	if c.now != nil && c.now.gone && c.was != nil && c.was.run != nil && !c.was.run.Free() && !c.gap && c.restore == nil {
		f.wrong(NotOversold, c.id, c.now.at, "it was archived at revision %d while it held seats", c.now.revision)
	}
	f.charge(c.was, -1)
	f.charge(c.now, +1)
	if c.now == nil || c.entry.Batch.Reset {
		return // a snapshot may hold a node record that has changed since
	}
	for _, a := range c.now.attempts() {
		if find(c.was.attempts(), a.Number) == nil {
			f.listed(c, &a)
		}
	}
}

// This method checks that each seat of a new attempt uses only devices that its
// node has reported.
func (f *shares) listed(c *change, a *ares.Attempt) {
	for i := range a.Seats {
		h := &a.Seats[i]
		m := f.nodes[h.Node]
		if m == nil {
			f.wrong(NotOversold, c.id, c.now.at, "attempt %d was placed on %s, which is no node", a.Number, h.Node)
			continue
		}
		for _, sh := range h.Shares {
			if !m.devices[sh.Device] {
				f.wrong(NotOversold, c.id, c.now.at, "attempt %d was placed on device %s, which %s does not have", a.Number, sh.Device, h.Node)
			}
			if sh.Milli <= 0 || sh.Milli > whole {
				f.wrong(NotOversold, c.id, c.now.at, "attempt %d was given %d/1000 of device %s of %s", a.Number, sh.Milli, sh.Device, h.Node)
			}
		}
	}
}

func (f *shares) charge(s *state, sign int) {
	for _, a := range s.attempts() {
		for i := range a.Seats {
			h := &a.Seats[i]
			if h.State.Free() {
				continue
			}
			f.cpus[h.Node] += sign * h.CPUs
			f.memory[h.Node] += sign * h.Memory
			f.touched[device{node: h.Node}] = true
			for _, sh := range h.Shares {
				d := device{h.Node, sh.Device}
				f.devices[d] += sign * sh.Milli
				f.touched[d] = true
			}
		}
	}
}

func (f *shares) settle(e *trace.Entry, _ int64) {
	for d := range f.touched {
		if d.id != "" {
			f.over(e, "device "+d.id+" of "+d.node, "thousandths", f.devices[d], whole)
			continue
		}
		if m := f.nodes[d.node]; m != nil && m.cpus > 0 {
			f.over(e, "node "+d.node, "cores", f.cpus[d.node], m.cpus)
		}
		if m := f.nodes[d.node]; m != nil && m.memory > 0 {
			f.over(e, "node "+d.node, "MB of memory", f.memory[d.node], m.memory)
		}
	}
	clear(f.touched)
}

// This method reports an overcommitted device or node once. It reports the same
// device or node again only if it is overcommitted again later.
func (f *shares) over(e *trace.Entry, what, unit string, held, limit int) {
	key := what + unit
	if held > limit && !f.full[key] {
		f.wrong(NotOversold, "", e.At, "%s has %d %s given away at revision %d, of %d", what, held, unit, e.Batch.Revision, limit)
	}
	f.full[key] = held > limit
}
