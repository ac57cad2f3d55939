package store

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	ares "github.com/ares-scheduler/ares"
)

// TestJobsShareValues checks that two jobs with equal specs share their strings, lists, maps and placements, and that a job with
// another spec keeps its own values.
func TestJobsShareValues(t *testing.T) {
	read := func(n int, change func(*ares.Spec)) *ares.Job {
		s := ares.Spec{
			RequestID: fmt.Sprint("r-", n), Name: strings.Repeat("n", 20), Image: strings.Clone("pytorch:2.0"),
			Command: []string{strings.Clone("python"), "train.py"}, Environment: map[string]string{"A": strings.Clone("1"), "B": "2"},
			Labels: map[string]string{"team": "vision"}, Priority: new(7), GraceSeconds: new(5000),
		}
		if change != nil {
			change(&s)
		}
		id := ares.JobID(fmt.Sprint("job-", n))
		rec := rewrite(t, jobRecord(&ares.Job{Spec: s, ID: id}))
		got := jobOf(rec.GetJob(), id, 1)
		if want := s.WithDefaults(); !reflect.DeepEqual(got.Spec, want) {
			t.Errorf("read %+v, want %+v", got.Spec, want)
		}
		return got
	}
	a, b := read(1, nil), read(2, nil)
	if unsafe.StringData(a.Image) != unsafe.StringData(b.Image) || unsafe.SliceData(a.Command) != unsafe.SliceData(b.Command) ||
		reflect.ValueOf(a.Environment).Pointer() != reflect.ValueOf(b.Environment).Pointer() || a.Priority != b.Priority {
		t.Error("two jobs with equal specs have their own copies")
	}
	if c := append(a.Command, "x"); unsafe.SliceData(c) == unsafe.SliceData(b.Command) {
		t.Error("an append changes a shared list")
	}
	if a.Constraints != b.Constraints {
		t.Error("two jobs without placement constraints have their own copies of the default")
	}
	onLeaf := func(s *ares.Spec) {
		s.Constraints = &ares.Placement{RequiredLevel: "leaf", NodeSelector: map[string]string{"pool": "a", "zone": "b"}, Tolerations: []string{"spot"}}
	}
	if c, d := read(5, onLeaf), read(6, onLeaf); c.Constraints != d.Constraints || c.Constraints == a.Constraints {
		t.Errorf("placements: %p and %p of equal jobs, %p of another", c.Constraints, d.Constraints, a.Constraints)
	}
	read(7, func(s *ares.Spec) {
		onLeaf(s)
		s.Constraints.Affinity = []string{strings.Repeat("x", 3*maxSharedBytes)}
		s.Constraints.NodeRequirements = ares.NodeRequirements{{Key: "gen", Operator: ares.OperatorExists}}
	})
	read(3, func(s *ares.Spec) {
		s.Command[1], s.Environment["B"], s.Labels, s.Priority = "eval.py", "3", nil, new(-1)
	})
	read(4, func(s *ares.Spec) {
		s.Args, s.Environment["LONG"] = []string{strings.Repeat("x", 3*maxSharedBytes)}, strings.Repeat("y", 3*maxSharedBytes)
	})
	for i := range 3 * sharedSlots {
		read(10+i, func(s *ares.Spec) { s.Name, s.Args = fmt.Sprint("name-", i), []string{fmt.Sprint(i)} })
	}
}
