package preempt

import (
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

// TestProtectionTextIsRounded checks that the text about protected jobs, which every tenant may read, gives a full minute.
func TestProtectionTextIsRounded(t *testing.T) {
	minute := time.Date(2026, 1, 1, 0, 25, 0, 0, time.UTC)
	for _, ends := range []time.Time{minute, minute.Add(-time.Nanosecond), minute.Add(-59 * time.Second)} {
		var counts protectionCounts
		counts.add(&candidateVictim{protection: protectedCooldown, protectedUntil: ends})
		if got := counts.text(&config.PreemptionConfig{}); !strings.HasSuffix(got, "protected until 2026-01-01T00:25:00Z") {
			t.Errorf("a cooldown that ends at %s: %s", ends, got)
		}
	}
}
