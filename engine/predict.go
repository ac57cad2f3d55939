package engine

import (
	ares "github.com/ares-scheduler/ares"
)

// predict takes over how long a job is thought to run. One of a job that nobody
// speaks of is dropped with the batch.
func (s *State) predict(p *ares.RuntimePredicted) {
	e := s.entry(p.Job)
	e.forecast = p
	if !e.moved {
		e.moved = true
		s.moved = append(s.moved, e)
	}
}

// Forecast is how long a live job is thought to run; false when nobody said.
func (s *State) Forecast(id ares.JobID) (ares.RuntimePredicted, bool) {
	e := s.jobs[id]
	if e == nil || e.forecast == nil {
		return ares.RuntimePredicted{}, false
	}
	return *e.forecast, true
}
