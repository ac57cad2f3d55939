package predict

import (
	"math"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/forecast"
)

// A `result` holds the measures of a predictor's accuracy.
type result struct {
	runs     int
	covered  float64       // share of the runs that ended within the p90
	absolute time.Duration // median error of the p50
	relative float64       // the same, relative to the runtime
	// The width of an interval is p90/p50. Both widths are medians.
	factor float64
	width  time.Duration // p90 - p50
	shown  float64       // share of the runs whose interval is shown to users
	// The mean pinball losses of p50 and p90 together: of runtimes, and of their logarithms (base 2).
	loss    time.Duration
	lossLog float64
}

// `measure` computes the measures of some predictions.
func measure(of []outcome) (r result) {
	if len(of) == 0 {
		return r
	}
	var absolute, relative, factor, width []float64
	covered, shown, loss, lossLog := 0, 0, 0.0, 0.0
	for i := range of {
		o := &of[i]
		f := &o.predicted
		off := (f.P50 - o.took).Abs().Seconds()
		absolute = append(absolute, off)
		relative = append(relative, off/max(o.took.Seconds(), 1))
		factor = append(factor, seconds(f.P90)/seconds(f.P50))
		width = append(width, (f.P90 - f.P50).Seconds())
		if o.took <= f.P90 {
			covered++
		}
		if isShown(f) {
			shown++
		}
		loss += pinball(o.took.Seconds(), f.P50.Seconds(), 0.5) + pinball(o.took.Seconds(), f.P90.Seconds(), 0.9)
		lossLog += pinball(math.Log2(seconds(o.took)), math.Log2(seconds(f.P50)), 0.5) + pinball(math.Log2(seconds(o.took)), math.Log2(seconds(f.P90)), 0.9)
	}
	n := float64(len(of))
	return result{
		runs: len(of), covered: float64(covered) / n, absolute: time.Duration(median(absolute) * float64(time.Second)), relative: median(relative),
		factor: median(factor), width: time.Duration(median(width) * float64(time.Second)), shown: float64(shown) / n,
		loss: time.Duration(loss / n * float64(time.Second)), lossLog: lossLog / n,
	}
}

// isShown reports whether users see the interval of a forecast.
func isShown(f *forecast.Forecast) bool {
	p := f.Record("")
	p50, p90, _ := p.Shown()
	return p50 > 0 && p90 > 0
}

// `seconds` returns a duration that is at least 10 ms, so that its logarithm exists.
func seconds(d time.Duration) float64 { return max(d.Seconds(), 0.01) }

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// `pinball` returns the loss of a predicted quantile. The mean loss is smallest for the true quantile.
func pinball(took, quantile, part float64) float64 {
	if took > quantile {
		return part * (took - quantile)
	}
	return (1 - part) * (quantile - took)
}
