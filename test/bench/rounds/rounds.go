// Package rounds measures the programs of a comparison alternately and prints
// the results. On a shared machine, two measurements are comparable only if
// they alternate within one run. Each printed figure is a median with its
// range, together with the machine's load.
package rounds

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Count is the number of rounds. Each round measures every program of a comparison once.
var Count = Sized(5, 1)

// Lap holds the wall time and the processor times that a piece of work took.
type Lap struct {
	Thread  time.Duration // processor time of the thread that did it
	Process time.Duration // processor time of all threads, including garbage collection
	Wall    time.Duration
}

// Time is the method that runs the work and measures it. It adds the work's duration and
// processor times to the lap.
func (l *Lap) Time(work func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, process, wall := clock(unix.CLOCK_THREAD_CPUTIME_ID), CPU(), time.Now()
	work()
	l.Wall += time.Since(wall)
	l.Process += CPU() - process
	l.Thread += clock(unix.CLOCK_THREAD_CPUTIME_ID) - thread
}

// CPU returns the processor time that this process has used so far.
func CPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // every Linux has these clocks
	}
	return time.Duration(ts.Nano())
}

// Figures holds one figure for each round.
type Figures []float64

// Rate adds a throughput in operations per second. The throughput is n divided by the
// given time.
func (f *Figures) Rate(n int, took time.Duration) { *f = append(*f, float64(n)/took.Seconds()) }

// Each is the method that adds the average time of one operation, in nanoseconds. The
// average is the given time divided by n.
func (f *Figures) Each(n int, took time.Duration) {
	*f = append(*f, float64(took.Nanoseconds())/float64(n))
}

// Over is the method that divides the figures in f by the figures in `other`, round by
// round. The division is valid because both programs of a round ran while the machine
// had the same load.
func (f Figures) Over(other Figures) Figures {
	out := make(Figures, len(f))
	for i := range f {
		out[i] = f[i] / other[i]
	}
	return out
}

func (f Figures) Median() float64 { return slices.Sorted(slices.Values(f))[len(f)/2] }

// Text formats the median and the range, each divided by a unit. A single figure has no range.
func (f Figures) Text(unit float64, decimals int) string {
	if len(f) == 1 {
		return number(f[0]/unit, decimals)
	}
	return fmt.Sprintf("%s (%s–%s)", number(f.Median()/unit, decimals), number(slices.Min(f)/unit, decimals), number(slices.Max(f)/unit, decimals))
}

// Interval formats the median and an interval that contains the true median with a probability of at least 95 %, each divided by a unit.
// The bounds are two of the figures, so nothing is assumed about their distribution. Fewer than six figures have no such interval; they get
// their range.
func (f Figures) Interval(unit float64, decimals int) string {
	if len(f) == 1 {
		return f.Text(unit, decimals)
	}
	sorted, low := slices.Sorted(slices.Values(f)), outside(len(f))
	return fmt.Sprintf("%s (%s–%s)", number(f.Median()/unit, decimals), number(sorted[low]/unit, decimals), number(sorted[len(f)-1-low]/unit, decimals))
}

// The function `outside` returns how many of n figures may be left out at each end: the probability that more than n minus this many figures
// lie on one side of the median is below 2.5 %.
func outside(n int) int {
	ways, sum, all := 1.0, 1.0, math.Pow(2, float64(n)) // of choosing k of n figures; for all up to k; of choosing any
	low := -1
	for k := 0; sum/all < 0.025; k++ {
		low = k
		ways *= float64(n-k) / float64(k+1)
		sum += ways
	}
	return max(low, 0)
}

// String formats the median and the range as whole numbers.
func (f Figures) String() string { return f.Text(1, 0) }

// This function formats v with separators between thousands.
func number(v float64, decimals int) string {
	text := fmt.Sprintf("%.*f", decimals, v)
	whole, rest, _ := strings.Cut(text, ".")
	for at := len(whole) - 3; at > 0; at -= 3 {
		whole = whole[:at] + "," + whole[at:]
	}
	if rest != "" {
		return whole + "." + rest
	}
	return whole
}
