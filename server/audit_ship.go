package server

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/history"
)

// shippedAudit is the audit log in history: this server's entries go there, and
// those of all servers are found there.
type shippedAudit struct {
	shipper *audit.Shipper
	deeds   history.Deeds
	keep    time.Duration   // 0 for ever
	failed  func(err error) // hears why old entries stay
}

// pruneAuditEvery is how often what is too old is removed from history.
const pruneAuditEvery = time.Hour

// shipAudit has the audit log shipped to history until run ends.
func (s *Server) shipAudit(run context.Context, m *metrics) *shippedAudit {
	errors := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_audit_ship_errors_total", Help: "Times that the audit log could not be shipped to history. Entries stay in the log until it can.",
	})
	a := &shippedAudit{deeds: history.Deeds{History: s.Ledger.History}, keep: s.cfg.Audit.keep(), failed: func(err error) { s.log.Warn("remove old entries of the audit from history", "error", err) }}
	a.shipper = &audit.Shipper{Log: s.Audit, Sink: a.deeds, Slog: s.log, Told: func(_ int, err error) {
		if err != nil {
			errors.Inc()
		}
	}}
	s.shipped.Store(a.shipper)
	m.registry.MustRegister(errors, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_audit_ship_backlog", Help: "Entries of the audit log that history is not known to have.",
	}, func() float64 { return float64(a.shipper.Behind()) }))
	s.part("audit shipper", func() error { return a.Run(run) })
	return a
}

// Run ships and removes what is too old until ctx ends.
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
		if _, err := a.deeds.Prune(ctx, time.Now().Add(-a.keep)); err != nil && ctx.Err() == nil {
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
func (a *shippedAudit) List(ctx context.Context, q audit.Query, after *history.DeedsAfter) ([]audit.Entry, bool, error) {
	if after == nil { // what was answered is to be found
		if err := a.shipper.Ship(ctx); err != nil {
			return nil, false, err
		}
	}
	return a.deeds.List(ctx, q, after)
}
