package server

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/audit"
)

// markWithin is how long the server waits for the store or for history when it compares the audit log.
const markWithin = 3 * time.Second

// startMarker writes the position of the audit log into the store until the context "run" is cancelled.
func (s *Server) startMarker(run context.Context, m *metrics) {
	s.marker = &audit.Marker{Log: s.Audit, Store: s.Store, Now: time.Now, Slog: s.log}
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
// named in the second result, and the verification continues without it.
func (s *Server) auditMarks(shipped *shippedAudit) service.AuditMarks {
	return func(ctx context.Context) (marks []audit.Mark, missing []string) {
		for _, place := range []func(context.Context, string) (audit.Mark, error){s.Store.AuditMark, shipped.entries.LastMark} {
			within, cancel := context.WithTimeout(ctx, markWithin)
			m, err := place(within, s.name)
			cancel()
			switch {
			case err != nil:
				missing = append(missing, fmt.Sprintf("%s: %s", m.Origin, err))
			case m.Sequence == 0:
				missing = append(missing, m.Origin+": it has no entry of this server yet")
			default:
				marks = append(marks, m)
			}
		}
		return marks, missing
	}
}
