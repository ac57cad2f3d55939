package sim

import (
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine"
)

// Series is the state of the fleet over time. Seconds lists the times of the samples. Every other list has one
// value for each of these times. Values between two samples are not recorded. Percentages refer to the number
// of GPUs in the fleet.
type Series struct {
	Seconds   []float64 `json:"seconds"`
	Load      []float64 `json:"load_percent"` // requested by jobs that arrived and have not ended; above 100 when some must wait
	Allocated []float64 `json:"allocated_percent"`
	Stranded  []float64 `json:"stranded_percent"` // free, but not usable by a job drawn from the trace
	Waiting   []int     `json:"waiting_jobs"`
}

// Occupancy is the allocation of machines over time.
type Occupancy struct {
	Rows    []string  `json:"rows"` // each row is a machine or several neighbouring ones
	Seconds []float64 `json:"seconds"`
	Percent [][]int   `json:"allocated_percent"` // percentage of each row's GPUs, at each entry of Seconds
}

// These constants limit the number of samples, for runs of any length.
const (
	maxSamples = 512
	maxRows    = 64
	maxColumns = 128
)

// A `sample` is the state of the fleet at one moment. Amounts of devices are in thousandths.
type sample struct {
	at                   time.Duration
	load, held, stranded int
	waiting              int
	rows                 []uint8 // percent
}

// A `sampler` takes samples of a world at equal intervals. When the sampler has too many samples, it drops
// every second sample and doubles the interval.
type sampler struct {
	step, next time.Duration
	samples    []sample
	kinds      []jobKind
	rows       []string
	rowOf      []int // by node with devices, in the order of FreeCapacities
	size       []int // thousandths of devices of each row
}

// addSampler adds a sampler to a world that will run the trace.
func addSampler(w *World, t *Trace, until time.Duration) *sampler {
	length := until
	if n := len(t.Arrivals); length == 0 && n > 0 {
		length = t.Arrivals[n-1].At - t.Arrivals[0].At
	}
	s := &sampler{step: max(length/maxSamples, time.Millisecond), kinds: kinds(t)}
	s.assignRows(w)
	w.probes = append(w.probes, s.sampleIfDue)
	return s
}

// assignRows assigns every machine with devices to a row.
func (s *sampler) assignRows(w *World) {
	var names []string
	var milli []int
	for r := range w.state.FreeCapacities() {
		if len(r.Node.Devices) > 0 {
			names, milli = append(names, r.Node.ID), append(milli, 1000*len(r.Node.Devices))
		}
	}
	rows := min(len(names), maxRows)
	s.rows, s.size = make([]string, rows), make([]int, rows)
	for i, name := range names {
		row := i * rows / len(names)
		if s.size[row] == 0 {
			s.rows[row] = name
		} else if last := i+1 == len(names) || (i+1)*rows/len(names) != row; last {
			s.rows[row] += " … " + name
		}
		s.size[row] += milli[i]
		s.rowOf = append(s.rowOf, row)
	}
}

// sampleIfDue takes a sample when the interval has passed.
func (s *sampler) sampleIfDue(w *World) {
	now := w.now.Sub(Epoch)
	if now < s.next {
		return
	}
	s.take(w)
	if len(s.samples) >= maxSamples {
		kept := s.samples[:0]
		for i := 0; i < len(s.samples); i += 2 {
			kept = append(kept, s.samples[i])
		}
		s.samples = kept
		s.step *= 2
	}
	s.next = now - now%s.step + s.step
}

func (s *sampler) take(w *World) {
	p := sample{at: w.now.Sub(Epoch), load: w.demandMilli, held: w.allocated.milli, rows: make([]uint8, len(s.rows))}
	for _, share := range engine.Fairness(w.state, w.now).Shares {
		if share.Queue == "" {
			p.waiting += share.Waiting
		}
	}
	free := make([]int, len(s.rows))
	node := 0
	for r := range w.state.FreeCapacities() {
		if len(r.Node.Devices) == 0 {
			continue
		}
		milli := r.Milli()
		free[s.rowOf[node]] += milli
		p.stranded += fragmentation(s.kinds, r, milli)
		node++
	}
	for row, size := range s.size {
		p.rows[row] = uint8(100 * (size - free[row]) / max(size, 1))
	}
	s.samples = append(s.samples, p)
}

// This method takes the final sample at the end of the simulation.
func (s *sampler) last(w *World) {
	if n := len(s.samples); n == 0 || s.samples[n-1].at != w.now.Sub(Epoch) {
		s.take(w)
	}
}

// This method converts the samples to a Series, for a fleet with the given number of GPUs.
func (s *sampler) series(gpus int) Series {
	of := func(milli int) float64 { return rounded(float64(milli) / 10 / float64(max(gpus, 1))) }
	var out Series
	for i := range s.samples {
		p := &s.samples[i]
		out.Seconds = append(out.Seconds, rounded(p.at.Seconds()))
		out.Load = append(out.Load, of(p.load))
		out.Allocated = append(out.Allocated, of(p.held))
		out.Stranded = append(out.Stranded, of(p.stranded))
		out.Waiting = append(out.Waiting, p.waiting)
	}
	return out
}

// This method returns the allocation of each row at up to maxColumns times.
func (s *sampler) occupancy() Occupancy {
	out := Occupancy{Rows: slices.Clone(s.rows), Percent: make([][]int, len(s.rows))}
	stride := (len(s.samples) + maxColumns - 1) / maxColumns
	for i := 0; i < len(s.samples); i += stride {
		out.Seconds = append(out.Seconds, rounded(s.samples[i].at.Seconds()))
		for row, percent := range s.samples[i].rows {
			out.Percent[row] = append(out.Percent[row], int(percent))
		}
	}
	return out
}

// This function returns the time-weighted mean of a value. Each value applies until the
// time of the next value.
func mean(seconds, values []float64) float64 {
	area := 0.0
	for i := 1; i < len(values); i++ {
		area += values[i-1] * (seconds[i] - seconds[i-1])
	}
	if length := seconds[len(seconds)-1] - seconds[0]; length > 0 {
		return rounded(area / length)
	}
	return values[len(values)-1]
}
