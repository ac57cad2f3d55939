package engine_test

import (
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// TestForecastsGoWithTheirJobs: whatever comes first, and until either goes.
func TestForecastsGoWithTheirJobs(t *testing.T) {
	t.Parallel()
	said := ares.RuntimePredicted{Job: "x", P50: time.Minute, P90: time.Hour, Basis: "2 runs"}
	cfg := config.Default()
	cfg.Queue.Order = config.OrderShortest // where it waits depends on it
	s := engine.NewWith(cfg)
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{
		tenantEvent("default"), {Forecast: &said}, {Job: job("x", 1, ares.Spec{GPUs: 1})}, {Forecast: &ares.RuntimePredicted{Job: "gone"}},
	}})
	check(t, s)
	if got, ok := s.Forecast("x"); !ok || got != said {
		t.Errorf("it is said to take %+v", got)
	}
	if _, ok := s.Forecast("gone"); ok {
		t.Error("something is said of a job that nobody knows")
	}
	s.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindForecast, ID: "x"}}}})
	if got, ok := s.Forecast("x"); ok {
		t.Errorf("what was said is gone, and still %+v", got)
	}
	check(t, s)
	s.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Forecast: &said}}})
	s.Apply(ares.Batch{Revision: 4, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: "x"}}, {Gone: ares.Gone{Kind: ares.KindForecast, ID: "x"}}}})
	if _, ok := s.Forecast("x"); ok {
		t.Error("the job is gone")
	}
	check(t, s)
}
