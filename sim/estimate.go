package sim

import (
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// These are the runtime estimates that a policy can use for an arriving job.
const (
	EstimateNone     = ""         // no estimate: the engine knows only the time limit of the job, if it has one
	EstimateOracle   = "oracle"   // the true runtime
	EstimateForecast = "forecast" // predicted from jobs that ended before
)

// Estimates returns the names of the estimates as users write them.
func Estimates() []string { return []string{"none", EstimateOracle, EstimateForecast} }

// This method gives the engine the policy's runtime estimate for an arriving job.
func (w *World) estimate(job *ares.Job, a *Arrival) {
	if w.predictor != nil {
		w.batch = append(w.batch, ares.Event{Forecast: w.predict(job)})
		return
	}
	if w.policy.Estimate != EstimateOracle || a.Runs <= 0 {
		return
	}
	estimate := a.Runs
	basis := "the trace"
	if sigma := w.policy.EstimateError; sigma > 0 {
		draw := rand.New(rand.NewPCG(uint64(len(w.jobs)), uint64(w.policy.Engine.Seed))) //nolint:gosec // the same draws in every run
		estimate = time.Duration(math.Min(float64(estimate)*math.Exp(sigma*draw.NormFloat64()), math.MaxInt64/4))
		basis = "the trace, with an error"
	}
	w.batch = append(w.batch, ares.Event{Forecast: &ares.RuntimePredicted{Job: job.ID, P50: estimate, P90: estimate, Basis: basis, Samples: 1, Own: 1}})
}

// This method splits a job that requests more GPUs than one machine has. The job is split into as few members as
// possible, all of equal size. A server does the same for a gang without a member count. The method also reports
// whether the job can never run on these machines. A server would reject such a job on submission.
func (w *World) split(spec ares.Spec) (ares.Spec, bool) {
	if spec.GPUs <= w.maxMachineGPUs || spec.Members > 1 {
		return spec, w.fleet.Infeasible(spec.WithDefaults(), true) != nil
	}
	parts, never := w.fleet.Split(spec, true)
	return parts, never != nil
}
