package sim

import (
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// The runtime estimates that a policy can use for an arriving job.
const (
	EstimateNone     = ""         // none: the engine knows only the time limit of the job, if it has one
	EstimateOracle   = "oracle"   // the true runtime
	EstimateForecast = "forecast" // predicted from jobs that ended before
)

// Estimates returns the names of the estimates as users write them.
func Estimates() []string { return []string{"none", EstimateOracle, EstimateForecast} }

// estimate gives the engine the runtime estimate of the policy for an arriving
// job.
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
		draw := rand.New(rand.NewPCG(uint64(len(w.jobs)), uint64(w.policy.Engine.Seed))) //nolint:gosec // the same for every run
		estimate = time.Duration(math.Min(float64(estimate)*math.Exp(sigma*draw.NormFloat64()), math.MaxInt64/4))
		basis = "the trace, with an error"
	}
	w.batch = append(w.batch, ares.Event{Forecast: &ares.RuntimePredicted{Job: job.ID, P50: estimate, P90: estimate, Basis: basis, Samples: 1}})
}

// split splits a job that requests more GPUs than one machine has into equal
// members, as few as possible, as a server does with a gang without a member
// count. It also returns whether the job can never run on this fleet, which a
// server would report on submission.
func (w *World) split(spec ares.Spec) (ares.Spec, bool) {
	if spec.GPUs <= w.maxMachineGPUs || spec.Members > 1 {
		return spec, w.fleet.Infeasible(spec.WithDefaults()) != nil
	}
	parts, never := w.fleet.Split(spec)
	return parts, never != nil
}
