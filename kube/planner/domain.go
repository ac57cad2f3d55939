package planner

import (
	"fmt"
	"maps"
	"slices"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/annotations"
)

// levels are the levels of the topology whose domains a pod may prefer.
var levels = []ares.Level{ares.LevelRegion, ares.LevelZone, ares.LevelSpine, ares.LevelLeaf}

// countDomains adds a node to its domains, or takes it away. Pods that wait for a new domain are considered again.
func (p *Planner) countDomains(n *ares.Node, change int) {
	if n == nil {
		return
	}
	for _, level := range levels {
		name := n.Labels[string(level)]
		if name == "" {
			continue
		}
		p.domainSize[name] += change
		switch {
		case p.domainSize[name] == 0:
			delete(p.domainSize, name)
		case change > 0 && p.domainSize[name] == change:
			for _, o := range p.pods {
				if o.unit == nil && o.Spec.Placement().PreferredDomain == name {
					p.changed[o.gang] = true
				}
			}
		}
	}
}

// problem says why a pod can never be planned as it is written, "" if it can. A misspelled domain would be ignored without
// a word if its pods were placed elsewhere.
func (p *Planner) problem(o *pod) string {
	name := o.Spec.Placement().PreferredDomain
	if o.Problem != "" || name == "" || p.domainSize[name] > 0 {
		return o.Problem
	}
	known := slices.Sorted(maps.Keys(p.domainSize))
	write := "label the nodes, or remove the annotation"
	if near := ares.Nearest(name, known); near != "" {
		write = fmt.Sprintf("did you mean %q?", near)
	} else if len(known) > 0 {
		write = fmt.Sprintf("write the name of a leaf or a spine, such as %q", known[0])
	}
	return fmt.Sprintf("%s: no node is in the domain %q: %s", annotations.PreferredDomain, ares.Clip(name), write)
}
