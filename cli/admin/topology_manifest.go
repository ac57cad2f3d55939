package admin

import (
	"context"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/client"
)

// manifestVersion is the `apiVersion` of a configuration of the topology-aware scheduler, without its version.
const manifestVersion = "topology.scheduler/"

// schedulerManifest is a configuration of the topology-aware scheduler. It has the weights and the limits of a
// topology, but no domains and no switches.
type schedulerManifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Metadata   struct {
		Name      string `yaml:"name"`
		Namespace string `yaml:"namespace"`
	} `yaml:"metadata"`
	Spec struct {
		ScoringWeights *struct {
			ResourceAvailability  float64 `yaml:"resourceAvailability"`
			TopologyAlignment     float64 `yaml:"topologyAlignment"`
			DomainUtilization     float64 `yaml:"domainUtilization"`
			HistoricalPerformance float64 `yaml:"historicalPerformance"`
		} `yaml:"scoringWeights"`
		TopologyConstraints *struct {
			MaxNodesPerLeaf int32 `yaml:"maxNodesPerLeaf"`
			MaxGPUsPerLeaf  int32 `yaml:"maxGPUsPerLeaf"`
		} `yaml:"topologyConstraints"`
	} `yaml:"spec"`
}

// readManifest reads a configuration of the topology-aware scheduler. It returns nil for any other file.
func readManifest(data []byte) (*schedulerManifest, error) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
	}
	if yaml.Unmarshal(data, &head) != nil || !strings.HasPrefix(head.APIVersion, manifestVersion) {
		return nil, nil //nolint:nilnil // any other file, and its mistakes, belong to the caller
	}
	m := &schedulerManifest{}
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	dec.KnownFields(true) // a misspelled weight must not keep its old value unnoticed
	if err := dec.Decode(m); err != nil {
		return nil, ares.Errorf(ares.Invalid, "%s", command.YamlMistake(err))
	}
	if m.Kind != "SchedulerConfig" && m.Kind != "TopologySchedulerConfig" {
		return nil, ares.Errorf(ares.Invalid, "kind: %q is unknown: use SchedulerConfig or TopologySchedulerConfig", m.Kind)
	}
	return m, nil
}

// applyTo changes what the manifest sets. Everything else in the topology stays.
func (m *schedulerManifest) applyTo(t *apipb.Topology) {
	if w := m.Spec.ScoringWeights; w != nil {
		t.Weights = &apipb.TopologyWeights{
			ResourceAvailability: w.ResourceAvailability, TopologyAlignment: w.TopologyAlignment,
			DomainUtilization: w.DomainUtilization, HistoricalPerformance: w.HistoricalPerformance,
		}
	}
	if c := m.Spec.TopologyConstraints; c != nil {
		t.MaxNodesPerLeaf, t.MaxGpusPerLeaf = c.MaxNodesPerLeaf, c.MaxGPUsPerLeaf
	}
}

// requestedTopology reads the topology to apply. For a configuration of the topology-aware scheduler, this is the
// current topology with the weights and limits of the configuration. Its revision stays, so that a change in between
// is not overwritten.
func (a *commands) requestedTopology(ctx context.Context, c *client.Client, file string) (*apipb.Topology, error) {
	data, err := a.ReadFile(file)
	if err != nil {
		return nil, err
	}
	m, err := readManifest(data)
	if err != nil {
		return nil, command.InFile(file, err)
	}
	if m != nil {
		t, err := c.Topology(ctx)
		if err != nil {
			return nil, err
		}
		m.applyTo(t)
		return t, nil
	}
	t := &apipb.Topology{}
	return t, a.ParseMessage(file, data, t)
}
