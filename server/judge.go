package server

import (
	"log/slog"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/laws"
)

// judge holds decisions against the laws, and reports each that one broke. The
// decision stands: the store has the last word on what is committed, and whoever
// debugs wants to see what becomes of it.
func (m *metrics) judge(log *slog.Logger) func(*engine.State, *ares.Plan) {
	for _, law := range laws.Laws() {
		m.violations.WithLabelValues(law.Name) // so that 0 is told, not nothing
	}
	return func(s *engine.State, p *ares.Plan) {
		for _, v := range laws.Check(s, p) {
			m.violations.WithLabelValues(v.Law).Inc()
			log.Error("a decision broke a law", "law", v.Law, "error", v.Err, "revision", p.Revision, "now", p.Now, "digest", p.Digest())
		}
	}
}
