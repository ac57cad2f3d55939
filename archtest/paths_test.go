package archtest

import (
	"slices"
	"testing"
	"testing/fstest"
)

func TestMissingEntries(t *testing.T) {
	t.Parallel()
	tree := load(t, fstest.MapFS{
		"agent/run/seat/seat.go": {Data: []byte("package seat\n")},
		"cmd/ares/main.go":       {Data: []byte("package main\n")},
	})
	problems := missingEntries(tree)
	for name, missing := range map[string]bool{
		"agent": false, "agent/run/seat": false, "cmd/": false,
		"store": true, "store/storepb": true, "test": true, "engine/laws": true, "cmd/ares-supervisor": true, ".": true,
	} {
		if problem := "archtest/tables.go: " + name + " does not exist: remove it"; slices.Contains(problems, problem) != missing {
			t.Errorf("problem %q: got %v, want %v", problem, !missing, missing)
		}
	}
}
