package v1alpha1

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ares-scheduler/ares"
)

// The type `reader` walks through a document and collects all mistakes. Walking through the nodes tells the line and
// the whole path of every mistake.
type reader struct{ problems ares.Problems }

// The type `fields` maps each key of an object to the function that reads its value.
type fields map[string]func(at string, n *yaml.Node)

// The method `add` adds a mistake in the value of a node.
func (r *reader) add(at string, n *yaml.Node, format string, args ...any) {
	field := fmt.Sprintf("line %d", n.Line)
	if at != "" {
		field += ": " + at
	}
	r.problems.Add(field, format, args...)
}

func (r *reader) config(root *yaml.Node) *Config {
	c := &Config{Weights: ares.DefaultWeights()}
	seen := r.object("", root, fields{
		"apiVersion": func(at string, n *yaml.Node) {
			if v, ok := r.text(at, n); ok && v != APIVersion {
				r.add(at, n, "%q is unknown: write %s", ares.Clip(v), APIVersion)
			}
		},
		"kind": func(at string, n *yaml.Node) {
			v, ok := r.text(at, n)
			if ok && !slices.Contains(Kinds(), v) {
				r.add(at, n, "%q is unknown: write %s", ares.Clip(v), strings.Join(Kinds(), " or "))
			}
			c.Kind = v
		},
		"metadata": func(at string, n *yaml.Node) { r.metadata(at, n, c) },
		"spec":     func(at string, n *yaml.Node) { r.spec(at, n, c) },
	})
	for _, missing := range []struct{ key, write string }{
		{"apiVersion", APIVersion}, {"kind", strings.Join(Kinds(), " or ")}, {"spec", "scoringWeights, topologyConstraints or both below it"},
	} {
		if seen != nil && !seen[missing.key] {
			r.problems.Add(missing.key, "is missing: write %s", missing.write)
		}
	}
	return c
}

// The method `metadata` accepts what objects of Kubernetes commonly have. Only the name is kept.
func (r *reader) metadata(at string, n *yaml.Node, c *Config) {
	ignore := func(string, *yaml.Node) {}
	r.object(at, n, fields{
		"name":      func(at string, n *yaml.Node) { c.Name, _ = r.text(at, n) },
		"namespace": func(at string, n *yaml.Node) { _, _ = r.text(at, n) },
		"labels":    ignore, "annotations": ignore,
	})
}

func (r *reader) spec(at string, n *yaml.Node, c *Config) {
	r.object(at, n, fields{
		"scoringWeights": func(at string, n *yaml.Node) { r.weights(at, n, c) },
		"topologyConstraints": func(at string, n *yaml.Node) {
			r.object(at, n, fields{
				"maxNodesPerLeaf": func(at string, n *yaml.Node) { c.MaxNodesPerLeaf = r.limit(at, n) },
				"maxGPUsPerLeaf":  func(at string, n *yaml.Node) { c.MaxGPUsPerLeaf = r.limit(at, n) },
			})
		},
	})
}

// The method `weights` reads the weights of a domain's score. A weight that is left out is 0.
func (r *reader) weights(at string, n *yaml.Node, c *Config) {
	w := &c.Weights
	*w = ares.Weights{}
	before := len(r.problems)
	r.object(at, n, fields{
		"resourceAvailability":  func(at string, n *yaml.Node) { w.Availability = r.thousandths(at, n) },
		"topologyAlignment":     func(at string, n *yaml.Node) { w.Alignment = r.thousandths(at, n) },
		"domainUtilization":     func(at string, n *yaml.Node) { w.Utilization = r.thousandths(at, n) },
		"historicalPerformance": func(at string, n *yaml.Node) { w.History = r.thousandths(at, n) },
	})
	sum := w.Availability + w.Alignment + w.Utilization + w.History
	if len(r.problems) == before && sum != 1000 {
		r.add(at, n, "the weights add up to %s: change them so that they add up to 1, or leave scoringWeights out for 0.4, 0.3, 0.2 and 0.1",
			strconv.FormatFloat(float64(sum)/1000, 'f', -1, 64))
	}
}

// The method `object` reads a mapping. It reports unknown and repeated keys, and returns the keys that are there. If the
// node is not a mapping, it returns nil.
func (r *reader) object(at string, n *yaml.Node, known fields) map[string]bool {
	names := slices.Sorted(maps.Keys(known))
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		r.add(at, n, "must be an object with the keys %s", strings.Join(names, ", "))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		path := strings.TrimPrefix(at+"."+ares.Clip(key.Value), ".")
		read, ok := known[key.Value]
		switch {
		case !ok:
			if near := similar(key.Value, names); near != "" {
				r.add(path, key, "there is no such key: did you mean %s?", near)
			} else {
				r.add(path, key, "there is no such key: write one of %s", strings.Join(names, ", "))
			}
		case seen[key.Value]:
			r.add(path, key, "is given twice: remove one of them")
		default:
			seen[key.Value] = true
			read(path, n.Content[i+1])
		}
	}
	return seen
}

// The function `similar` returns the key that is most similar to a word, in whatever case the word is written. It
// returns "" if none is similar.
func similar(word string, keys []string) string {
	lower := make([]string, len(keys))
	for i, key := range keys {
		lower[i] = strings.ToLower(key)
	}
	if i := slices.Index(lower, ares.Nearest(word, lower)); i >= 0 {
		return keys[i]
	}
	return ""
}

// The method `text` reads a string.
func (r *reader) text(at string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		r.add(at, n, "must be a string")
		return "", false
	}
	return n.Value, true
}

// maxLimit is the highest limit of nodes or GPUs of a leaf. It is far above the size of a leaf.
const maxLimit = 1_000_000

// The method `limit` reads a limit of nodes or GPUs.
func (r *reader) limit(at string, n *yaml.Node) int {
	v, err := strconv.Atoi(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil || v < 0 || v > maxLimit {
		r.add(at, n, "%q is not a limit: write a whole number from 1 to %d, or 0 for no limit", ares.Clip(n.Value), maxLimit)
		return 0
	}
	return v
}

// The method `thousandths` reads a weight from 0 to 1 with at most three decimals. The digits are read as they are
// written, so 0.1 is exactly 100.
func (r *reader) thousandths(at string, n *yaml.Node) int {
	whole, decimals, _ := strings.Cut(n.Value, ".")
	decimals = strings.TrimRight(decimals, "0")
	tooFine := len(decimals) > 3
	isNumber := n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!float" || n.ShortTag() == "!!int")
	v, err := strconv.ParseUint(whole+(decimals + "000")[:3], 10, 32)
	switch {
	case !isNumber, err != nil, v > 1000, strings.Trim(decimals, "0123456789") != "":
		r.add(at, n, "%q is not a weight: write a number from 0 to 1, such as 0.25", ares.Clip(n.Value))
		return 0
	case tooFine:
		r.add(at, n, "%q has more than three decimals: write %s.%s", ares.Clip(n.Value), whole, decimals[:3])
		return 0
	}
	return int(v)
}
