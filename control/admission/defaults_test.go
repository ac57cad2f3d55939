package admission

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestDefaultRequests checks that a job without requests gets the default requests. Otherwise it would be neither limited nor counted, and
// any number of such jobs would run on one node. A job that requests whole GPUs is limited by their number.
func TestDefaultRequests(t *testing.T) {
	a := newAdmission(t)
	a.DefaultCPUs, a.DefaultMemoryMB = 1, 1024
	for _, c := range []struct {
		name         string
		edit         func(*ares.Spec)
		cpus, memory int
	}{
		{"nothing", func(*ares.Spec) {}, 1, 1024},
		{"an array", func(s *ares.Spec) { s.Array.Count = 60 }, 1, 1024},
		{"CPUs", func(s *ares.Spec) { s.CPUs = 3 }, 3, 1024},
		{"memory", func(s *ares.Spec) { s.MemoryMB = 2 }, 1, 2},
		{"a part of a GPU", func(s *ares.Spec) { s.GPUMilli = 1 }, 1, 1024},
		{"a GPU", func(s *ares.Spec) { s.GPUs = 1 }, 0, 0},
		{"a GPU and CPUs", func(s *ares.Spec) { s.GPUs, s.CPUs = 1, 8 }, 8, 0},
	} {
		if got := a.submit(t, spec(c.edit)); got.CPUs != c.cpus || got.MemoryMB != c.memory {
			t.Errorf("a job that requests %s has %d cores and %d MB, want %d and %d", c.name, got.CPUs, got.MemoryMB, c.cpus, c.memory)
		}
	}
	a.DefaultCPUs, a.DefaultMemoryMB = 0, 0
	if got := a.submit(t, spec(func(s *ares.Spec) { s.Name = "off" })); got.CPUs != 0 || got.MemoryMB != 0 {
		t.Errorf("without default requests, a job has %d cores and %d MB", got.CPUs, got.MemoryMB)
	}
}
