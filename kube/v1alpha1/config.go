package v1alpha1

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
)

// APIVersion is the apiVersion of both kinds.
const APIVersion = "topology.scheduler/v1alpha1"

// Kinds lists the kinds of a configuration.
func Kinds() []string { return []string{"SchedulerConfig", "TopologySchedulerConfig"} }

// Config is the configuration of the scheduler.
type Config struct {
	Kind string
	Name string // of the metadata, "" if it has none
	// Weights compare domains. They add up to 1000.
	Weights ares.Weights
	// MaxNodesPerLeaf and MaxGPUsPerLeaf limit what one workload may use of a leaf. The value 0 means no limit.
	MaxNodesPerLeaf int
	MaxGPUsPerLeaf  int
}

// Topology returns the configuration as the engine reads it. It has no domains: those come from the labels of nodes.
func (c *Config) Topology() ares.Topology {
	return ares.Topology{Weights: c.Weights, MaxNodesPerLeaf: c.MaxNodesPerLeaf, MaxGPUsPerLeaf: c.MaxGPUsPerLeaf}
}

// FromConfigMap reads the configuration from the data of a ConfigMap. The name of the key does not matter, but there
// must be only one, so that it is certain which document applies.
func FromConfigMap(data map[string]string) (*Config, error) {
	keys := slices.Sorted(maps.Keys(data))
	switch len(keys) {
	case 0:
		return nil, ares.Errorf(ares.Invalid, "the ConfigMap has no data: write a %s below the key config.yaml", Kinds()[0])
	case 1:
		c, err := Parse(data[keys[0]])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", keys[0], err)
		}
		return c, nil
	}
	return nil, ares.Errorf(ares.Invalid, "the ConfigMap has %d keys (%s), and only one configuration can apply: leave one key",
		len(keys), ares.Clip(strings.Join(keys, ", ")))
}

// Parse reads a document of one of the kinds. The error lists every mistake with its line, its field and what to write
// instead.
func Parse(text string) (*Config, error) {
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var document, second yaml.Node
	switch err := decoder.Decode(&document); {
	case errors.Is(err, io.EOF):
		return nil, ares.Errorf(ares.Invalid, "the document is empty: write a %s", Kinds()[0])
	case err != nil:
		return nil, ares.Errorf(ares.Invalid, "this is not YAML: %s", ares.Clip(strings.TrimPrefix(err.Error(), "yaml: ")))
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, ares.Errorf(ares.Invalid, "there is more than one document, and only one configuration can apply: leave one of them")
	}
	var r reader
	c := r.config(document.Content[0])
	if err := r.problems.Err(); err != nil {
		return nil, err
	}
	return c, nil
}
