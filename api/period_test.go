package api

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestTimesInTheWrongOrder checks that a period that ends before it begins
// causes an error and not an empty answer.
func TestTimesInTheWrongOrder(t *testing.T) {
	log := openLog(t, nil)
	h := newHouse(t, func(c *Config) { c.Audit, c.AuditLog = log, log })
	const early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
	for _, c := range []struct{ path, from, to string }{{"/api/v1/jobs", "from", "to"}, {"/api/v1/audit", "since", "until"}} {
		h.refused(h.do("GET", c.path+"?"+c.from+"="+late+"&"+c.to+"="+early, nil), 400, ares.Invalid, c.from+": "+late+" must be earlier than "+c.to+" ("+early+")")
		h.refused(h.do("GET", c.path+"?"+c.from+"="+late+"&"+c.to+"="+late, nil), 400, ares.Invalid, `"field":"`+c.from+`"`)
		if a := h.do("GET", c.path+"?"+c.from+"="+early+"&"+c.to+"="+late, nil); a.code != 200 {
			t.Errorf("%s: %d %s", c.path, a.code, a.body)
		}
	}
}
