package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// An array is one job whose elements come into being when they are placed.
// Each element is then a job like any other, with a run, a lease and retries
// of its own. The array's own run has no attempts: it says how many elements
// were made, and how the whole ended.

// Limits on arrays. Elements stay live until their array ends, each with a copy
// of the spec: ten thousand of the largest are 80 MiB in the store.
const (
	MaxArrayCount     = 10_000
	MaxArraySpecBytes = 8 << 10 // of the stored spec of an array
	// maxElementsAtOnce keeps one step of an array, three writes for each
	// element, under the 128 writes of one transaction.
	maxElementsAtOnce = 39
	maxSeatsAtOnce    = 2048
)

// ElementID derives the ID of an array's element, so that anybody can name it.
// What is hashed begins with a letter, that of NewJobID with a zero byte: no
// request makes the same ID.
func ElementID(array JobID, index int) JobID {
	buf := append([]byte("element "), array...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(buf, uint64(index)))
	return JobID("job-" + idAlphabet.EncodeToString(sum[:15]))
}

// IsArray says whether the job is an array rather than something to run.
func (s *Spec) IsArray() bool { return s.Array.Count > 0 }

// ElementsAtOnce is how many elements of the array one plan may make.
func (s *Spec) ElementsAtOnce() int {
	return max(min(maxElementsAtOnce, maxSeatsAtOnce/max(s.Members, 1)), 1)
}

// Element is the job of one element, as it is made. What the array waited for
// is over by then.
func (j *Job) Element(index int) *Job {
	e := *j
	e.ID, e.Revision = ElementID(j.ID, index), 0
	e.ArrayOf, e.ArrayIndex, e.ArrayCount = j.ID, index, j.Array.Count
	e.Array, e.After, e.RequestID, e.RetryOf = Array{}, nil, "", ""
	e.Name = fmt.Sprintf("%s[%d]", j.Name, index)
	return &e
}

// ArrayStep brings an array's own run forward. With elements to make it is
// committed together with them, or not at all.
type ArrayStep struct {
	Job    JobID
	Next   int    // elements made with this step
	Phase  Phase  // the phase the array ends in, "" when it goes on
	Reason string // of that phase
}

// Advance takes a step of the array. The first element makes it running.
func (r *Run) Advance(s *ArrayStep, now time.Time) error {
	switch {
	case r.Phase.Final():
		return Errorf(Conflict, "the array is already %s", r.Phase)
	case s.Next < r.Next:
		return Errorf(Conflict, "the array has %d elements, not %d", r.Next, s.Next)
	case s.Next > r.Next && r.Stop != nil:
		return Errorf(Conflict, "the array is being stopped (%s)", r.Stop.Why)
	}
	r.Next = s.Next
	if r.Phase == Pending && r.Next > 0 {
		if err := r.move(Running, now, "its first elements are placed"); err != nil {
			return err
		}
	}
	if s.Phase == "" {
		return nil
	}
	r.Stop = nil
	return r.move(s.Phase, now, s.Reason)
}

// Elements counts what became of an array's elements.
type Elements struct {
	Total     int // that the array asks for
	Made      int
	Running   int // scheduled or running
	Waiting   int // made, and waiting for another attempt
	Succeeded int
	Failed    int
	Cancelled int
	Lost      int
}

// Add counts an element in its phase, or with -1 takes it out again.
func (e *Elements) Add(p Phase, n int) {
	e.Made += n
	switch {
	case p.Active():
		e.Running += n
	case p.Waiting():
		e.Waiting += n
	case p == Succeeded:
		e.Succeeded += n
	case p == Failed:
		e.Failed += n
	case p == Cancelled:
		e.Cancelled += n
	default:
		e.Lost += n
	}
}

// Ended counts the elements that never change again.
func (e *Elements) Ended() int { return e.Succeeded + e.Failed + e.Cancelled + e.Lost }

// UnderWay counts the elements that were made and have not ended: what an
// array's parallelism is about.
func (e *Elements) UnderWay() int { return e.Running + e.Waiting }

// Outcome is the phase an array ends in once every element it will ever have
// has ended, "" before. r is the array's own run.
func (e *Elements) Outcome(r *Run) (p Phase, reason string) {
	stopped := r.Stop != nil
	switch {
	case e.Made != r.Next || e.Ended() != e.Made, !stopped && e.Made < e.Total:
		return "", ""
	case stopped && r.Stop.Why == StopQueue:
		return Cancelled, fmt.Sprintf("%s (%s)", r.Stop.By, e)
	case stopped:
		return Cancelled, fmt.Sprintf("cancelled by %s (%s)", r.Stop.By, e)
	case e.Succeeded == e.Total:
		return Succeeded, fmt.Sprintf("all %d elements succeeded", e.Total)
	default:
		return Failed, fmt.Sprintf("%d of %d elements did not succeed (%s)", e.Total-e.Succeeded, e.Total, e)
	}
}

// String says what became of the elements, in words.
func (e *Elements) String() string {
	out := ""
	for _, c := range []struct {
		n    int
		what string
	}{
		{e.Running, "running"},
		{e.Waiting, "waiting"},
		{e.Succeeded, "succeeded"},
		{e.Failed, "failed"},
		{e.Cancelled, "cancelled"},
		{e.Lost, "lost"},
		{e.Total - e.Made, "never started"},
	} {
		if c.n == 0 {
			continue
		}
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf("%d %s", c.n, c.what)
	}
	return out
}
