package job

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// waitingJobs returns jobs that were accepted one second after another.
func waitingJobs(n int) (out []*Entry) {
	shape := &Shape{Members: 1, Request: &cluster.Request{}}
	shape.Request.GPUs = 4
	for i := range n {
		id := ares.JobID(fmt.Sprintf("job-%08d", (i*7919)%n)) // the order of IDs is not that of acceptance
		out = append(out, &Entry{ID: id, Job: &ares.Job{ID: id, AcceptedAt: time.Unix(int64(i), 0)}, Shape: shape, Held: noHoldings})
	}
	return out
}

// TestWaitingListWork counts the items that the list of the longest waiting jobs sorts. The count must grow with the
// submissions, and not with the submissions times the length of the queue.
func TestWaitingListWork(t *testing.T) {
	const waiting, submissions = 20_000, 2000
	for _, c := range []struct {
		name string
		step func(l *waitingList, jobs []*Entry, i int)
	}{
		{"in order", func(l *waitingList, jobs []*Entry, i int) { l.add(jobs[waiting+i]) }},
		{"two at the same time", func(l *waitingList, jobs []*Entry, i int) { l.add(jobs[waiting+i^1]) }},
		{"predictions of the oldest jobs", func(l *waitingList, jobs []*Entry, i int) {
			l.add(jobs[waiting+i])
			l.remove(jobs[i]) // a prediction changes its position in the queue
			l.add(jobs[i])
		}},
		{"the oldest jobs leave", func(l *waitingList, jobs []*Entry, i int) {
			l.add(jobs[waiting+i])
			l.remove(jobs[i])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, jobs := &waitingList{}, waitingJobs(waiting+submissions)
			for _, e := range jobs[:waiting] {
				l.add(e)
			}
			l.sort()
			work := 0
			for i := range submissions {
				c.step(l, jobs, i)
				work += len(l.unsorted())
				l.sort()
			}
			if work > 4*submissions {
				t.Errorf("%d items were sorted for %d submissions", work, submissions)
			}
		})
	}
}

// TestWaitingListOrder checks the list against a plain one while jobs leave the queue, return to it and are retried.
func TestWaitingListOrder(t *testing.T) {
	table, jobs := &Table{}, waitingJobs(300)
	l := &table.waiting
	in := map[*Entry]bool{}
	for i := range 6000 {
		e := jobs[(i*i*31+i*17)%len(jobs)]
		switch {
		case !in[e]:
			if i%5 == 0 { // it ran and failed
				e.Run = &ares.Run{Attempts: []ares.Attempt{{EndedAt: time.Unix(int64(1000+i), 0)}}}
			}
			l.add(e)
		default:
			l.remove(e)
		}
		in[e] = !in[e]
		if i%7 == 0 {
			checkWaiting(t, table, in)
		}
	}
}

func checkWaiting(t *testing.T, table *Table, in map[*Entry]bool) {
	t.Helper()
	got := table.LongestWaiting(time.Unix(1<<32, 0), 1<<30)
	seen := map[*Entry]bool{}
	for i, e := range got {
		if !in[e] || seen[e] {
			t.Fatalf("%s is listed, but does not wait, or is listed twice", e.ID)
		}
		seen[e] = true
		if i > 0 && got[i-1].WaitingSince().After(e.WaitingSince()) {
			t.Fatalf("%s is listed before %s, which waits longer", got[i-1].ID, e.ID)
		}
	}
	waiting := 0
	for _, is := range in { // order-free: a count
		if is {
			waiting++
		}
	}
	if len(got) != waiting {
		t.Fatalf("%d jobs are listed, %d wait", len(got), waiting)
	}
}
