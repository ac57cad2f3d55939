package annotations

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
)

// Prefix is the beginning of every annotation that this package reads. No other annotation may begin with it, so that a
// misspelled one is noticed.
const Prefix = "topology.scheduler/"

// The annotations.
const (
	GPUCount         = Prefix + "gpu-count"
	PreferredDomain  = Prefix + "preferred-domain"
	NetworkBandwidth = Prefix + "network-bandwidth"
	LatencySensitive = Prefix + "latency-sensitive"
	Strategy         = Prefix + "placement-strategy"
)

// Keys lists the annotations.
func Keys() []string {
	return []string{GPUCount, PreferredDomain, NetworkBandwidth, LatencySensitive, Strategy}
}

// Strategies lists the values of the annotation Strategy.
func Strategies() []string { return []string{"consolidated", "distributed", DefaultStrategy} }

// DefaultStrategy applies to a workload that names no strategy.
const DefaultStrategy = "balanced"

// Request is what the annotations of a pod ask for.
type Request struct {
	GPUs             int // of the workload or of one pod (see GPUs), or 0 if no annotation says it
	PreferredDomain  string
	NetworkBandwidth string // as ares.ParseBandwidth reads it
	LatencySensitive bool
	Strategy         string // never empty
}

// Placement returns the request as the engine reads it.
func (r Request) Placement() ares.Placement {
	return ares.Placement{
		Strategy:         r.Strategy,
		PreferredDomain:  r.PreferredDomain,
		NetworkBandwidth: r.NetworkBandwidth,
		LatencySensitive: r.LatencySensitive,
	}
}

// Parse reads the annotations of a pod and of the workload that owns it. The pod's annotation wins over the owner's
// annotation with the same key. Annotations without the prefix are ignored. The error lists every mistake together with
// what to write instead. With an error, the request contains what could be read.
func Parse(pod, owner map[string]string) (Request, error) {
	r := Request{Strategy: DefaultStrategy}
	var p ares.Problems
	given := map[string]string{}
	for _, from := range []map[string]string{owner, pod} {
		for key, value := range from {
			if strings.HasPrefix(key, Prefix) {
				given[key] = value
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		r.read(&p, key, given[key])
	}
	return r, p.Err()
}

// The method `read` reads one annotation with the prefix.
func (r *Request) read(p *ares.Problems, key, value string) {
	quoted := ares.Clip(value)
	switch key {
	case GPUCount:
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > ares.MaxJobGPUs || strconv.Itoa(n) != value {
			p.Add(key, "%q is not a number of GPUs: write a whole number from 1 to %d, such as \"8\"", quoted, ares.MaxJobGPUs)
			return
		}
		r.GPUs = n
	case PreferredDomain:
		if !ares.ValidName(value) {
			p.Add(key, "%q is not the name of a domain: write the name of a leaf or a spine, such as \"leaf-1\" (at most 63 letters, digits, '.', '-' and '_', first a letter or digit)", quoted)
			return
		}
		r.PreferredDomain = value
	case NetworkBandwidth:
		if _, err := ares.ParseBandwidth(value); err != nil {
			p.Add(key, "%q is not a bandwidth: write a whole number of gigabits per second with the unit Gb, such as %q", quoted, exampleBandwidth(value))
			return
		}
		r.NetworkBandwidth = value
	case LatencySensitive:
		if value != "true" && value != "false" {
			p.Add(key, "%q is neither true nor false: write \"true\" or \"false\"", quoted)
			return
		}
		r.LatencySensitive = value == "true"
	case Strategy:
		if !slices.Contains(Strategies(), value) {
			p.Add(key, "%q is not a strategy: write %s", quoted, suggest(value, Strategies()))
			return
		}
		r.Strategy = value
	default:
		name := strings.TrimPrefix(key, Prefix)
		known := make([]string, 0, len(Keys()))
		for _, k := range Keys() {
			known = append(known, strings.TrimPrefix(k, Prefix))
		}
		if near := ares.Nearest(name, known); near != "" {
			p.Add(ares.Clip(key), "there is no such annotation: did you mean %s%s?", Prefix, near)
			return
		}
		p.Add(ares.Clip(key), "there is no such annotation: write one of %s, or remove it", strings.Join(Keys(), ", "))
	}
}

// The function `suggest` names the similar word, or all of them if none is similar.
func suggest(word string, words []string) string {
	if near := ares.Nearest(word, words); near != "" {
		return strconv.Quote(near)
	}
	return strings.Join(words, ", ")
}

// exampleBandwidth returns a correct bandwidth. A number without a unit gets its unit.
func exampleBandwidth(value string) string {
	if _, err := ares.ParseBandwidth(value + "Gb"); err == nil {
		return value + "Gb"
	}
	return "100Gb"
}
