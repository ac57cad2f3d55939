package api

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
)

// TestStoredTextHidesOthers checks sentences that an earlier version stored.
// The names of other tenants' objects must be hidden, no matter how the
// sentences are worded.
func TestStoredTextHidesOthers(t *testing.T) {
	h := newHouse(t)
	for _, id := range []string{"a", "b"} {
		must(t, h.store.RegisterTenant(t.Context(), ares.Tenant{ID: id, Limits: ares.NoLimits(), Weight: 1}))
	}
	now := time.Now()
	_, err := h.store.CreateReservation(t.Context(), ares.Reservation{Name: "w", Tenant: "b", From: now, Until: now.Add(time.Hour), Nodes: []string{"n"}, By: "x", CreatedAt: now})
	must(t, err)
	h.seen()
	own, theirs, gone := h.submit("tenant_id", "a"), h.submit("tenant_id", "b"), string(ares.NewJobID("b", "gone"))
	h.seen()
	to := service.Visibility{Who: &ares.Identity{Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: "a"}}}}
	for text, want := range map[string]string{
		"gave way to job " + theirs + " (class)":                   "gave way to a job of another tenant (class)",
		"gave way to job " + gone:                                  "gave way to another job",
		"x" + theirs + "/log":                                      "xa job of another tenant/log",
		own + ": job-less":                                         own + ": job-less",
		"its node is drained by reservation w":                     "its node is drained by another tenant's reservation",
		"node n is reserved for tenant b until 1 (reservation w)":  "node n is reserved for another tenant until 1 (another tenant's reservation)",
		"reserved for queue b/q, and tenant a's quota; a tenant b": "reserved for another tenant, and tenant a's quota; a another tenant",
	} {
		if got := h.StoredText(to, text, ares.JobID(own)); got != want {
			t.Errorf("%q is told as %q, want %q", text, got, want)
		}
	}
	admin := service.Visibility{Who: &ares.Identity{Bindings: []ares.Binding{{Role: ares.PlatformAdmin}}}}
	if got := h.StoredText(admin, "gave way to job "+gone, ""); got != "gave way to job "+gone {
		t.Errorf("an administrator is told %q", got)
	}
}
