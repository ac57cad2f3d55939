package cache

import (
	"sort"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestEventsResume reads a stream in several parts. Each part starts where the previous part ended.
// No event may be missing or repeated.
func TestEventsResume(t *testing.T) {
	t.Parallel()
	v := fixedView()
	v.Apply(ares.Batch{Revision: 10, Reset: true, Events: []ares.Event{JobEvent(jobOf(1, 4))}})
	if _, _, _, err := v.EventsSince(9); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("before the snapshot: %v", err)
	}
	hs, upTo, more, err := v.EventsSince(10)
	if len(hs) != 0 || upTo != 10 || err != nil {
		t.Fatalf("got %v up to %d, %v", hs, upTo, err)
	}
	j := jobOf(2, 11)
	v.Apply(ares.Batch{Revision: 11, Events: []ares.Event{JobEvent(j), JobEvent(jobOf(3, 11))}})
	select {
	case <-more:
	default:
		t.Error("the stream was not woken")
	}
	r := ares.NewRun(Noon)
	if err := r.Place([]ares.Seat{{Node: "n0"}}, 0, Noon); err != nil {
		t.Fatal(err)
	}
	v.Apply(ares.Batch{Revision: 12, Events: []ares.Event{runEvent(12, j.ID, r)}})
	v.Apply(ares.Batch{Revision: 13, Events: []ares.Event{{Revision: 13, Session: &ares.Session{Node: "n0"}}}})
	v.Apply(ares.Batch{Revision: 14, Events: []ares.Event{goneEvent(14, ares.KindSession, "n0")}})

	var got []StreamEvent
	for at := int64(10); at < 14; {
		hs, _, _, err := v.EventsSince(at)
		if err != nil || len(hs) == 0 {
			t.Fatalf("after %d: %v, %v", at, hs, err)
		}
		at = hs[0].Revision
		for _, h := range hs {
			if h.Revision == at {
				got = append(got, h)
			}
		}
	}
	want := []struct {
		rev   int64
		phase ares.Phase
		state ares.NodeState
	}{{11, ares.Pending, ""}, {11, ares.Pending, ""}, {12, ares.Scheduled, ""}, {13, "", ares.Online}, {14, "", ares.Suspect}}
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i, w := range want {
		if got[i].Revision != w.rev || got[i].Phase != w.phase || got[i].State != w.state {
			t.Errorf("event %d is %+v, want %+v", i, got[i], w)
		}
	}
	if got[2].Node != "n0" || got[2].Attempt != 1 || got[2].Job != j.ID || got[2].Tenant != "t0" {
		t.Errorf("the event of the placement is %+v", got[2])
	}
}

// TestEventsAreForgottenFromTheOldest adds more events than the ring can hold. The ring must return
// every event that it still has, and an error for revisions that it no longer has.
func TestEventsAreForgottenFromTheOldest(t *testing.T) {
	t.Parallel()
	v := fixedView()
	v.Apply(ares.Batch{Revision: 1, Reset: true})
	const each, revisions = 3, ringSize/2 + 500
	n := 0
	for rev := int64(2); rev < 2+revisions; rev++ {
		b := ares.Batch{Revision: rev}
		for range each {
			n++
			b.Events = append(b.Events, JobEvent(jobOf(n, rev)))
		}
		v.Apply(b)
	}
	last := int64(1 + revisions)
	if _, _, _, err := v.EventsSince(1); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("the first are long gone: %v", err)
	}
	for rev := last - 100; rev <= last; rev++ {
		if hs, upTo, _, err := v.EventsSince(rev); err != nil || len(hs) != int(last-rev)*each || upTo != last {
			t.Fatalf("after %d: %d events up to %d, %v", rev, len(hs), upTo, err)
		}
	}
	oldest := int64(sort.Search(int(last), func(rev int) bool { // the last revision that it rejects
		_, _, _, err := v.EventsSince(int64(rev))
		return err == nil
	})) - 1
	// The retained events are returned in parts, and no part ends in the middle of a revision.
	kept := 0
	for at := oldest + 1; at < last; {
		hs, upTo, more, err := v.EventsSince(at)
		if err != nil || len(hs) != int(upTo-at)*each || hs[0].Revision != at+1 || len(hs) >= atOnce+each {
			t.Fatalf("after %d: %d events up to %d from %+v, %v", at, len(hs), upTo, hs[0], err)
		}
		select {
		case <-more:
		default:
			if upTo != last {
				t.Fatalf("there are events after %d, but the reader is not woken", upTo)
			}
		}
		at, kept = upTo, kept+len(hs)
	}
	if kept < ringSize-2*each {
		t.Errorf("only %d of %d events are kept", kept, ringSize)
	}
}

// TestEventsOfALongLife reads the events of a run with so many transitions that the oldest ones are
// dropped.
func TestEventsOfALongLife(t *testing.T) {
	t.Parallel()
	v := fixedView()
	j := jobOf(1, 2)
	v.Apply(ares.Batch{Revision: 2, Reset: true, Events: []ares.Event{JobEvent(j)}})
	r := ares.NewRun(Noon)
	want := 0
	for rev := int64(3); rev < 103; rev++ {
		r.Transitions = append(r.Transitions, ares.Transition{At: Noon, Phase: ares.Pending, Attempt: int(rev)})
		if over := len(r.Transitions) - ares.MaxTransitionsKept; over > 0 {
			r.Transitions = append(r.Transitions[:1:1], r.Transitions[1+over:]...)
			r.Dropped += over
		}
		v.Apply(ares.Batch{Revision: rev, Events: []ares.Event{runEvent(rev, j.ID, r)}})
		want++
	}
	hs, _, _, err := v.EventsSince(2)
	if err != nil || len(hs) != want {
		t.Fatalf("%d events, want %d, %v", len(hs), want, err)
	}
	for i, h := range hs {
		if h.Attempt != i+3 || h.Revision != int64(i+3) {
			t.Errorf("event %d is %+v", i, h)
		}
	}
}
