package predict

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/ares-scheduler/ares/forecast"
	"github.com/ares-scheduler/ares/test/bench/sim/predict/previous"
)

// A `predictor` estimates how long a run takes.
type predictor interface {
	predict(p *past) forecast.Forecast
	late(p *past, predicted forecast.Forecast) // the run has exceeded its predicted p90
	learn(p *past, predicted forecast.Forecast)
}

// This type uses Ares's forecaster as a predictor.
type ours struct {
	*forecast.Forecaster
	predicting, learning time.Duration
	calls, runs          int
}

func (o *ours) predict(p *past) forecast.Forecast {
	start := time.Now()
	f := o.Predict(p.ask)
	o.predicting += time.Since(start)
	o.calls++
	return f
}

func (o *ours) late(p *past, predicted forecast.Forecast) { o.Overdue(p.ask, predicted) }

func (o *ours) learn(p *past, predicted forecast.Forecast) {
	start := time.Now()
	o.Observe(runOf(p, predicted))
	o.learning += time.Since(start)
	o.runs++
}

func runOf(p *past, predicted forecast.Forecast) forecast.Run {
	return forecast.Run{Features: p.ask, Took: p.took, Outcome: p.outcome, Predicted: predicted, Overdue: p.took > predicted.P90+time.Millisecond}
}

// `before` uses the forecaster that Ares had before.
type before struct{ *previous.Forecaster }

func (o before) predict(p *past) forecast.Forecast {
	p50, p90 := o.Predict(p.ask)
	return forecast.Forecast{P50: p50, P90: p90, Samples: 1}
}

func (o before) late(p *past, _ forecast.Forecast) { o.Overdue(p.ask) }

func (o before) learn(p *past, predicted forecast.Forecast) { o.Observe(runOf(p, predicted)) }

// lastTwo predicts the mean of the submitter's last two finished runs, as
// Tsafrir, Etsion and Feitelson proposed. If the submitter has no finished run
// yet, lastTwo predicts the user's limit. lastTwo never predicts more than the
// user's limit.
type lastTwo struct {
	who  func(*forecast.Features) string
	runs map[string][]time.Duration
}

func (l *lastTwo) predict(p *past) forecast.Forecast {
	limit := p.ask.Limit
	if limit == 0 {
		limit = 24 * time.Hour
	}
	runs := l.runs[l.who(&p.ask)]
	switch len(runs) {
	case 0:
		return forecast.Forecast{P50: limit}
	case 1:
		return forecast.Forecast{P50: min(runs[0], limit)}
	default:
		return forecast.Forecast{P50: min((runs[0]+runs[1])/2, limit)}
	}
}

func (*lastTwo) late(*past, forecast.Forecast) {}

func (l *lastTwo) learn(p *past, _ forecast.Forecast) {
	if p.outcome == forecast.Cut {
		return
	}
	who := l.who(&p.ask)
	runs := append(l.runs[who], p.took)
	l.runs[who] = runs[max(0, len(runs)-2):]
}

// byLimit predicts the user's own limit.
type byLimit struct{}

func (byLimit) predict(p *past) forecast.Forecast {
	return forecast.Forecast{P50: p.limit, P90: p.limit}
}
func (byLimit) late(*past, forecast.Forecast)  {}
func (byLimit) learn(*past, forecast.Forecast) {}

// An `outcome` is a prediction and what came of it.
type outcome struct {
	took      time.Duration
	predicted forecast.Forecast
	earlier   int     // number of runs of the same job that had ended before the prediction
	part      float64 // of the history, at the submission
}

// This function runs a history through a predictor. It returns the predictions for runs that were submitted in
// the given part of the history and were not cut short.
func replay(h []past, by predictor, from, to float64) (out []outcome) {
	span := float64(h[len(h)-1].at - h[0].at)
	begin, end := h[0].at+time.Duration(from*span), h[0].at+time.Duration(to*span)
	var under ends
	ended := map[string]int{}
	for i := range h {
		p := &h[i]
		for len(under) > 0 && under[0].at <= p.at {
			e := heap.Pop(&under).(ending)
			if over := e.run.at + e.run.took; e.at < over { // the run exceeded its p90 and continues
				by.late(e.run, e.told)
				heap.Push(&under, ending{over, e.index, e.run, e.told})
				continue
			}
			by.learn(e.run, e.told)
			ended[e.run.job]++
		}
		f := by.predict(p)
		next := p.took
		if f.P90 > 0 {
			next = min(next, f.P90+time.Millisecond)
		}
		heap.Push(&under, ending{p.at + next, i, p, f})
		if p.at >= begin && p.at <= end && p.outcome != forecast.Cut {
			out = append(out, outcome{p.took, f, ended[p.job], float64(p.at-h[0].at) / span})
		}
	}
	return out
}

// An `ending` is the time at which a run ends.
type ending struct {
	at    time.Duration
	index int
	run   *past
	told  forecast.Forecast
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
