package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O2 also checks the lines that the jobs' processes wrote. Two attempts
// overlap if the earlier attempt writes a line after the first line of the
// later attempt. It does not matter which ranks the two processes have. A
// process can also detect an overlap with a file lock. This is a violation even
// if the lines show no overlap. Each rank of an attempt must be started exactly
// once, on the node of its seat. It must have the fence that the store gave to
// that attempt.
//
// The documentation names two cases in which overlaps on a node are excused. In
// the first case, all processes of the node were stopped together. In the
// second case, the node's agent and a supervisor died at the same time. Faults
// that can cause excused overlaps are marked with the field Excuses. The fault
// must be on the node of the older process, and must last for the whole
// overlap. The report shows the number of excused overlaps. A fault that was
// never undone excuses overlaps only for the duration Margin.

// Margin is a period after the end of a fault. In this period, overlaps on the
// fault's node are still excused. During this time, the node's processes may
// still be active. The processes need this time to resume, to notice that every
// deadline has passed, and to be killed.
const Margin = 5 * time.Second

// A `process` is one rank of one attempt.
type process struct {
	attempt, rank int
	fence         int64
}

// The type `life` holds the lines that a process wrote. The process's node is
// the node in its first line.
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

// livesOf groups the lines by process, with the oldest attempt first.
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

// This method checks that no process of an attempt writes a line after a later
// attempt has written its first line.
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

// This method checks that each process matches its seat in the store.
func (j *judge) seated(b *book, id string, lives []*life) {
	for i, l := range lives {
		if l.starts > 1 {
			j.wrong(NoOverlap, id, l.first, "rank %d of attempt %d (fence %d) was started %d times", l.rank, l.attempt, l.fence, l.starts)
		}
		sameGrant := i == 0 || b.fences.given[id][lives[i-1].fence].epoch == b.fences.given[id][l.fence].epoch
		if i > 0 && sameGrant && l.attempt < lives[i-1].attempt && !j.restoredBetween(lives[i-1].fence, l.fence) {
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

// This method checks an overlap that a process detected with file locks.
func (j *judge) finding(id string, w trace.Witness, lives []*life) {
	where := fmt.Sprintf("attempt %d rank %d on %s (fence %d)", w.Attempt, w.Rank, w.Node, w.Fence)
	switch w.Verb {
	case trace.Overlap:
		j.overlap(Violation{NoOverlap, id, w.At, where + " found another attempt alive: " + w.Detail}, olderNode(w, lives), w.At)
	case trace.Twice:
		j.overlap(Violation{NoOverlap, id, w.At, where + " found another process of the same rank alive: " + w.Detail}, w.Node, w.At)
	case trace.Oversold:
		// The process that holds the device is on the same node, but may belong
		// to any job.
		j.overlap(Violation{NotOversold, id, w.At, where + " found a device taken: " + w.Detail}, w.Node, w.At)
	case trace.Started, trace.Beat, trace.Termed, trace.Ended:
	default:
		j.wrong(CleanRecord, id, w.At, "%s says %q, which is no verb", where, w.Verb)
	}
}

// olderNode returns the node of the older of two overlapping processes. The
// older process is usually the one that was detected. It can also be the one
// that detected the overlap. If the detected process wrote no line, its node is
// unknown, so the overlap is not excused.
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

// This method records a violation, unless a fault on the node excuses the whole
// overlap.
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
