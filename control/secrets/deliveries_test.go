package secrets

import (
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestSecretsAreForTheStartOnly lets a hostile node fetch the secrets of a long job again and again, to read their later
// versions and to fill the audit log.
func TestSecretsAreForTheStartOnly(t *testing.T) {
	s := newSecrets(t, storetest.Embedded(t))
	tenant := storetest.NewTenant(t, s.Store)
	s.put(t, tenant.ID, "hub", one("first"))
	ref, session := claimed(t, s.Store, tenant, ares.SecretRef{Name: "hub", Env: "TOKEN"})
	for i := range maxDeliveries {
		if _, err := s.Deliver(t.Context(), ref, session); err != nil {
			t.Fatal(i, err)
		}
	}
	if _, err := s.Deliver(t.Context(), ref, session); ares.CodeOf(err) != ares.Exhausted || !strings.Contains(err.Error(), "20 times") {
		t.Errorf("once more: %v", err)
	}
	again, session := claimed(t, s.Store, tenant, ares.SecretRef{Name: "hub", Env: "TOKEN"})
	if _, err := s.Deliver(t.Context(), again, session); err != nil {
		t.Errorf("another job: %v", err)
	}
	s.put(t, tenant.ID, "hub", one("second"))
	s.Now = func() time.Time { return storetest.Noon.Add(24 * time.Hour) }
	if got, err := s.Deliver(t.Context(), again, session); ares.CodeOf(err) != ares.Forbidden || got != nil || !strings.Contains(err.Error(), "during the first 15 minutes") {
		t.Errorf("a day later: %v %v", got, err)
	}
}
