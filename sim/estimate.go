package sim

import (
	"math"
	"math/rand/v2"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Estimates a policy may have of runtimes, when a job comes.
const (
	EstimateNone     = ""         // none: the engine knows the user's limit, if there is one
	EstimateOracle   = "oracle"   // the true one
	EstimateForecast = "forecast" // from the jobs that ended before
)

// Estimates lists them as people write them.
func Estimates() []string { return []string{"none", EstimateOracle, EstimateForecast} }

// estimate tells the engine what the policy thinks of a job that has come.
func (w *World) estimate(job *ares.Job, a *Arrival) {
	if w.predictor != nil {
		w.batch = append(w.batch, ares.Event{Forecast: w.predict(job)})
		return
	}
	if w.policy.Estimate != EstimateOracle || a.Runs <= 0 {
		return
	}
	said := a.Runs
	basis := "the trace"
	if sigma := w.policy.EstimateError; sigma > 0 {
		draw := rand.New(rand.NewPCG(uint64(len(w.jobs)), uint64(w.policy.Engine.Seed))) //nolint:gosec // the same for every run
		said = time.Duration(math.Min(float64(said)*math.Exp(sigma*draw.NormFloat64()), math.MaxInt64/4))
		basis = "the trace, with an error"
	}
	w.batch = append(w.batch, ares.Event{Forecast: &ares.RuntimePredicted{Job: job.ID, P50: said, P90: said, Basis: basis, Samples: 1}})
}

// split splits a job that asks for more GPUs than a machine has into equal
// members, as few as will do, as a server does with a gang of which nobody said
// how many members it has. It says whether the job can never run here, as a
// server would when it is submitted.
func (w *World) split(said ares.Spec) (ares.Spec, bool) {
	if said.GPUs <= w.largest || said.Members > 1 {
		return said, w.fleet.Never(said.WithDefaults()) != nil
	}
	parts, never := w.fleet.Split(said)
	return parts, never != nil
}
