package ares_test

import (
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// A job allows its preemption inside its class if it saves checkpoints or says so, unless it must not be stopped.
func TestIsPreemptible(t *testing.T) {
	for _, c := range []struct {
		name string
		spec ares.Spec
		want bool
	}{
		{"nothing said", ares.Spec{}, false},
		{"checkpoints", ares.Spec{Checkpoint: ares.Checkpoint{Enabled: true}}, true},
		{"says yes", ares.Spec{Preemptible: new(true)}, true},
		{"checkpoints, says no", ares.Spec{Checkpoint: ares.Checkpoint{Enabled: true}, Preemptible: new(false)}, false},
		{"at most once", ares.Spec{Checkpoint: ares.Checkpoint{Enabled: true}, Mode: ares.AtMostOnce}, false},
		{"latency-sensitive", ares.Spec{Checkpoint: ares.Checkpoint{Enabled: true}, Constraints: &ares.Placement{LatencySensitive: true}}, false},
	} {
		if got := c.spec.WithDefaults().IsPreemptible(); got != c.want {
			t.Errorf("%s: preemptible %t, want %t", c.name, got, c.want)
		}
	}
}

// A job that must not be stopped cannot be preemptible, and the error says what to do.
func TestPreemptibleContradicts(t *testing.T) {
	good := ares.Spec{Name: "a", Command: []string{"true"}, Preemptible: new(true)}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*ares.Spec){
		"at_most_once":      func(s *ares.Spec) { s.Mode = ares.AtMostOnce },
		"latency-sensitive": func(s *ares.Spec) { s.EditPlacement().LatencySensitive = true },
	} {
		s := good
		if change(&s); s.Check() == nil {
			t.Errorf("%s: a preemptible job was accepted", name)
		}
		if s.Preemptible = new(false); s.Check() != nil {
			t.Errorf("%s: %v", name, s.Check())
		}
	}
}

// The field is part of a request's identity: a repeated request with another value is another request.
func TestPreemptibleInDigest(t *testing.T) {
	var none, yes, no ares.Spec
	yes.Preemptible, no.Preemptible = new(true), new(false)
	if ares.DigestOf(none) == ares.DigestOf(yes) || ares.DigestOf(yes) == ares.DigestOf(no) || ares.DigestOf(none) == ares.DigestOf(no) {
		t.Error("specs that differ in preemptible have the same digest")
	}
}
