package sim

import (
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// TestFleetFileMistakes reads fleet files with mistakes and checks the texts of the errors. The texts must not
// contain names of Go code.
func TestFleetFileMistakes(t *testing.T) {
	t.Parallel()
	const one = "machines: [{name: a, gpus: 1, model: H100}]\n"
	for text, why := range map[string]string{
		"machines: [{name: a, count: 0}]":                                                 "machines[0].count: is 0",
		"machines: [{name: a, count: 3}, {name: a-00002}]":                                "is also one of the 3",
		"machines: [{name: a, links: NVLINK}]":                                            "use NV1 to NV99, PIX",
		"machines: [{name: a, cpus: 9999999999999}]":                                      "machines[0].cpus: at most",
		"machines: [{name: a, cpus: many}]":                                               "line 1: many is not a whole number",
		"machines: [{name: a, cpus: [1]}]":                                                "a list is not a whole number",
		"machines: {name: a}":                                                             "keys with values is not a list",
		"machines: [a]":                                                                   "a is not keys with values",
		one + "tenants: [{name: t}, {name: t}]":                                           `tenants[1].name: "t" is given twice`,
		one + "tenants: [{name: t, weight: 0}]":                                           "tenants[0].weight: is 0",
		one + "tenants: [{name: t, queues: [{name: q, weight: 0}]}]":                      "tenants[0].queues[0].weight: is 0",
		one + "tenants: [{name: t, queues: [{name: q}, {name: q}]}]":                      `tenants[0].queues[1].name: "q" is given twice`,
		one + "tenants: [{name: t, quotas: [{model: t4, gpus: 1}]}]":                      `no machine has "t4": there are H100`,
		one + "tenants: [{name: t, queues: [{name: q, quotas: [{model: t4, gpus: 1}]}]}]": "tenants[0].queues[0].quotas[0].model",
		one + "---\nmachines: []\n":                                                       "a second YAML document",
		one + "speed: 1\n":                                                                "line 2: unknown key speed",
		"":                                                                                "there are none",
	} {
		f, err := ReadFleet(strings.NewReader(text))
		if err == nil {
			err = f.Resolve(nil)
		}
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "sim.") || strings.Contains(err.Error(), "yaml") {
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
	f, err := ReadFleet(strings.NewReader("---\n" + one + "tenants: [{name: t, weight: 1, quotas: [{gpus: 1}, {model: h1, gpus: 1}], queues: [{name: t}]}, {name: u, queues: [{name: t}]}]\n"))
	if err == nil {
		err = f.Resolve(func(string) (*ares.Node, error) { return nil, nil })
	}
	if err != nil {
		t.Error(err)
	}
}

func TestPolicyFileHasOneDocument(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"name: a\n---\nname: b\n": "a second YAML document",
		"thermal_margin: soon\n":  "line 1: soon is not a whole number",
		"mood: good\n":            "line 1: unknown key mood",
	} {
		if _, err := ReadPolicy(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
}
