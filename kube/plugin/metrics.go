package plugin

import (
	"errors"
	"time"

	"k8s.io/component-base/metrics/legacyregistry"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/kube/planner"
	"github.com/ares-scheduler/ares/metrics"
)

// observer exports the metrics of the planner at /metrics, beside those of the framework.
type observer struct{ *metrics.Scheduler }

func newMetrics() *observer { return &observer{metrics.New()} }

// register adds the metrics to the registry of the Kubernetes scheduler.
func (o *observer) register(p *planner.Planner) error {
	measure := func() (s metrics.Snapshot) {
		p.State(func(state *engine.State) { s = metrics.Measure(state) })
		return s
	}
	registry := legacyregistry.Registerer()
	return errors.Join(o.Register(registry, measure), registry.Register(metrics.NewUtilization(measure)))
}

// Lost records that a gang lost pods with a node, for the histogram of recoveries.
func (o *observer) Lost(gang ares.JobID, now time.Time) { o.Recovery.Lost(gang, now) }

// Recovered records that the gang is whole again.
func (o *observer) Recovered(gang ares.JobID, now time.Time) { o.Recovery.Recovered(gang, now) }
