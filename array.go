package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// An array is one job with many elements. An element is created when it is placed and is then a job like any other,
// with its own run, lease and retries. The array's own run has no attempts: it records how many elements were created
// and how the array ended.

// These constants limit the size of arrays. An array's elements stay live until the array ends, and
// each has a copy of the spec. Ten thousand elements with specs of the largest size take 80 MiB in
// the store.
const (
	MaxArrayCount     = 10_000
	MaxArraySpecBytes = 8 << 10 // bound on the stored spec of an array
	// maxElementsAtOnce is the maximum number of elements that one ArrayStep creates. Each element needs three
	// writes, and a store transaction can have at most 128 writes.
	maxElementsAtOnce = 39
	maxSeatsAtOnce    = 2048
)

// ElementID derives the ID of an array's element from the array and the index, so any program can compute it. The
// hashed text begins with a letter, whereas the text that NewJobID hashes begins with a zero byte. Therefore no
// submitted job can get the same ID as an element.
func ElementID(array JobID, index int) JobID {
	buf := append([]byte("element "), array...)
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(buf, uint64(index)))
	return JobID("job-" + idAlphabet.EncodeToString(sum[:15]))
}

// CutElement splits a reference to an element of an array, such as "sweep[3]", into the reference to the array and the
// index of the element.
func CutElement(reference string) (array string, index int, ok bool) {
	open := strings.LastIndexByte(reference, '[')
	if open <= 0 || !strings.HasSuffix(reference, "]") {
		return "", 0, false
	}
	digits := reference[open+1 : len(reference)-1]
	if len(digits) == 0 || len(digits) > 6 || strings.Trim(digits, "0123456789") != "" {
		return "", 0, false
	}
	index, err := strconv.Atoi(digits)
	return reference[:open], index, err == nil
}

// IsArray reports whether the job is an array. The scheduler places the elements of an array, but
// never the array itself.
func (s *Spec) IsArray() bool { return s.Array.Count > 0 }

// ElementsAtOnce returns the maximum number of the array's elements that one plan may create.
func (s *Spec) ElementsAtOnce() int {
	return max(min(maxElementsAtOnce, maxSeatsAtOnce/max(s.Members, 1)), 1)
}

// Element returns the job of one element. An element has no dependencies of its own, because the array
// has already waited for them.
func (j *Job) Element(index int) *Job {
	e := *j
	e.ID, e.Revision = ElementID(j.ID, index), 0
	e.ArrayOf, e.ArrayIndex, e.ArrayCount = j.ID, int32(index), int32(j.Array.Count)
	e.Array, e.After, e.Start, e.Notify, e.RequestID, e.RetryOf = Array{}, nil, nil, nil, "", ""
	e.Name = fmt.Sprintf("%s[%d]", j.Name, index)
	return &e
}

// ArrayStep advances an array's own run. A step and the elements that it creates are committed together, or not at all.
type ArrayStep struct {
	Job    JobID
	Next   int    // elements created with this step
	Phase  Phase  // the phase the array ends in, "" while it continues
	Reason string // reason for that phase
}

// Elements counts an array's elements by phase.
type Elements struct {
	Total     int // elements that the array asks for
	Made      int
	Running   int // scheduled or running
	Waiting   int // created, waiting for another attempt
	Succeeded int
	Failed    int
	Cancelled int
	Lost      int
}

// Add adds n elements to the count of a phase; n is -1 to remove one.
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

// Ended counts the elements in a final phase.
func (e *Elements) Ended() int { return e.Succeeded + e.Failed + e.Cancelled + e.Lost }

// UnderWay counts the elements that were created and have not ended. The array's parallelism limits
// how many elements are under way at the same time.
func (e *Elements) UnderWay() int { return e.Running + e.Waiting }

// Outcome returns the final phase of an array after all its elements have ended. While some elements are live or not
// yet created, Outcome returns "". The argument r is the array's own run.
func (e *Elements) Outcome(r *Run) (p Phase, reason string) {
	stopped := r.Stop != nil
	switch {
	case e.Made != r.Next || e.Ended() != e.Made, !stopped && e.Made < e.Total:
		return "", ""
	case stopped && r.Stop.Why.EndsOnlyWaiting():
		return Cancelled, fmt.Sprintf("%s (%s)", r.Stop.By, e)
	case stopped:
		return Cancelled, fmt.Sprintf("cancelled by %s (%s)", r.Stop.By, e)
	case e.Succeeded == e.Total:
		return Succeeded, fmt.Sprintf("all %d elements succeeded", e.Total)
	default:
		return Failed, fmt.Sprintf("%d of %d elements did not succeed (%s)", e.Total-e.Succeeded, e.Total, e)
	}
}

// String lists the counts as text.
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
