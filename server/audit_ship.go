package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
)

// shippedAudit manages the copy of the audit log in the history database. Every server copies its audit entries to this
// database. Queries therefore find the entries of all servers there.
type shippedAudit struct {
	shipper *audit.Shipper
	entries history.AuditEntries
	keep    time.Duration   // 0 for unlimited
	failed  func(err error) // called when old entries cannot be removed
}

// pruneAuditEvery is the interval at which expired audit entries are removed from the history database.
const pruneAuditEvery = time.Hour

// shipAudit copies the audit log to the history database until the context "run" is cancelled.
func (s *Server) shipAudit(run context.Context, m *serverMetrics) *shippedAudit {
	errors := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_audit_ship_errors_total", Help: "Failed attempts to copy the audit log to history. Entries stay in the log and are copied later.",
	})
	a := &shippedAudit{entries: history.AuditEntries{History: s.Accounting.History}, keep: s.cfg.Audit.keep(), failed: func(err error) { s.log.Warn("remove old entries of the audit from history", "error", err) }}
	a.shipper = &audit.Shipper{Log: s.Audit, Sink: a.entries, Slog: s.log, Told: func(_ int, err error) {
		if err != nil {
			errors.Inc()
		}
	}}
	s.shipped.Store(a.shipper)
	m.registry.MustRegister(errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_audit_ship_backlog", Help: "Entries of the audit log that are not yet in history.",
	}, func() float64 { return float64(a.shipper.Behind()) }))
	s.runPart("audit shipper", func() error { return a.Run(run) })
	return a
}

// Run ships entries and removes expired ones until ctx ends.
func (a *shippedAudit) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { a.prune(ctx) })
	return a.shipper.Run(ctx)
}

func (a *shippedAudit) prune(ctx context.Context) {
	if a.keep <= 0 {
		return
	}
	tick := time.NewTicker(pruneAuditEvery)
	defer tick.Stop()
	for {
		if _, err := a.entries.Prune(ctx, time.Now().Add(-a.keep)); err != nil && ctx.Err() == nil {
			a.failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// List implements api.AuditHistory.
func (a *shippedAudit) List(ctx context.Context, q audit.Query, after *history.AuditCursor) ([]audit.Entry, bool, error) {
	if after == nil { // entries of calls that were already answered must be found
		if err := a.shipper.Ship(ctx); err != nil {
			return nil, false, err
		}
	}
	return a.entries.List(ctx, q, after)
}
