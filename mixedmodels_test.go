package ares

import "testing"

// TestMixedModelsByVersion checks which jobs may have devices of different models. A gang that an earlier version of
// Ares accepted keeps the default of that version.
func TestMixedModelsByVersion(t *testing.T) {
	gang := Spec{Members: 2, GPUs: 8}
	named, single, allowed := gang, Spec{GPUs: 8}, gang
	named.GPUModel, allowed.AllowMixedModels = "h100", true
	for _, c := range []struct {
		name     string
		spec     Spec
		version  int
		oneModel bool
	}{
		{"a gang", gang, DefaultsVersion, true},
		{"a gang of version 2", gang, 2, false},
		{"a gang of version 1", gang, 1, false},
		{"a gang that names a model", named, DefaultsVersion, false},
		{"a gang that allows several models", allowed, DefaultsVersion, false},
		{"a job of version 2 with one member", single, 2, true}, // without effect on a single member
	} {
		if got := c.spec.WithDefaultsOf(c.version).NeedsOneModel(); got != c.oneModel {
			t.Errorf("%s: one model is %t, want %t", c.name, got, c.oneModel)
		}
	}
}
