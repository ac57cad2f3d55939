package engine_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestForecast checks that a job keeps its forecast until the job or the forecast is deleted. The order in
// which the two records arrive must not matter.
func TestForecast(t *testing.T) {
	t.Parallel()
	said := ares.RuntimePredicted{Job: "x", P50: time.Minute, P90: time.Hour, Basis: "2 runs"}
	cfg := enginetest.AgedConfig()
	cfg.Queue.Order = config.OrderShortest // the position in the queue depends on the forecast
	s := engine.NewWith(cfg)
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: []ares.Event{
		tenantEvent("default"), {Forecast: &said}, {Job: job("x", 1, ares.Spec{GPUs: 1})}, {Forecast: &ares.RuntimePredicted{Job: "gone"}},
	}})
	check(t, s)
	if got, ok := s.Forecast("x"); !ok || got != said {
		t.Errorf("forecast of x = %+v", got)
	}
	if _, ok := s.Forecast("gone"); ok {
		t.Error("an unknown job has a forecast")
	}
	s.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindForecast, ID: "x"}}}})
	if got, ok := s.Forecast("x"); ok {
		t.Errorf("the forecast was deleted, and still is %+v", got)
	}
	check(t, s)
	s.Apply(ares.Batch{Revision: 3, Events: []ares.Event{{Forecast: &said}}})
	s.Apply(ares.Batch{Revision: 4, Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: "x"}}, {Gone: ares.Gone{Kind: ares.KindForecast, ID: "x"}}}})
	if _, ok := s.Forecast("x"); ok {
		t.Error("a deleted job has a forecast")
	}
	check(t, s)
}
