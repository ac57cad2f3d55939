// Package rounds measures the sides of a comparison in turns and prints what
// came out. On a machine that others use too, only what alternated within one
// run can be compared: each figure is a median with its range, and the load is
// beside it.
package rounds

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// Count is how often each side is measured.
const Count = 5

// Lap is what some work took.
type Lap struct {
	Thread  time.Duration // processor time of the thread that did it
	Process time.Duration // of all threads: with the collector of garbage
	Wall    time.Duration
}

// Time runs the work and adds what it took.
func (l *Lap) Time(work func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	thread, process, wall := clock(unix.CLOCK_THREAD_CPUTIME_ID), CPU(), time.Now()
	work()
	l.Wall += time.Since(wall)
	l.Process += CPU() - process
	l.Thread += clock(unix.CLOCK_THREAD_CPUTIME_ID) - thread
}

// CPU is this process's processor time so far.
func CPU() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic(err) // every Linux has these clocks
	}
	return time.Duration(ts.Nano())
}

// Figures are one figure of each round.
type Figures []float64

// Rate adds how many operations a second n of them in the time are.
func (f *Figures) Rate(n int, took time.Duration) { *f = append(*f, float64(n)/took.Seconds()) }

// Each adds how many nanoseconds each of n operations in the time took.
func (f *Figures) Each(n int, took time.Duration) {
	*f = append(*f, float64(took.Nanoseconds())/float64(n))
}

// Over is this divided by other, round by round: both met the same load.
func (f Figures) Over(other Figures) Figures {
	out := make(Figures, len(f))
	for i := range f {
		out[i] = f[i] / other[i]
	}
	return out
}

// Median is the one in the middle.
func (f Figures) Median() float64 { return slices.Sorted(slices.Values(f))[len(f)/2] }

// Text is the median and the range, each divided by a unit.
func (f Figures) Text(unit float64, decimals int) string {
	return fmt.Sprintf("%s (%s–%s)", number(f.Median()/unit, decimals), number(slices.Min(f)/unit, decimals), number(slices.Max(f)/unit, decimals))
}

// String is the median and the range of whole numbers.
func (f Figures) String() string { return f.Text(1, 0) }

// number writes thousands apart.
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

// Table prints rows aligned, under a title with the load of the machine.
func Table(out io.Writer, title string, rows [][]string) error {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\n%s  (load %.4s)\n", title, load); err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, r := range rows {
		for _, cell := range r {
			_, _ = fmt.Fprint(w, cell, "\t")
		}
		_, _ = fmt.Fprintln(w)
	}
	return w.Flush()
}
