package server

import (
	"log/slog"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// checkLaws checks each decision against the invariants in package engine/laws, and reports each violation. checkLaws
// does not stop a decision. The store decides what is committed, and seeing the consequences of a violation helps
// debugging.
func (m *serverMetrics) checkLaws(log *slog.Logger) func(*engine.State, *ares.Plan) {
	for _, law := range laws.Laws() {
		m.violations.WithLabelValues(law.Name) // so that the metric is exported with 0
	}
	return func(s *engine.State, p *ares.Plan) {
		for _, v := range laws.Check(s, p) {
			m.violations.WithLabelValues(v.Law).Inc()
			log.Error("a decision violated a law", "law", v.Law, "error", v.Err, "revision", p.Revision, "now", p.Now, "digest", p.Digest())
		}
	}
}
