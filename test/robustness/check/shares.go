package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// O4: no device is given twice. At every recorded revision the seats that are
// not free hold at most the whole of each device, and no more cores and memory
// than their node has; a seat is only ever placed on devices that its node had
// told of. What processes find by locks is judged with the overlaps.
//
// This is arithmetic of its own; the engine's laws (laws.go) look again, with
// the scheduler's eyes.
type shares struct {
	*book
	devices map[device]int // thousandths held
	cpus    map[string]int // held, by node
	memory  map[string]int
	touched map[device]bool // by the revision under way; without an ID it is the node itself
	full    map[string]bool // told already, while it lasts
}

type device struct{ node, id string }

// whole is a device in thousandths.
const whole = 1000

func (f *shares) step(c *change) {
	if c.now != nil && c.now.gone && c.was != nil && c.was.run != nil && !c.was.run.Free() && !c.gap && c.restore == nil {
		f.wrong(NotOversold, c.id, c.now.at, "it was archived at revision %d while it held seats", c.now.revision)
	}
	f.charge(c.was, -1)
	f.charge(c.now, +1)
	if c.now == nil || c.entry.Batch.Reset {
		return // what a snapshot holds may be of a record that changed since
	}
	for _, a := range c.now.attempts() {
		if find(c.was.attempts(), a.Number) == nil {
			f.listed(c, &a)
		}
	}
}

// listed judges the seats of a new attempt one by one.
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

// over tells of what holds too much, once for as long as it lasts.
func (f *shares) over(e *trace.Entry, what, unit string, held, limit int) {
	key := what + unit
	if held > limit && !f.full[key] {
		f.wrong(NotOversold, "", e.At, "%s has %d %s given away at revision %d, of %d", what, held, unit, e.Batch.Revision, limit)
	}
	f.full[key] = held > limit
}
