package predict

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/forecast"
)

// A `predictor` estimates how long a run takes.
type predictor interface {
	predict(p *past) (p50, p90 time.Duration)
	late(p *past) // the run has exceeded its predicted p90
	learn(p *past, told time.Duration)
}

// This type uses Ares's forecaster as a predictor.
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

// lastTwo predicts the mean of the submitter's last two finished runs, as
// Tsafrir, Etsion and Feitelson proposed. If the submitter has no finished run
// yet, lastTwo predicts the user's limit. lastTwo never predicts more than the
// user's limit.
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

// byLimit predicts the user's own limit.
type byLimit struct{}

func (byLimit) predict(p *past) (p50, p90 time.Duration) { return p.limit, p.limit }
func (byLimit) late(*past)                               {}
func (byLimit) learn(*past, time.Duration)               {}

// A `result` holds the measures of a predictor's accuracy.
type result struct {
	runs     int
	covered  float64 // share of the runs that were not cut short and ended within the p90
	absolute time.Duration
	relative float64
}

// This function runs a history through a predictor. It evaluates only the
// predictions for runs that were submitted in the given part of the history.
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
			if over := e.run.at + e.run.took; e.at < over { // the run exceeded its p90 and continues
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

// An `ending` is the time at which a run ends.
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
