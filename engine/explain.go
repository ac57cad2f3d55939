package engine

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Explain says everything that keeps a waiting job waiting, with counts. Each
// node is counted once, under the first thing that rules it out. A job that is
// not waiting, or that the next decision may place, has no blockers.
func Explain(s *State, id ares.JobID, now time.Time) ares.Refusal {
	r := ares.Refusal{Job: id}
	if e := s.jobs[id]; e != nil && e.job != nil && (e.phase().Waiting() || e.unmade()) {
		r.Blockers = s.blockers(e, e.shape, e.job.GPUModel, now)
	}
	return r
}

// blockers lists what keeps a job of this shape waiting; e is nil for a job
// the state does not know. model is the shape's as the job spells it.
func (s *State) blockers(e *entry, sh *shape, model string, now time.Time) []ares.Blocker {
	return append(s.waits(e, sh, now), s.crowding(sh, model)...)
}

// waits lists what keeps the job waiting however much room there is.
func (s *State) waits(e *entry, sh *shape, now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e != nil && e.run != nil {
		out = e.delays(now)
	}
	if e != nil && e.job != nil {
		if why := s.throttled(e); why != "" {
			out = append(out, ares.Blocker{Kind: kindArray, Detail: why})
		}
	}
	return append(out, s.admit(sh)...)
}

// delays says what in the job's own past keeps it waiting.
func (e *entry) delays(now time.Time) []ares.Blocker {
	var out []ares.Blocker
	if e.queue == inDelayed && now.Before(e.due) {
		out = append(out, ares.Blocker{Kind: kindDelay, Detail: fmt.Sprintf(
			"%s until %s (in %s)", e.run.Phase, e.due.UTC().Format(time.RFC3339), e.due.Sub(now).Round(time.Millisecond))})
	}
	live, first := 0, ""
	for i := range e.run.Attempts {
		a := &e.run.Attempts[i]
		for k := range a.Seats {
			if h := &a.Seats[k]; !h.State.Settled() {
				if live++; live == 1 {
					first = fmt.Sprintf("rank %d of attempt %d on node %s is %s and may still hold a live process", h.Rank, a.Number, h.Node, h.State)
				}
			}
		}
	}
	if live > 1 {
		first += fmt.Sprintf(", and %d more seats", live-1)
	}
	if live > 0 {
		out = append(out, ares.Blocker{Kind: kindDelay, Detail: first})
	}
	return out
}

// hurdle is the first thing that rules a node out, in the order they are told.
type hurdle int

const (
	noSession hurdle = iota
	isCordoned
	isUnfit
	otherLabels
	otherRegion
	otherKind
	otherModel
	smallDevices
	unhealthy
	tooSmall
	busyDevices
	busyCPUs
	busyMemory
	fullSeats
	scattered
	allClear
	hurdles
)

// crowding counts the nodes by what rules them out, and says how many members
// fit. It is nil when all do. model is the shape's as the job spells it.
func (s *State) crowding(sh *shape, model string) []ares.Blocker {
	var counts [hurdles]int
	of, fitted, best := 0, 0, 0
	for _, n := range s.nodes {
		if n.record == nil {
			continue
		}
		of++
		h, free := n.hurdle(sh)
		counts[h]++
		best = max(best, free)
		if h == allClear {
			fitted += min(n.room(sh), sh.least-fitted)
		}
	}
	if fitted >= sh.least {
		return nil
	}
	if of == 0 {
		return []ares.Blocker{{Kind: kindNodes, Detail: "there are no nodes yet"}}
	}
	var out []ares.Blocker
	for h, count := range counts {
		if count > 0 && hurdle(h) != allClear {
			kind := kindNodes
			if hurdle(h) >= busyDevices {
				kind = kindCapacity
			}
			out = append(out, ares.Blocker{Kind: kind, Count: count, Of: of, Detail: hurdle(h).words(sh, model, best)})
		}
	}
	if fitted > 0 {
		out = append(out, fewFit(sh, fitted))
	}
	return out
}

// hurdle is the first thing that rules the node out. free is the number of
// devices of the right kind nobody holds, where too few of them is the hurdle.
func (n *node) hurdle(sh *shape) (h hurdle, free int) {
	switch {
	case n.session == nil:
		return noSession, 0
	case n.cordon != nil:
		return isCordoned, 0
	case n.record.Unfit != "":
		return isUnfit, 0
	case !n.labelled(sh):
		return otherLabels, 0
	case !n.within(sh):
		return otherRegion, 0
	}
	if sh.gpus > 0 || sh.milli > 0 {
		if h, free := n.deviceHurdle(sh); h != allClear {
			return h, free
		}
	}
	switch room := n.room(sh); {
	case n.record.CPUs < sh.cpus || n.record.MemoryMB < sh.memory:
		return tooSmall, 0
	case n.seats >= MaxSeats:
		return fullSeats, 0
	case room == 0 && n.record.CPUs-n.cpus < sh.cpus:
		return busyCPUs, 0
	case room == 0:
		return busyMemory, 0
	case sh.oneNode && room < sh.least:
		return scattered, 0
	}
	return allClear, 0
}

// deviceHurdle follows the devices through what is asked of them, and stops
// where too few are left.
func (n *node) deviceHurdle(sh *shape) (h hurdle, free int) {
	var kind, model, memory, healthy int
	for i := range n.devices {
		d := &n.devices[i]
		if d.link < 0 || d.kind != sh.kind {
			continue
		}
		kind++
		if !strings.Contains(d.model, sh.model) {
			continue
		}
		model++
		if d.memory < sh.deviceMemory {
			continue
		}
		memory++
		if !d.usable {
			continue
		}
		healthy++
		if sh.gpus > 0 && d.taken == 0 || sh.milli > 0 && d.taken+sh.milli <= wholeMilli {
			free++
		}
	}
	need := max(sh.gpus, 1)
	for _, step := range []struct {
		left int
		h    hurdle
	}{{kind, otherKind}, {model, otherModel}, {memory, smallDevices}, {healthy, unhealthy}, {free, busyDevices}} {
		if step.left < need {
			if step.h == otherKind && kind > 0 {
				return tooSmall, 0
			}
			return step.h, free
		}
	}
	return allClear, free
}

// words says what a hurdle means for this shape. model is the shape's as the
// job spells it, best is the most free devices any node short of them has.
func (h hurdle) words(sh *shape, model string, best int) string {
	switch h {
	case noSession:
		return "no session: the node's agent is not connected"
	case isCordoned:
		return "cordoned"
	case isUnfit:
		return "it could not start jobs lately"
	case fullSeats:
		return fmt.Sprintf("%d seats are taken, which is the most", MaxSeats)
	case otherLabels:
		parts := make([]string, len(sh.selector))
		for i, l := range sh.selector {
			parts[i] = l.key + "=" + l.value
		}
		return "labels do not match node_selector " + strings.Join(parts, ", ")
	case otherRegion:
		return "region is not one of " + strings.Join(sh.regions, ", ")
	case otherKind:
		return "no device of type " + sh.kind
	case otherModel:
		return sh.tooFew() + " of model " + model
	case smallDevices:
		return fmt.Sprintf("%s with %d MB of memory", sh.tooFew(), sh.deviceMemory)
	case unhealthy:
		return "too many devices are unhealthy or cut into slices"
	case tooSmall:
		return "too small even when empty (" + sh.each() + " for one member)"
	case busyDevices:
		if sh.milli > 0 {
			return fmt.Sprintf("no device has %d/1000 free", sh.milli)
		}
		return fmt.Sprintf("too few free devices: %d needed, at most %d free", sh.gpus, best)
	case busyCPUs:
		return fmt.Sprintf("too few free CPU cores: %d needed", sh.cpus)
	case busyMemory:
		return fmt.Sprintf("too little free memory: %d MB needed", sh.memory)
	case scattered:
		return fmt.Sprintf("no room for all %d members on the one node", sh.least)
	default:
		return "room"
	}
}
