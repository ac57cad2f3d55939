package predict

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/forecast"
)

// predictor is somebody who says how long a run takes.
type predictor interface {
	predict(p *past) (p50, p90 time.Duration)
	late(p *past) // it has outlasted its p90
	learn(p *past, told time.Duration)
}

// ours is the forecaster.
type ours struct {
	*forecast.Forecaster
	predicting, learning time.Duration
	calls, runs          int
}

func (o *ours) predict(p *past) (p50, p90 time.Duration) {
	start := time.Now()
	f := o.Predict(p.ask)
	o.predicting += time.Since(start)
	o.calls++
	return f.P50, f.P90
}

func (o *ours) late(p *past) { o.Overdue(p.ask) }

func (o *ours) learn(p *past, told time.Duration) {
	start := time.Now()
	o.Observe(forecast.Run{Features: p.ask, Took: p.took, Outcome: p.outcome, PredictedP90: told, Overdue: p.took > told+time.Millisecond})
	o.learning += time.Since(start)
	o.runs++
}

// lastTwo is the mean of the last two runs of the same submitter that ended, as
// Tsafrir, Etsion and Feitelson proposed; the user's limit while there are none,
// and never above it.
type lastTwo struct {
	who  func(*forecast.Features) string
	runs map[string][]time.Duration
}

func (l *lastTwo) predict(p *past) (p50, p90 time.Duration) {
	limit := p.ask.Limit
	if limit == 0 {
		limit = 24 * time.Hour
	}
	runs := l.runs[l.who(&p.ask)]
	switch len(runs) {
	case 0:
		return limit, 0
	case 1:
		return min(runs[0], limit), 0
	default:
		return min((runs[0]+runs[1])/2, limit), 0
	}
}

func (*lastTwo) late(*past) {}

func (l *lastTwo) learn(p *past, _ time.Duration) {
	if p.outcome == forecast.Cut {
		return
	}
	who := l.who(&p.ask)
	runs := append(l.runs[who], p.took)
	l.runs[who] = runs[max(0, len(runs)-2):]
}

// byLimit believes the user.
type byLimit struct{}

func (byLimit) predict(p *past) (p50, p90 time.Duration) { return p.limit, p.limit }
func (byLimit) late(*past)                               {}
func (byLimit) learn(*past, time.Duration)               {}

// result is how well somebody did.
type result struct {
	runs     int
	covered  float64 // of the runs that were not cut short, by the p90
	absolute time.Duration
	relative float64
}

// replay lets a history happen, and judges what was said of runs submitted
// between two parts of its time.
func replay(h []past, by predictor, from, to float64) result {
	span := float64(h[len(h)-1].at - h[0].at)
	begin, end := h[0].at+time.Duration(from*span), h[0].at+time.Duration(to*span)
	var under ends
	var absolute, relative []float64
	covered := 0
	for i := range h {
		p := &h[i]
		for len(under) > 0 && under[0].at <= p.at {
			e := heap.Pop(&under).(ending)
			if over := e.run.at + e.run.took; e.at < over { // it outlasted its p90 and goes on
				by.late(e.run)
				heap.Push(&under, ending{over, e.index, e.run, e.told})
				continue
			}
			by.learn(e.run, e.told)
		}
		p50, p90 := by.predict(p)
		next := p.took
		if p90 > 0 {
			next = min(next, p90+time.Millisecond)
		}
		heap.Push(&under, ending{p.at + next, i, p, p90})
		if p.at < begin || p.at > end || p.outcome == forecast.Cut {
			continue
		}
		off := (p50 - p.took).Abs().Seconds()
		absolute = append(absolute, off)
		relative = append(relative, off/max(p.took.Seconds(), 1))
		if p.took <= p90 {
			covered++
		}
	}
	slices.Sort(absolute)
	slices.Sort(relative)
	n := len(absolute)
	return result{n, float64(covered) / float64(n), time.Duration(absolute[n/2] * float64(time.Second)), relative[n/2]}
}

// ending is when a run ends.
type ending struct {
	at    time.Duration
	index int
	run   *past
	told  time.Duration
}

type ends []ending

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].index, e[j].index)) < 0
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(ending)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
