package planner

import (
	"slices"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// A PodGroup may ask that one domain holds all its pods. The engine keeps the pods of one unit in one domain. If the pods of
// a gang ask for different numbers of GPUs, they are several units: the first one chooses the domain, and the others follow
// it. The first one does not know what the others need, so the domain may be too small for them. Then the gang tries another
// domain.

// sameDomain returns requirements that only the nodes in the domain of a placed pod meet.
func (p *Planner) sameDomain(near *pod, level ares.Level) ares.NodeRequirements {
	name := near.seatNode()
	record := p.nodes[name].record
	if level == ares.LevelNode || record == nil || record.Labels[string(level)] == "" { // it is a domain of its own
		return ares.NodeRequirements{{Key: ares.KeyNodeName, Operator: ares.OperatorIn, Values: []string{name}}}
	}
	var out ares.NodeRequirements
	for _, wider := range levels[:slices.Index(levels, level)+1] { // two spines may have leaves of the same name
		if domain := record.Labels[string(wider)]; domain != "" {
			out = append(out, ares.NodeRequirement{Key: string(wider), Operator: ares.OperatorIn, Values: []string{domain}})
		}
	}
	return out
}

// retryDomains withdraws the plans of gangs whose first unit chose a domain that is too small for the others, and excludes
// the nodes of that domain for a while. A gang is judged one cycle after its first unit was placed, because only then the
// others were decided with the domain known. It reports whether plans were withdrawn.
func (p *Planner) retryDomains(now time.Time) (again bool) {
	if !p.hasParts {
		return false
	}
	p.hasParts = false
	for _, u := range p.units {
		p.hasParts = p.hasParts || len(u.parts) > 1
		if len(u.parts) < 2 || u.parts[0] != u || u.fence == 0 || slices.Contains(u.ranks, nil) || u.ranks[0].Gang.Level == "" {
			continue
		}
		waits := slices.ContainsFunc(u.parts, func(part *unit) bool { return part.fence == 0 && part.run.Nominated == nil })
		if !waits {
			u.ranks[0].gang.misfit = false
			continue
		}
		if !u.judged {
			u.judged, again = true, true
			continue
		}
		if u.partyBound() {
			continue // bound pods stay where they are
		}
		p.excludeDomain(u, now)
		u.ranks[0].gang.misfit, again = true, true
		p.startAgain(u)
	}
	return again
}

// excludeDomain excludes the nodes in the domain of a placed unit for its pods.
func (p *Planner) excludeDomain(u *unit, now time.Time) {
	first := u.ranks[0]
	domain := p.sameDomain(first, first.Gang.Level)
	for name, n := range p.nodes {
		if n.record == nil || !meets(n.record, domain) {
			continue
		}
		for _, o := range u.ranks {
			p.exclude(o, name, now)
		}
	}
}

// meets reports whether a node is in the domain that sameDomain describes.
func meets(n *ares.Node, domain ares.NodeRequirements) bool {
	for _, r := range domain {
		value := n.Labels[r.Key]
		if r.Key == ares.KeyNodeName {
			value = n.ID
		}
		if !slices.Contains(r.Values, value) {
			return false
		}
	}
	return true
}
