package sim

import (
	"bufio"
	"io"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Moment is the state of a fleet after an arrival, in thousandths of GPUs.
type Moment struct {
	Arrived int // requested so far, by all jobs
	Held    int // allocated so far
}

// Load lets jobs of the trace arrive in a given order, one at a time: the
// experiment of Weng and others (USENIX ATC 2023). A placed job never ends; a
// job that cannot be placed at once is dropped. Rows count from 0 without the
// header and may repeat. Load calls see after every arrival.
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
			return ares.Errorf(ares.Invalid, "the trace has no job in row %d", row)
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

// offer decides on the one waiting job: it is placed or dropped. The engine
// learns of that with the next arrival.
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

// ReadOrder reads the row numbers of an arrival order, one per line.
func ReadOrder(from io.Reader) ([]int, error) {
	var rows []int
	in := bufio.NewScanner(from)
	for in.Scan() {
		row, err := strconv.Atoi(in.Text())
		if err != nil || row < 0 {
			return nil, ares.Errorf(ares.Invalid, "line %d: %q is not the number of a row", len(rows)+1, in.Text())
		}
		rows = append(rows, row)
	}
	return rows, in.Err()
}

// GPUs returns the number of GPUs of the fleet.
func (w *World) GPUs() int { return w.gpus }
