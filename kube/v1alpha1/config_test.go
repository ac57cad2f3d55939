package v1alpha1

import (
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
)

const head = "apiVersion: topology.scheduler/v1alpha1\nkind: SchedulerConfig\n"

// full is the configuration as the documents of the scheduler show it.
const full = head + `metadata:
  name: topology-scheduler-config
spec:
  scoringWeights:
    resourceAvailability: 0.4
    topologyAlignment: 0.3
    domainUtilization: 0.2
    historicalPerformance: 0.1
  topologyConstraints:
    maxNodesPerLeaf: 4
    maxGPUsPerLeaf: 32
`

func TestParse(t *testing.T) {
	for _, kind := range Kinds() {
		c, err := Parse(strings.Replace(full, "SchedulerConfig", kind, 1))
		if err != nil {
			t.Fatal(err)
		}
		want := Config{Kind: kind, Name: "topology-scheduler-config", Weights: ares.Weights{Availability: 400, Alignment: 300, Utilization: 200, History: 100}, MaxNodesPerLeaf: 4, MaxGPUsPerLeaf: 32}
		if *c != want {
			t.Errorf("%s: got %+v, want %+v", kind, *c, want)
		}
		topology := c.Topology()
		if topology.Weights != want.Weights || topology.MaxNodesPerLeaf != 4 || topology.MaxGPUsPerLeaf != 32 {
			t.Errorf("%s: topology %+v", kind, topology)
		}
	}
}

func TestParseDefaults(t *testing.T) {
	for _, text := range []string{
		head + "spec: {}\n",
		head + "spec:\n  topologyConstraints: {}\n",
		head + "metadata: {name: a, namespace: kube-system, labels: {x: y}, annotations: {x: y}}\nspec: {topologyConstraints: {maxNodesPerLeaf: 0}}\n",
	} {
		c, err := Parse(text)
		if err != nil || c.Weights != ares.DefaultWeights() || c.MaxNodesPerLeaf != 0 || c.MaxGPUsPerLeaf != 0 {
			t.Errorf("%s: got %+v, %v", text, c, err)
		}
	}
}

func TestWeightsAreReadExactly(t *testing.T) {
	c, err := Parse(head + "spec: {scoringWeights: {resourceAvailability: 0.57, topologyAlignment: .29, historicalPerformance: 0.140}}")
	if err != nil || c.Weights != (ares.Weights{Availability: 570, Alignment: 290, History: 140}) {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err = Parse(head + "spec: {scoringWeights: {topologyAlignment: 1}}"); err != nil || c.Weights != (ares.Weights{Alignment: 1000}) {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestParseRejects(t *testing.T) {
	weights := func(text string) string { return head + "spec:\n  scoringWeights: {" + text + "}\n" }
	limits := func(text string) string { return head + "spec:\n  topologyConstraints: {" + text + "}\n" }
	for _, c := range []struct{ text, want string }{
		{"", "the document is empty: write a SchedulerConfig"},
		{"# only a comment\n", "the document is empty"},
		{"a: [", "this is not YAML: "},
		{"- 1\n", "line 1: must be an object with the keys apiVersion, kind, metadata, spec"},
		{"a: 1\n", "apiVersion: is missing: write topology.scheduler/v1alpha1; kind: is missing: write SchedulerConfig or TopologySchedulerConfig; spec: is missing"},
		{full + "---\n" + full, "there is more than one document, and only one configuration can apply: leave one of them"},
		{full + "---\n[", "there is more than one document"},
		{strings.Replace(full, "v1alpha1", "v1", 1), `line 1: apiVersion: "topology.scheduler/v1" is unknown: write topology.scheduler/v1alpha1`},
		{strings.Replace(full, "SchedulerConfig", "Scheduler", 1), `line 2: kind: "Scheduler" is unknown: write SchedulerConfig or TopologySchedulerConfig`},
		{strings.Replace(full, "SchedulerConfig", "7", 1), `line 2: kind: must be a string`},
		{head + "spec:\n", "line 3: spec: must be an object with the keys scoringWeights, topologyConstraints"},
		{head + "spec: {}\nstatus: {}\n", "line 4: status: there is no such key: write one of apiVersion, kind, metadata, spec"},
		{head + "spec: {scoringWeight: {}}\n", "line 3: spec.scoringWeight: there is no such key: did you mean scoringWeights?"},
		{weights("topologyAlignmnet: 1"), "line 4: spec.scoringWeights.topologyAlignmnet: there is no such key: did you mean topologyAlignment?"},
		{weights("topologyAlignment: 0.5, domainUtilization: 0.4"), "line 4: spec.scoringWeights: the weights add up to 0.9: change them so that they add up to 1"},
		{weights(""), "the weights add up to 0:"},
		{weights("topologyAlignment: 1.1, domainUtilization: -0.1"), `spec.scoringWeights.topologyAlignment: "1.1" is not a weight: write a number from 0 to 1, such as 0.25; line 4: spec.scoringWeights.domainUtilization: "-0.1" is not a weight`},
		{weights(`topologyAlignment: "1"`), `"1" is not a weight`},
		{weights(`topologyAlignment: [1]`), `"" is not a weight`},
		{weights(`topologyAlignment: .inf`), `".inf" is not a weight`},
		{weights(`topologyAlignment: .nan`), `".nan" is not a weight`},
		{weights(`topologyAlignment: 1e0`), `"1e0" is not a weight`},
		{weights(`topologyAlignment: 0.3333, domainUtilization: 0.6667`), `topologyAlignment: "0.3333" has more than three decimals: write 0.333`},
		{weights("topologyAlignment: 1, topologyAlignment: 1"), "spec.scoringWeights.topologyAlignment: is given twice: remove one of them"},
		{limits("maxNodesPerLeaf: -1"), `line 4: spec.topologyConstraints.maxNodesPerLeaf: "-1" is not a limit: write a whole number from 1 to 1000000, or 0 for no limit`},
		{limits("maxGPUsPerLeaf: -32"), `spec.topologyConstraints.maxGPUsPerLeaf: "-32" is not a limit`},
		{limits("maxGPUsPerLeaf: 1.5"), `"1.5" is not a limit`},
		{limits("maxGPUsPerLeaf: many"), `"many" is not a limit`},
		{limits("maxGPUsPerLeaf: 99999999999999999999"), `is not a limit`},
		{limits("maxGpusPerLeaf: 32"), "spec.topologyConstraints.maxGpusPerLeaf: there is no such key: did you mean maxGPUsPerLeaf?"},
	} {
		got, err := Parse(c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\ngot  %v\nwant %s", c.text, err, c.want)
			continue
		}
		if got != nil || ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%s\ngot a configuration %+v, or the code %s", c.text, got, ares.CodeOf(err))
		}
	}
}

func TestFromConfigMap(t *testing.T) {
	if c, err := FromConfigMap(map[string]string{"any-name": full}); err != nil || c.MaxNodesPerLeaf != 4 {
		t.Errorf("got %+v, %v", c, err)
	}
	for _, c := range []struct {
		data map[string]string
		want string
	}{
		{nil, "the ConfigMap has no data: write a SchedulerConfig below the key config.yaml"},
		{map[string]string{"a.yaml": full, "b.yaml": full}, "the ConfigMap has 2 keys (a.yaml, b.yaml), and only one configuration can apply: leave one key"},
		{map[string]string{"config.yaml": head}, "config.yaml: spec: is missing"},
	} {
		if _, err := FromConfigMap(c.data); err == nil || !strings.Contains(err.Error(), c.want) || ares.CodeOf(err) != ares.Invalid {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(full)
	f.Add(full + "---\n" + full)
	f.Add(head + "spec: &a {scoringWeights: *a}")
	f.Add(head + "spec: {scoringWeights: {topologyAlignment: 0.3333}}")
	f.Add("? [a]\n: b")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(text)
		if (c == nil) == (err == nil) {
			t.Fatalf("got %+v and %v", c, err)
		}
		if err != nil {
			return
		}
		// The engine accepts every configuration that Parse accepts.
		if bad := c.Topology().Check(); bad != nil {
			t.Fatalf("Parse accepts %q, but the engine does not: %v", text, bad)
		}
	})
}
