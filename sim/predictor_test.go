package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
)

// In TestForecastsReachTheEngine, some jobs with the same name run first. The engine must then
// get a prediction for the next such job. A run that exceeds its predicted p90 must count as a
// miss even before it ends.
func TestForecastsReachTheEngine(t *testing.T) {
	t.Parallel()
	f, err := ReadFleet(strings.NewReader("machines: [{name: m, count: 2, gpus: 8, cpus: 64, memory_mb: 100000}]"))
	if err != nil {
		t.Fatal(err)
	}
	trace := &Trace{}
	for i := range 60 {
		trace.Arrivals = append(trace.Arrivals, Arrival{
			At: time.Duration(i) * time.Minute, Runs: 30 * time.Second, Spec: ares.Spec{Name: fmt.Sprintf("short-%d", i), GPUs: 1},
		})
	}
	trace.Arrivals = append(trace.Arrivals,
		Arrival{At: time.Hour, Runs: 100 * time.Hour, Spec: ares.Spec{Name: "short-60", GPUs: 1}},
		Arrival{At: 3 * time.Hour, Runs: time.Second, Spec: ares.Spec{Name: "other", GPUs: 1}},
		Arrival{At: 4 * time.Hour, Runs: time.Second, Spec: ares.Spec{Name: "other", GPUs: 1}})
	w := NewWorld(f, Policy{Engine: config.Default(), Estimate: EstimateForecast})
	seen := 0
	w.probes = append(w.probes, func(w *World) {
		if p, ok := w.state.Forecast("job-0000060"); ok && w.now.Sub(Epoch) < 2*time.Hour {
			seen++
			if p.P50 > time.Minute || !strings.Contains(p.Basis, "runs of short") {
				t.Errorf("the sixty-first was predicted %+v", p)
			}
		}
	})
	if err := w.Run(trace, 5*time.Hour, nil); err != nil {
		t.Fatal(err)
	}
	if seen == 0 || !w.predictor.predictions["job-0000060"].overdue {
		t.Errorf("seen %d times, told %+v", seen, w.predictor.predictions)
	}
	if told, covered := w.predictor.forecaster.Accuracy(); told != 62 || covered > 61 || len(w.predictor.predictions) != 1 {
		t.Errorf("%d of %d were covered, %d are open", covered, told, len(w.predictor.predictions))
	}
}
