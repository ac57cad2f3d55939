package annotations

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
)

func TestParseReadsEveryAnnotation(t *testing.T) {
	got, err := Parse(map[string]string{
		GPUCount: "16", PreferredDomain: "spine-1", NetworkBandwidth: "200Gb", LatencySensitive: "true",
		Strategy: "consolidated", "example.com/other": "stays unread",
	}, nil)
	want := Request{GPUs: 16, PreferredDomain: "spine-1", NetworkBandwidth: "200Gb", LatencySensitive: true, Strategy: "consolidated"}
	if err != nil || got != want {
		t.Fatalf("Parse = %+v, %v, want %+v", got, err, want)
	}
	pl := got.Placement()
	if pl.Strategy != "consolidated" || pl.PreferredDomain != "spine-1" || pl.NetworkBandwidth != "200Gb" || !pl.LatencySensitive {
		t.Errorf("Placement = %+v", pl)
	}
	if err := (ares.Spec{Command: []string{"true"}, Constraints: &pl}).Check(); err != nil {
		t.Errorf("the engine's own check rejects the placement: %v", err)
	}
}

func TestParseDefaults(t *testing.T) {
	got, err := Parse(nil, nil)
	if err != nil || got != (Request{Strategy: "balanced"}) {
		t.Fatalf("Parse(nil, nil) = %+v, %v", got, err)
	}
}

func TestPodWinsOverOwnerKeyByKey(t *testing.T) {
	pod := map[string]string{GPUCount: "2", LatencySensitive: "false"}
	owner := map[string]string{GPUCount: "not read", LatencySensitive: "true", PreferredDomain: "leaf-1"}
	got, err := Parse(pod, owner)
	want := Request{GPUs: 2, PreferredDomain: "leaf-1", Strategy: "balanced"}
	if err != nil || got != want {
		t.Fatalf("Parse = %+v, %v, want %+v", got, err, want)
	}
}

func TestParseRejects(t *testing.T) {
	for _, c := range []struct{ key, value, want string }{
		{GPUCount, "0", `topology.scheduler/gpu-count: "0" is not a number of GPUs: write a whole number from 1 to 16384, such as "8"`},
		{GPUCount, "abc", `"abc" is not a number of GPUs`},
		{GPUCount, "", `"" is not a number of GPUs`},
		{GPUCount, "-1", `"-1" is not a number of GPUs`},
		{GPUCount, "+8", `"+8" is not a number of GPUs`},
		{GPUCount, "08", `"08" is not a number of GPUs`},
		{GPUCount, "1.5", `"1.5" is not a number of GPUs`},
		{GPUCount, "16385", `from 1 to 16384`},
		{GPUCount, "99999999999999999999", `is not a number of GPUs`},
		{PreferredDomain, "", `"" is not the name of a domain: write the name of a leaf or a spine, such as "leaf-1"`},
		{PreferredDomain, "leaf 1", `"leaf 1" is not the name of a domain`},
		{PreferredDomain, strings.Repeat("l", 64), `is not the name of a domain`},
		{NetworkBandwidth, "100", `topology.scheduler/network-bandwidth: "100" is not a bandwidth: write a whole number of gigabits per second with the unit Gb, such as "100Gb"`},
		{NetworkBandwidth, "25", `such as "25Gb"`},
		{NetworkBandwidth, "fast", `such as "100Gb"`},
		{NetworkBandwidth, "0Gb", `"0Gb" is not a bandwidth`},
		{NetworkBandwidth, "", `"" is not a bandwidth`},
		{LatencySensitive, "yes", `topology.scheduler/latency-sensitive: "yes" is neither true nor false: write "true" or "false"`},
		{LatencySensitive, "True", `"True" is neither true nor false`},
		{Strategy, "consolidate", `topology.scheduler/placement-strategy: "consolidate" is not a strategy: write "consolidated"`},
		{Strategy, "", `"" is not a strategy: write consolidated, distributed, balanced`},
		{Prefix + "gpu-cuont", "8", `topology.scheduler/gpu-cuont: there is no such annotation: did you mean topology.scheduler/gpu-count?`},
		{Prefix + "strategy", "balanced", `there is no such annotation: write one of topology.scheduler/gpu-count, `},
		{Prefix, "8", `there is no such annotation`},
	} {
		for _, from := range []string{"pod", "owner"} {
			pod, owner := map[string]string{c.key: c.value}, map[string]string{}
			if from == "owner" {
				pod, owner = owner, pod
			}
			_, err := Parse(pod, owner)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of the %s = %q: got %v, want %s", c.key, from, c.value, err, c.want)
			}
			if ares.CodeOf(err) != ares.Invalid {
				t.Errorf("%s = %q: code %s, want invalid", c.key, c.value, ares.CodeOf(err))
			}
		}
	}
}

func TestParseReportsAllMistakes(t *testing.T) {
	bad := map[string]string{GPUCount: "none", NetworkBandwidth: "100", Prefix + "x": "1"}
	_, err := Parse(bad, map[string]string{Strategy: "spread", PreferredDomain: "leaf-1"})
	invalid, ok := errors.AsType[*ares.InvalidRequest](err)
	if !ok {
		t.Fatalf("got %v, want an InvalidRequest", err)
	}
	var fields []string
	for _, p := range invalid.Problems {
		fields = append(fields, p.Field)
	}
	if want := []string{GPUCount, NetworkBandwidth, Strategy, Prefix + "x"}; !slices.Equal(fields, want) {
		t.Errorf("problems of %q, want %q", fields, want)
	}
}

func TestParseQuotesLittle(t *testing.T) {
	long := strings.Repeat("9", 100_000)
	for _, key := range append(Keys(), Prefix+long) {
		if _, err := Parse(map[string]string{key: long}, nil); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.40s: the error is missing, or quotes the whole value", key)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, key := range append(Keys(), Prefix+"other", "other") {
		f.Add(key, "8", "true")
	}
	f.Add(NetworkBandwidth, "100Gbps", "consolidated")
	f.Fuzz(func(t *testing.T, key, value, strategy string) {
		pod, owner := map[string]string{key: value}, map[string]string{Strategy: strategy}
		before := maps.Clone(pod)
		r, err := Parse(pod, owner)
		if !maps.Equal(pod, before) {
			t.Fatal("Parse changed its argument")
		}
		if err != nil {
			return
		}
		// The engine accepts every request that Parse accepts.
		if bad := (ares.Spec{Command: []string{"true"}, Constraints: new(r.Placement())}).Check(); bad != nil {
			t.Fatalf("Parse accepts %q=%q, but the engine does not: %v", key, value, bad)
		}
		if r.GPUs < 0 || r.Strategy == "" {
			t.Fatalf("Parse = %+v", r)
		}
	})
}
