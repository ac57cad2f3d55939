package server

import (
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/control"
	"github.com/ares-scheduler/ares/history"
)

// HistoryFile is where SQLite keeps history, in the data directory.
const HistoryFile = "history.db"

// openHistory prepares history. A database that does not answer keeps nobody
// from starting: jobs that ended wait for it in the live store.
func (s *Server) openHistory() error {
	h, err := history.Open(history.Config{URL: s.cfg.History.URL, File: filepath.Join(s.cfg.DataDir, HistoryFile)})
	if err != nil {
		return err
	}
	if s.cfg.History.URL == "" && len(s.cfg.Etcd.Endpoints) > 0 {
		s.log.Warn("history is in a file of this server alone: set history.url where several servers share the store", "file", HistoryFile)
	}
	s.Ledger = control.NewLedger(s.View, h, time.Now)
	return nil
}

func (s *Server) closeHistory() {
	if s.Ledger == nil {
		return
	}
	if err := s.Ledger.History.Close(); err != nil {
		s.log.Warn("close history", "error", err)
	}
}

// remember has the recorder write history, and tells how it does.
func (s *Server) remember(r *control.Recorder, m *metrics) {
	r.Ledger = s.Ledger
	r.Retention = time.Duration(s.cfg.History.RetentionDays) * 24 * time.Hour
	writes := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_history_writes_total", Help: "Jobs that this server has put into history; one that is written again in a newer state counts again.",
	})
	errors := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_history_errors_total", Help: "Times that this server could not write history. Jobs stay live until it can.",
	})
	r.Wrote = func(jobs int, err error) {
		if err != nil {
			errors.Inc()
		}
		writes.Add(float64(jobs))
	}
	m.registry.MustRegister(writes, errors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_history_backlog", Help: "Jobs that ended and are not in history yet; 0 on a server that does not lead.",
		}, func() float64 { n, _ := r.Backlog(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_history_lag_seconds", Help: "How long the first of the backlog has ended; 0 without one.",
		}, func() float64 { _, lag := r.Backlog(); return lag.Seconds() }))
}
