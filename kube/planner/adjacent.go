package planner

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// Kubernetes has no record of which leaves are adjacent. So two leaves of the same spine are adjacent if their names
// follow each other, with numbers compared as numbers: leaf-2 comes between leaf-1 and leaf-10. This is how leaves are
// numbered along a row of racks, and for eight and sixteen nodes it gives the rule that the leaves lie side by side.

// domains returns the leaves of the cluster with their adjacent leaves.
func (p *Planner) domains() []ares.Domain {
	spines := map[string]map[string]bool{}
	for _, n := range p.nodes {
		if n.record == nil {
			continue
		}
		leaf := n.record.Labels[string(ares.LevelLeaf)]
		if !ares.ValidName(leaf) {
			continue
		}
		spine := n.record.Labels[string(ares.LevelSpine)]
		if spines[spine] == nil {
			spines[spine] = map[string]bool{}
		}
		spines[spine][leaf] = true
	}
	var out []ares.Domain
	for _, spine := range slices.Sorted(maps.Keys(spines)) {
		leaves := slices.SortedFunc(maps.Keys(spines[spine]), compareNames)
		for i, leaf := range leaves {
			d := ares.Domain{Name: leaf, Level: ares.LevelLeaf}
			if i+1 < len(leaves) {
				d.Adjacent = []string{leaves[i+1]}
			}
			out = append(out, d)
		}
	}
	return out
}

// refreshTopology tells the engine when the leaves or the configuration changed.
func (p *Planner) refreshTopology() {
	if !p.leavesChanged {
		return
	}
	p.leavesChanged = false
	t := p.settings
	if !p.hasLeaves() {
		t.MaxNodesPerLeaf, t.MaxGPUsPerLeaf = 0, 0 // all nodes are one leaf for the engine, but nobody has said so
	}
	if t.Domains = p.domains(); len(t.Domains) > ares.MaxDomains || hasDuplicates(t.Domains) {
		t.Domains = nil // two spines have a leaf of the same name, so the name alone does not say which is meant
	} else {
		p.addSwitches(&t)
	}
	if p.sent != nil && slices.EqualFunc(p.sent.Domains, t.Domains, sameDomain) && slices.Equal(p.sent.Switches, t.Switches) && p.sent.Weights == t.Weights &&
		p.sent.MaxNodesPerLeaf == t.MaxNodesPerLeaf && p.sent.MaxGPUsPerLeaf == t.MaxGPUsPerLeaf {
		return
	}
	p.sent = &t
	p.events = append(p.events, ares.Event{Topology: &t})
}

// hasLeaves reports whether a node has a label that names its leaf.
func (p *Planner) hasLeaves() bool {
	for _, n := range p.nodes {
		if n.record != nil && n.record.Labels[string(ares.LevelLeaf)] != "" {
			return true
		}
	}
	return false
}

func sameDomain(a, b ares.Domain) bool {
	return a.Name == b.Name && a.Switch == b.Switch && slices.Equal(a.Adjacent, b.Adjacent)
}

func hasDuplicates(list []ares.Domain) bool {
	seen := map[string]bool{}
	for i := range list {
		if seen[list[i].Name] {
			return true
		}
		seen[list[i].Name] = true
	}
	return false
}

// compareNames orders names that end in a number by their text and then by the number.
func compareNames(a, b string) int {
	aText, aNumber := splitNumber(a)
	bText, bNumber := splitNumber(b)
	return cmp.Or(cmp.Compare(aText, bText), cmp.Compare(aNumber, bNumber), cmp.Compare(a, b))
}

func splitNumber(s string) (text string, number int) {
	text = strings.TrimRight(s, "0123456789")
	number, err := strconv.Atoi(s[len(text):])
	if err != nil {
		return s, 0 // no digits, or too many
	}
	return text, number
}
