package server

import (
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/control/accounting"
	"github.com/ares-scheduler/ares/control/lifecycle"
	"github.com/ares-scheduler/ares/history"
)

// HistoryFile is the name of the SQLite history database in the data directory.
const HistoryFile = "history.db"

// openHistory opens the history database. If the database does not answer, the server still starts, because finished jobs can wait in the
// live store.
func (s *Server) openHistory() error {
	h, err := history.Open(history.Config{URL: s.cfg.History.URL, File: filepath.Join(s.cfg.DataDir, HistoryFile)})
	if err != nil {
		return err
	}
	if s.cfg.History.URL == "" && len(s.cfg.Etcd.Endpoints) > 0 {
		s.log.Warn("history is in a local file of this server: set history.url if several servers share the store", "file", HistoryFile)
	}
	s.Accounting = accounting.NewAccounting(s.View, h, time.Now)
	s.live = &lifecycle.LivePublisher{Store: s.Store, View: s.View, Accounting: s.Accounting, Now: time.Now, Log: s.log}
	s.live.Follow()
	return nil
}

func (s *Server) closeHistory() {
	if s.Accounting == nil {
		return
	}
	if err := s.Accounting.History.Close(); err != nil {
		s.log.Warn("close history", "error", err)
	}
}

// startHistory makes the Archiver write to the history database, and registers the metrics of that database.
func (s *Server) startHistory(r *lifecycle.Archiver, m *serverMetrics) {
	r.Accounting, r.Currency = s.Accounting, s.cfg.History.Currency
	r.Retention = time.Duration(s.cfg.History.RetentionDays) * 24 * time.Hour
	writes := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_history_writes_total", Help: "Jobs that this server wrote to history; a job that is written again in a newer state counts again.",
	})
	errors := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "ares_history_errors_total", Help: "Failed attempts of this server to write history. Jobs stay live until a later one succeeds.",
	})
	r.Wrote = func(jobs int, err error) {
		if err != nil {
			errors.Inc()
		}
		writes.Add(float64(jobs))
	}
	m.registry.MustRegister(writes, errors,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_history_backlog", Help: "Finished jobs that are not in history yet; 0 on a server that is not the leader.",
		}, func() float64 { n, _ := r.Backlog(); return float64(n) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_history_live_backlog", Help: "Live jobs whose last change is not in the history database yet; 0 on a server that is not the leader.",
		}, func() float64 { return float64(s.live.Backlog()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "ares_history_lag_seconds", Help: "Seconds since the oldest job of the backlog ended; 0 without a backlog.",
		}, func() float64 { _, lag := r.Backlog(); return lag.Seconds() }))
}
