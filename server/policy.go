package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/admission"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
)

// startPolicies loads the policies and starts the part of the server that sends their alerts. It must be called
// before the view runs.
func (s *Server) startPolicies(run context.Context, m *serverMetrics) error {
	var err error
	if s.Policies, err = admission.NewPolicies(s.View); err != nil {
		return err
	}
	channels := make([]notify.Channel, len(s.cfg.Alerts.Channels))
	for i := range s.cfg.Alerts.Channels {
		if channels[i], err = s.cfg.Alerts.Channels[i].channel(); err != nil {
			return err
		}
	}
	counts := newPolicyMetrics(s.Policies)
	m.registry.MustRegister(counts.asked, counts.alerts, counts)
	opts := notify.DefaultOptions()
	opts.PerMinute, opts.PerTenant, opts.Queue = s.cfg.Alerts.PerMinute, s.cfg.Alerts.TenantPerMinute, s.cfg.Alerts.Queue
	opts.Window = time.Duration(s.cfg.Alerts.RepeatMinutes) * time.Minute
	opts.Log, opts.Observe = s.log, counts.alerted
	s.notifier = notify.New(channels, opts)
	s.Policies.Log, s.Policies.Count, s.Policies.Alert = s.log, counts.count, s.notifier.Tell
	s.Admission.Policies = s.Policies
	if err := s.openNotices(); err != nil {
		return err
	}
	s.runPart("alerts", func() error { return s.notifier.Run(run) })
	return nil
}

// policyMetrics counts evaluations of policies and the outcomes of their alerts.
type policyMetrics struct {
	policies *admission.Policies
	asked    *prometheus.CounterVec
	alerts   *prometheus.CounterVec

	mu    sync.Mutex
	named map[string]bool // policies of tenants that have metrics
}

// maxNamedPolicies is the maximum number of tenants' policies that have metrics of their own. A tenant can apply and delete
// policies with new names as often as it likes, and a metric is never removed.
const maxNamedPolicies = 2 * ares.MaxTenantsPolicies

// otherPolicies stands for the policies of tenants beyond that.
const otherPolicies = "(other)"

var policiesDesc = prometheus.NewDesc("ares_policies", "Policies that this server knows, by mode and by whether it can read them.", []string{"mode", "state"}, nil)

func newPolicyMetrics(p *admission.Policies) *policyMetrics {
	return &policyMetrics{
		policies: p, named: map[string]bool{},
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_policy_evaluations_total", Help: "Evaluations of a policy, by result. A tenant's own policy is named tenant/name.",
		}, []string{"policy", "outcome", "mode"}),
		alerts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ares_alerts_total", Help: "Alerts by outcome: sent, failed after every try, repeated within the window and not sent, dropped because too many waited, limited because their tenant made too many, forbidden because their tenant may not use the channel, or for a channel unknown to this server.",
		}, []string{"channel", "outcome"}),
	}
}

func (m *policyMetrics) count(p *ares.Policy, outcome policy.Outcome) {
	m.asked.WithLabelValues(m.name(p), string(outcome), string(p.Mode)).Inc()
}

// The method `name` returns the name of a policy in metrics.
func (m *policyMetrics) name(p *ares.Policy) string {
	if p.Tenant == "" {
		return p.Name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := p.ID()
	if !m.named[id] && len(m.named) >= maxNamedPolicies {
		return otherPolicies
	}
	m.named[id] = true
	return id
}

func (m *policyMetrics) alerted(channel, outcome string) {
	m.alerts.WithLabelValues(channel, outcome).Inc()
}

// Describe is part of prometheus.Collector.
func (m *policyMetrics) Describe(ch chan<- *prometheus.Desc) { ch <- policiesDesc }

// Collect is part of prometheus.Collector.
func (m *policyMetrics) Collect(ch chan<- prometheus.Metric) {
	type key struct {
		mode  ares.PolicyMode
		state string
	}
	counts := map[key]int{}
	for _, mode := range ares.PolicyModes() {
		counts[key{mode, "active"}], counts[key{mode, "broken"}] = 0, 0
	}
	for _, r := range m.policies.List() {
		state := "active"
		if r.Broken != nil {
			state = "broken"
		}
		counts[key{r.Policy.Mode, state}]++
	}
	for k, n := range counts { // order-free: each is its own metric
		ch <- prometheus.MustNewConstMetric(policiesDesc, prometheus.GaugeValue, float64(n), string(k.mode), k.state)
	}
}
