package host

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

func TestDoctorJudgesTheAuditLog(t *testing.T) {
	outside := []string{"an outside head"}
	for _, c := range []struct {
		name   string
		answer *apipb.VerifyAuditResponse
		err    error
		want   string
		words  string
	}{
		{"well", &apipb.VerifyAuditResponse{Ok: true, Last: "9", Compared: []string{"the mark in the store (entry 8)", "history (entry 9)"}, NotCompared: outside}, nil, "audit ok", "history (entry 9); not compared with an outside head"},
		{"young", &apipb.VerifyAuditResponse{Ok: true, Last: "1", NotCompared: outside}, nil, "audit note", "compared with nothing"},
		{"cut", &apipb.VerifyAuditResponse{Faults: []*apipb.AuditFault{{Text: "the log ends with entry 3"}}}, nil, "audit fault", "WAS CHANGED: the log ends with entry 3"},
		{"not allowed", nil, ares.Errorf(ares.Forbidden, "no"), "audit note", "auditor"},
		{"unreadable", nil, ares.Errorf(ares.Internal, "permission denied"), "audit fault", "permission denied"},
		{"too long", nil, ares.Errorf(ares.Unavailable, "time is over"), "audit note", "time is over"},
	} {
		f := examineAudit(c.answer, c.err)
		if got := states([]finding{f}); got != c.want || !strings.Contains(f.Detail, c.words) {
			t.Errorf("%s: %s, %q, want %s and %q", c.name, got, f.Detail, c.want, c.words)
		}
	}
}
