package sim

import (
	"bufio"
	"io"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Moment contains the requested and the allocated GPUs after an arrival, in thousandths of GPUs.
type Moment struct {
	Arrived int // requested so far, by all jobs
	Held    int // allocated so far
}

// Load submits jobs of the trace one at a time, in a given order. Load repeats the experiment of Weng and
// others (USENIX ATC 2023). A placed job never ends; a job that cannot be placed immediately is dropped. The
// parameter `rows` lists row numbers of the trace in the order of arrival. Row 0 is the row after the header.
// The same row number may occur several times. After every arrival, Load calls the given function.
func (w *World) Load(t *Trace, rows []int, see func(Moment)) error {
	byRow := make(map[int]*Arrival, len(t.Arrivals))
	for i := range t.Arrivals {
		byRow[t.Arrivals[i].Line-2] = &t.Arrivals[i]
	}
	w.jobs = make([]record, 0, len(rows))
	var m Moment
	for _, row := range rows {
		a := byRow[row]
		if a == nil {
			return ares.Errorf(ares.Invalid, "row %d of the trace contains no job", row)
		}
		w.now = w.now.Add(time.Second)
		w.arrive(a)
		w.flush()
		placed, err := w.offer()
		if err != nil {
			return err
		}
		r := &w.jobs[len(w.jobs)-1]
		m.Arrived += r.gpus
		if placed {
			m.Held += r.gpus
		}
		see(m)
	}
	w.flush()
	return nil
}

// This method places the only waiting job, or drops it if it does not fit. The engine
// receives the resulting events together with the next arrival.
func (w *World) offer() (placed bool, err error) {
	r := &w.jobs[len(w.jobs)-1]
	plan := engine.Decide(w.state, w.now)
	changes, err := engine.PlanChanges(w.state, &plan, w.now)
	if err != nil {
		return false, err
	}
	for i := range changes {
		if c := &changes[i]; c.Kind == engine.ChangePlace {
			w.put(c)
			r.placed = w.now
			w.allocated.to(w.now, r.gpus)
			return true, nil
		}
	}
	w.batch = append(w.batch, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(r.id)}})
	return false, nil
}

// ReadOrder reads row numbers of a trace, one per line. The jobs of these rows arrive in this order.
func ReadOrder(from io.Reader) ([]int, error) {
	var rows []int
	in := bufio.NewScanner(from)
	for in.Scan() {
		row, err := strconv.Atoi(in.Text())
		if err != nil || row < 0 {
			return nil, ares.Errorf(ares.Invalid, "line %d: %q is not a row number: use 0 or a positive integer", len(rows)+1, in.Text())
		}
		rows = append(rows, row)
	}
	return rows, in.Err()
}

// GPUs returns the number of GPUs of the fleet.
func (w *World) GPUs() int { return w.gpus }
