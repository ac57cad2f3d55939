package admission

import (
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
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

// TestImageWarning checks that the answer to a submission says if no node can run the job's image.
func TestImageWarning(t *testing.T) {
	d := newAdmission(t)
	node := func(revision int64, n ares.Node) {
		n.Revision = revision
		d.View.Apply(ares.Batch{Revision: revision, Events: []ares.Event{
			{Revision: revision, Node: &n}, {Revision: revision, Session: &ares.Session{Node: n.ID, Revision: revision}},
		}})
	}
	image := func(s *ares.Spec) { s.Image = "pytorch:2.0" }
	warnings := func(spec ares.Spec) []string {
		t.Helper()
		got, err := d.submitOne(t.Context(), spec, "me")
		if err != nil {
			t.Fatal(err)
		}
		return got.Warnings
	}
	if got := warnings(spec(image)); len(got) > 0 { // no node is connected, which every job waits for
		t.Errorf("without a node: %q", got)
	}
	node(1<<40, ares.Node{ID: "plain", CPUs: 64, MemoryMB: 512_000})
	if got := warnings(spec(image)); len(got) != 1 || !strings.Contains(got[0], "none of the 1 connected nodes can run images") {
		t.Errorf("without a runtime: %q", got)
	}
	if got := warnings(spec()); len(got) > 0 {
		t.Errorf("a job without an image: %q", got)
	}
	node(1<<40+1, ares.Node{ID: "boxes", CPUs: 64, MemoryMB: 512_000, Images: true})
	if got := warnings(spec(image)); len(got) > 0 {
		t.Errorf("with a runtime: %q", got)
	}
	root := func(s *ares.Spec) { s.EditPlacement().ContainerRoot = true }
	if got := warnings(spec(image, root)); len(got) != 1 || !strings.Contains(got[0], "none of the 1 connected nodes that run images can make a job root") {
		t.Errorf("without user namespaces: %q", got)
	}
	node(1<<40+2, ares.Node{ID: "rooms", CPUs: 64, MemoryMB: 512_000, Images: true, ContainerRoot: true})
	if got := warnings(spec(image, root)); len(got) > 0 {
		t.Errorf("with user namespaces: %q", got)
	}
}
