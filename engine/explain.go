package engine

import (
	"fmt"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// blockers lists what keeps a job of this shape waiting; e is nil for a job
// the state does not know. model is the want's as the job spells it. It is
// empty when the job could be placed by itself. The census is the one that was
// taken, nil when there was room.
func (s *State) blockers(e *entry, sh *shape, model string, now time.Time) ([]ares.Blocker, *census) {
	out := s.waits(e, sh, now)
	members, ban := s.allowed(sh, now)
	if members == 0 {
		members, ban = sh.least, 0 // what would be, were it admitted
	}
	t := s.begin()
	defer t.end()
	defer t.letGo()
	t.uphold(&ares.Plan{Now: now}, e, nil)
	m := mark(len(t.taken))
	if _, ok := t.place(sh, members, ban, e); ok {
		return out, nil
	}
	t.undo(m)
	c := s.look(sh, ban)
	c.keptFor(t.taken)
	out = append(out, s.crowding(c, model)...)
	return append(out, t.yielding(e, now)...), c
}

// yielding says what comes of a waiting job's right to have others give way, if
// it has one.
func (t *try) yielding(e *entry, now time.Time) []ares.Blocker {
	if e == nil || e.job == nil || e.queue != inPending {
		return nil
	}
	if e.run != nil && e.run.Nominated != nil {
		k := keeping{seats: e.run.Nominated.Seats}
		_, k.free = t.holdSeats(k.seats)
		return []ares.Blocker{k.waits()}
	}
	members, _ := t.state.allowed(e.shape, now)
	if found, ok := t.givingWay(&ares.Plan{Now: now}, e, members > 0); ok {
		t.say("%s", reckoned(t.nomination(e, &found, now)))
	}
	return t.words
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
	return append(out, s.admit(sh, now)...)
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

// noRoom is the short refusal of a job that found no place.
func noRoom(sh *shape) ares.Blocker {
	each := sh.want.each()
	detail := fmt.Sprintf("no room for %d members together (%s each)", sh.least, each)
	switch {
	case sh.members == 1:
		detail = fmt.Sprintf("no node has room (%s)", each)
	case sh.oneNode():
		detail = fmt.Sprintf("no node has room for all %d members (%s each)", sh.least, each)
	}
	return ares.Blocker{Kind: kindCapacity, Detail: detail}
}

// apart says why a gang whose members find room finds no place together.
func (s *State) apart(c *census) ares.Blocker {
	sh := c.shape
	if c.fitted < sh.least {
		return ares.Blocker{Kind: kindCapacity, Detail: fmt.Sprintf("%d of %d members fit (%s each)", c.fitted, sh.least, sh.want.each())}
	}
	level := sh.wish.required
	if level == "" {
		return ares.Blocker{Kind: kindCapacity, Detail: fmt.Sprintf(
			"%d members fit, but not in places that meet network_bandwidth and the limits on nodes and GPUs of one leaf", c.fitted)}
	}
	most, where := s.densest(c, level)
	detail := fmt.Sprintf("%d of %d members fit in one %s at most", most, sh.least, level)
	if where != "" {
		detail += fmt.Sprintf(" (%s)", where)
	}
	if most >= sh.least {
		detail = fmt.Sprintf("%s %s has room for %d members, but its network or the limits on one leaf do not allow it", level, where, most)
	}
	return ares.Blocker{Kind: kindCapacity, Detail: detail}
}

// densest is the domain of a level that has room for the most members.
func (s *State) densest(c *census, level ares.Level) (most int, where string) {
	reach, _ := s.reach(c.shape, c.want)
	for lo := 0; lo < len(s.nodes); {
		_, hi := s.places.Span(lo, level)
		room := 0
		for _, n := range s.nodes[lo:hi] {
			if n.open() && reach.has(n.at) {
				room += n.room(c.want)
			}
		}
		if room > most {
			most, where = room, s.places.Name(lo, level)
			if where == "" && hi == lo+1 {
				where = s.nodes[lo].id
			}
		}
		lo = hi
	}
	return most, where
}

// words says what a hurdle means for this shape. model is the want's as the
// job spells it.
func (c *census) words(h hurdle, model string) string {
	w := c.want
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
		return "labels do not match node_selector " + w.labelWords()
	case otherConditions:
		return "labels do not match node_affinity"
	case otherRegion:
		return "region is not one of " + strings.Join(w.regions, ", ")
	case tainted:
		return "a taint that the job does not tolerate"
	case badCompany:
		return "affinity or anti_affinity to other jobs"
	case otherKind:
		if w.mig != "" {
			return "no " + w.device()
		}
		return "no device of type " + w.kind
	case otherModel:
		return w.tooFew() + " of model " + model
	case smallDevices:
		return fmt.Sprintf("%s with %d MB of memory", w.tooFew(), w.deviceMemory)
	case overQuota:
		return "only models of which the quota leaves too little"
	case unhealthy:
		return "too many devices are unhealthy, too hot or cut into slices"
	case tooSmall:
		return "too small even when empty (" + w.each() + " for one member)"
	case busyDevices:
		if w.milli > 0 {
			return fmt.Sprintf("no device has %d/1000 free", w.milli)
		}
		return fmt.Sprintf("too few free devices: %d needed, at most %d free", w.gpus, c.best)
	case busyCPUs:
		return fmt.Sprintf("too few free CPU cores: %d needed", w.cpus)
	case busyMemory:
		return fmt.Sprintf("too little free memory: %d MB needed", w.memory)
	case noNUMA:
		return "no NUMA node has it all free (" + w.each() + ")"
	case isKept:
		return "what is free is kept for another job"
	default:
		return "room"
	}
}

// labelWords says what is asked of a node's labels, value by value.
func (w *want) labelWords() string {
	var parts []string
	for _, l := range w.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// tooFew says of a node that it has fewer devices than one member needs.
func (w *want) tooFew() string {
	if w.gpus <= 1 {
		return "no " + w.device()
	}
	return fmt.Sprintf("fewer than %d %ss", w.gpus, w.device())
}
