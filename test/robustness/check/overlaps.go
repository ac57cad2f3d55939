package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// O2 by the processes' own words: whatever a process of an attempt writes after
// a process of a later attempt has written anything is an overlap, of any two
// ranks; what processes find by the kernel's locks is one too. A rank of an
// attempt is started once, on the node of its seat, under a fence that the
// store gave to that attempt.
//
// The stated limit excuses overlaps on a node that was stopped as a whole, or
// lost supervisor and agent at once: those are faults that say so of
// themselves. An excuse must cover the whole overlap, and be of the node of the
// older process. What is excused is counted, not dropped. A fault that was never
// taken back excuses for the margin only.

// Margin is how long after an excusing fault was taken back its node's
// processes may still be seen: the time to resume, to notice that every
// deadline has passed, and to kill.
const Margin = 5 * time.Second

// process is one rank of one attempt.
type process struct {
	attempt, rank int
	fence         int64
}

// life is what a process wrote. Its node is that of its first line.
type life struct {
	process
	node        string
	first, last time.Duration
	starts      int
	at          []time.Duration
}

func (p process) older(q process) bool {
	return cmp.Or(cmp.Compare(p.fence, q.fence), cmp.Compare(p.attempt, q.attempt)) < 0
}

func (j *judge) overlaps(b *book) {
	for id, lines := range j.run.Witnesses {
		lives := livesOf(lines)
		j.alone(id, lives)
		j.seated(b, id, lives)
		for _, w := range lines {
			j.finding(id, w, lives)
		}
	}
}

// livesOf gathers the lines by process, oldest attempt first.
func livesOf(lines []trace.Witness) []*life {
	byProcess := map[process]*life{}
	var out []*life
	for _, w := range lines {
		p := process{w.Attempt, w.Rank, w.Fence}
		l := byProcess[p]
		if l == nil {
			l = &life{process: p, node: w.Node, first: w.At, last: w.At}
			byProcess[p] = l
			out = append(out, l)
		}
		l.first, l.last = min(l.first, w.At), max(l.last, w.At)
		l.at = append(l.at, w.At)
		if w.Verb == trace.Started {
			l.starts++
		}
	}
	slices.SortStableFunc(out, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.fence, b.fence), cmp.Compare(a.attempt, b.attempt), cmp.Compare(a.rank, b.rank))
	})
	return out
}

// alone wants no sign of an attempt after the first of a later one.
func (j *judge) alone(id string, lives []*life) {
	for _, l := range lives {
		var next *life
		for _, m := range lives {
			if l.older(m.process) && (next == nil || m.first < next.first) {
				next = m
			}
		}
		if next == nil || l.last <= next.first {
			continue
		}
		signs := 0
		for _, at := range l.at {
			if at > next.first {
				signs++
			}
		}
		j.overlap(Violation{NoOverlap, id, next.first, fmt.Sprintf(
			"attempt %d rank %d on %s (fence %d) wrote %d lines, up to %s later, after attempt %d rank %d on %s (fence %d) had begun",
			l.attempt, l.rank, l.node, l.fence, signs, seconds(l.last-next.first), next.attempt, next.rank, next.node, next.fence)},
			l.node, l.last)
	}
}

// seated wants each process to be what the store gave.
func (j *judge) seated(b *book, id string, lives []*life) {
	for i, l := range lives {
		if l.starts > 1 {
			j.wrong(NoOverlap, id, l.first, "rank %d of attempt %d (fence %d) was started %d times", l.rank, l.attempt, l.fence, l.starts)
		}
		if i > 0 && l.attempt < lives[i-1].attempt && !j.restoredBetween(lives[i-1].fence, l.fence) {
			j.wrong(NoOverlap, id, l.first, "attempt %d has fence %d, attempt %d has %d: fences must grow with attempts", l.attempt, l.fence, lives[i-1].attempt, lives[i-1].fence)
		}
		if i > 0 && l.fence == lives[i-1].fence && l.attempt != lives[i-1].attempt {
			j.wrong(NoOverlap, id, l.first, "attempts %d and %d have the same fence %d", lives[i-1].attempt, l.attempt, l.fence)
		}
		g, known := b.fences.given[id][l.fence]
		switch {
		case !known && b.unseen(l.fence):
		case !known || g.attempt != l.attempt:
			j.wrong(NoOverlap, id, l.first, "a process ran as attempt %d with fence %d, which the store never gave to it", l.attempt, l.fence)
		case g.nodes[l.rank] != l.node:
			j.wrong(NoOverlap, id, l.first, "rank %d of attempt %d ran on %s; its seat is on %q", l.rank, l.attempt, l.node, g.nodes[l.rank])
		}
	}
}

func (j *judge) restoredBetween(from, to int64) bool {
	return slices.ContainsFunc(j.run.Meta.Restores, func(r trace.Restore) bool { return from <= r.Highest && r.Highest < to })
}

// finding judges what a process found by the kernel's locks.
func (j *judge) finding(id string, w trace.Witness, lives []*life) {
	where := fmt.Sprintf("attempt %d rank %d on %s (fence %d)", w.Attempt, w.Rank, w.Node, w.Fence)
	switch w.Verb {
	case trace.Overlap:
		j.overlap(Violation{NoOverlap, id, w.At, where + " found another attempt alive: " + w.Detail}, olderNode(w, lives), w.At)
	case trace.Twice:
		j.overlap(Violation{NoOverlap, id, w.At, where + " found another process of the same rank alive: " + w.Detail}, w.Node, w.At)
	case trace.Oversold:
		// Who has the device is on the same node, whatever job it is of.
		j.overlap(Violation{NotOversold, id, w.At, where + " found a device taken: " + w.Detail}, w.Node, w.At)
	case trace.Started, trace.Beat, trace.Termed, trace.Ended:
	default:
		j.wrong(CleanRecord, id, w.At, "%s says %q, which is no verb", where, w.Verb)
	}
}

// olderNode is the node of the older of two that overlap: of the one that was
// found, or of the finder when that is the older one. Without a trace of who
// was found nobody is excused.
func olderNode(w trace.Witness, lives []*life) string {
	var attempt, rank int
	words := strings.NewReplacer(":", " ", ",", " ").Replace(w.Detail)
	if n, _ := fmt.Sscanf(words, "attempt %d rank %d", &attempt, &rank); n != 2 {
		return ""
	}
	me := process{w.Attempt, w.Rank, w.Fence}
	node := ""
	for _, l := range lives { // the latest that began before
		switch {
		case l.attempt != attempt || l.rank != rank || l.first > w.At:
		case l.older(me):
			node = l.node
		case me.older(l.process):
			node = w.Node
		}
	}
	return node
}

// overlap is a violation, unless a fault of the node excuses all of it.
func (j *judge) overlap(v Violation, node string, until time.Duration) {
	for _, f := range j.run.Faults {
		if f.Excuses && f.Target == node && f.At <= v.At && until <= max(f.At, f.Until)+Margin {
			v.Text += fmt.Sprintf(" (excused by %s of %s at %s)", f.Kind, f.Target, seconds(f.At-j.run.Meta.Start))
			j.Excused = append(j.Excused, v)
			return
		}
	}
	j.Violations = append(j.Violations, v)
}
