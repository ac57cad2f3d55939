package server

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/audit"
)

// markWithin is how long the server waits for the store or for history when it compares the audit log.
const markWithin = 3 * time.Second

// startMarker writes the position of the audit log into the store until the context "run" is cancelled.
func (s *Server) startMarker(run context.Context, m *serverMetrics) {
	s.marker = &audit.Marker{Log: s.Audit, Store: s.Store, Now: time.Now, Slog: s.log, Scope: s.markScope}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ares_audit_behind", Help: "1 if the audit log lacks an entry that the store remembers: it was cut, or an older copy was put back.",
	}, func() float64 {
		if s.marker.Problem() != "" {
			return 1
		}
		return 0
	}))
	s.runPart("audit mark", func() error { return s.marker.Run(run) })
}

// markLast marks the end of the audit log, after its last entry was written and before the store closes.
func (s *Server) markLast() {
	if s.marker == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), markWithin)
	defer cancel()
	s.marker.Step(ctx, true)
}

// auditAlert returns a warning about the audit log or the recording of decisions, or "".
func (s *Server) auditAlert() string {
	recording := ""
	if s.Loop != nil && s.Loop.Recorder != nil {
		recording = s.Loop.Recorder.Problem()
	}
	return cmp.Or(s.marker.Problem(), recording)
}

// auditMarks returns a function that reads what the store and history remember of this server's audit log. A place that does not answer is
// named, and the verification continues without it.
func (s *Server) auditMarks(shipped *shippedAudit) service.AuditMarks {
	return func(ctx context.Context) (check audit.Check) {
		for _, place := range []func(context.Context, string) (audit.Mark, error){s.Store.AuditMark, shipped.entries.LastMark} {
			within, cancel := context.WithTimeout(ctx, markWithin)
			m, err := place(within, s.name)
			cancel()
			switch {
			case err != nil:
				check.NotCompared = append(check.NotCompared, fmt.Sprintf("%s: %s", m.Origin, err))
			case m.Sequence == 0:
				check.NotCompared = append(check.NotCompared, m.Origin+": it has no entry of this server yet")
			default:
				check.Marks = append(check.Marks, m)
			}
		}
		if why := s.marker.Problem(); why != "" {
			check.Known = append(check.Known, why)
		}
		check.NotCompared = append(check.NotCompared, s.otherLogs(ctx)...)
		check.Copy = func(from uint64) ([]audit.Entry, error) {
			within, cancel := context.WithTimeout(ctx, markWithin)
			defer cancel()
			return shipped.entries.From(within, s.name, from)
		}
		if shipped.keep > 0 {
			check.CopySince = time.Now().Add(-shipped.keep)
		}
		return check
	}
}

// otherLogs names the logs of other servers that the store knows. A server that was removed, or that got another name, leaves a log that just
// ends. Nothing in this server's log shows that, so the report names each such log with its last known entry.
func (s *Server) otherLogs(ctx context.Context) (out []string) {
	within, cancel := context.WithTimeout(ctx, markWithin)
	defer cancel()
	marks, err := s.Store.AuditMarks(within)
	if err != nil {
		return []string{fmt.Sprintf("the logs of other servers: %s", err)}
	}
	slices.SortFunc(marks, func(a, b audit.Mark) int { return b.Time.Compare(a.Time) })
	for _, m := range marks {
		if keep := s.cfg.Audit.keep(); m.Server == s.name || keep > 0 && time.Since(m.Time) > keep {
			continue
		}
		if len(out) == maxOtherLogs {
			return append(out, fmt.Sprintf("the logs of further servers: the store knows %d logs", len(marks)))
		}
		out = append(out, fmt.Sprintf("the log of server %s, which reached entry %d with the hash %.16s on %s: verify it with --server, or its files with --dir if that server is gone",
			m.Server, m.Sequence, m.Hash, m.Time.UTC().Format(time.RFC3339)))
	}
	return out
}

// maxOtherLogs is how many logs of other servers a report names.
const maxOtherLogs = 20
