package server

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/audit"
)

// openAudit opens the audit log and writes entries until the context "run" is cancelled. This happens after the
// listeners have closed.
func (s *Server) openAudit(ctx, run context.Context, m *serverMetrics) error {
	id, _, err := s.Store.Identity(ctx)
	if err != nil {
		return fmt.Errorf("read the store's identity: %w", err)
	}
	s.markScope = id.Store + "/" + id.Restore
	count := newAuditMetrics(m.registry)
	s.Audit, err = audit.Open(audit.Config{
		Dir: s.cfg.Audit.dir(s.cfg.DataDir), Server: s.name, Cluster: id.Store, MaxSegment: int64(s.cfg.Audit.MaxSegmentMB) << 20,
		Keep: s.cfg.Audit.keep(), Now: time.Now, Log: s.log, Observe: count.synced, Aggregated: count.aggregated.Inc,
		Shipped: func() uint64 {
			if shipper := s.shipped.Load(); shipper != nil {
				return shipper.Reached()
			}
			return 0
		},
	})
	if err != nil {
		return err
	}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_audit_failing", Help: "1 while the audit log cannot be written, and calls that change something are rejected.",
	}, func() float64 {
		if s.Audit.Ready() != nil {
			return 1
		}
		return 0
	}))
	s.log.Info("the audit log is signed", "dir", s.Audit.Dir(), "key", s.Audit.Key())
	s.runPart("audit", func() error { return s.Audit.Run(run) })
	return nil
}

// auditMetrics measures how the audit log is written.
type auditMetrics struct {
	entries, failures, aggregated prometheus.Counter
	fsync                         prometheus.Histogram
	group                         prometheus.Histogram
}

func newAuditMetrics(registry *prometheus.Registry) *auditMetrics {
	m := &auditMetrics{
		entries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ares_audit_entries_total", Help: "Entries written to the audit log.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ares_audit_failures_total", Help: "Writes to the audit log that failed; their entries are kept and written later.",
		}),
		aggregated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ares_audit_refusals_aggregated_total", Help: "Rejected calls that were counted together with similar ones instead of being logged each.",
		}),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ares_audit_fsync_seconds", Help: "Time of one write and fsync of the audit log.", Buckets: latencies,
		}),
		group: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "ares_audit_group_entries", Help: "Entries that shared one fsync of the audit log.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
	}
	registry.MustRegister(m.entries, m.failures, m.aggregated, m.fsync, m.group)
	return m
}

func (m *auditMetrics) synced(entries int, took time.Duration, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.entries.Add(float64(entries))
	m.fsync.Observe(took.Seconds())
	m.group.Observe(float64(entries))
}
