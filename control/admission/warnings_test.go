package admission

import (
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestPriorityLevels checks priorities from 0 to 4. They are levels, where 0 is the highest, unless the job names its class.
func TestPriorityLevels(t *testing.T) {
	d := newAdmission(t)
	number := func(n int) func(*ares.Spec) { return func(s *ares.Spec) { s.Priority = new(n) } }
	class := func(c ares.Class) func(*ares.Spec) { return func(s *ares.Spec) { s.PriorityClass = c } }
	for level, want := range []struct {
		name  string
		class ares.Class
		value int
	}{
		{"CRITICAL", ares.Critical, 2000}, {"HIGH", ares.High, 1000}, {"NORMAL", ares.Normal, 500}, {"LOW", ares.Low, 100}, {"BEST_EFFORT", ares.BestEffort, 0},
	} {
		said := spec(number(level))
		got, err := d.submitOne(t.Context(), said, "me")
		if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "of 0 to 4, "+want.name+": the job has class "+string(want.class)) {
			t.Errorf("level %d: %q, %v", level, got.Warnings, err)
			continue
		}
		if j := storetest.Get(t, d.Store, got.ID).Job; j.PriorityValue() != want.value || j.PriorityClass != want.class || j.Digest != ares.DigestOf(said) {
			t.Errorf("level %d was stored as %d, class %s", level, j.PriorityValue(), j.PriorityClass)
		}
		if *said.Priority != level {
			t.Errorf("the submitted spec was changed to %d", *said.Priority)
		}
	}
	for _, s := range []ares.Spec{spec(number(5)), spec(number(99)), spec(number(0), class(ares.BestEffort)), spec(class(ares.Critical)), spec()} {
		if got, err := d.submitOne(t.Context(), s, "me"); err != nil || len(got.Warnings) > 0 {
			t.Errorf("%v: %q, %v", s, got.Warnings, err)
		}
	}
	d.add(t, ares.Tenant{ID: "low", Limits: ares.NoLimits(), PriorityTier: ares.Low})
	_, err := d.submitOne(t.Context(), spec(in("low"), number(1)), "me")
	wantCode(t, err, ares.PriorityTooHigh, "up to class low", "priority 1 was read as level 1 of 0 to 4, HIGH")
	if got := readLevel(new(spec(number(0))), true); got != "" {
		t.Errorf("the priority of a retried job was read as a level: %s", got)
	}
}

// TestImageWarning checks that the answer to a submission says whether the image is ignored or the job fails.
func TestImageWarning(t *testing.T) {
	d := newAdmission(t)
	image := func(s *ares.Spec) { s.Image = "pytorch:2.0" }
	got, err := d.submitOne(t.Context(), spec(image), "me")
	if err != nil || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "image pytorch:2.0 is not used") {
		t.Errorf("%q, %v", got.Warnings, err)
	}
	for want, n := range map[string]cache.ImageNodes{
		"No node is online":                        {},
		"the command runs directly on the node":    {Run: 2},
		"the job will fail at its start":           {Other: 2},
		"on 1 of 3 nodes the command runs":         {Run: 1, Other: 2},
		"on the others the job fails at its start": {Run: 1, Other: 2},
	} {
		if text := imageWarning("x", n); !strings.Contains(text, want) {
			t.Errorf("%+v: %s", n, text)
		}
	}
}
