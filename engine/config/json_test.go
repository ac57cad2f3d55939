package config_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/engine/config"
)

// TestStoredNames checks that the JSON names of the configuration never change, because recordings contain them.
// The JSON text in this test is from a recording of an earlier version.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	const stored = `{"ThermalLimit":75,"ThermalMargin":10,"AgeingStep":10000000000,"HalfLife":86400000000000,"ModelWeights":null,"Mix":null,` +
		`"Queueing":{"Order":"attained","Blocked":"","Yield":true,"Attained":0,"PeersAfter":0},` +
		`"Yielding":{"Enabled":true,"Ceiling":4000,"MaxYields":3,"Cooldown":300000000000,"Restart":60000000000,"PerTenant":100,"Moving":false,"MoveGain":2000},` +
		`"Reserving":{"First":2,"After":300000000000,"Hold":604800000000000,"SlackPercent":10,"SlackLeast":60000000000},` +
		`"Placement":"","Seed":0,"Typical":null}`
	d := json.NewDecoder(strings.NewReader(stored))
	d.DisallowUnknownFields()
	var c config.Config
	if err := d.Decode(&c); err != nil {
		t.Fatal(err)
	}
	want := config.Default()
	want.Queue, want.Backfill.MaxSpread, want.Backfill.HoldIdle = config.QueueConfig{Order: config.OrderAttained, Preempt: true}, 0, 0
	want.Backfill.DrainAfter = 7 * 24 * time.Hour
	if got, err := json.Marshal(c); err != nil || string(got) != stored {
		t.Errorf("it is written as\n%s\nwas\n%s (%v)", got, stored, err)
	}
	if c.Digest() != want.Digest() {
		t.Errorf("read is %+v", c)
	}
}
