package planner

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/kube/watch"
)

// Kubernetes has no record of which leaves are adjacent. So two leaves of the same spine are adjacent if their names
// follow each other, with numbers compared as numbers: leaf-2 comes between leaf-1 and leaf-10. This is how leaves are
// numbered along a row of racks, and for eight and sixteen nodes it gives the rule that the leaves lie side by side.

// A leaf is what the nodes of a leaf say about it.
type leaf struct {
	name        string
	switchClass string // "" if a node does not say it, or if two say different ones
}

// leaves returns the leaves of the cluster by spine, each in the order of their names.
func (p *Planner) leaves() map[string][]leaf {
	found := map[string]map[string]string{} // spine → leaf → class of its switch
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		n := p.nodes[name]
		if n.record == nil {
			continue
		}
		spine, leaf, class := n.record.Labels[string(ares.LevelSpine)], n.record.Labels[string(ares.LevelLeaf)], n.record.Labels[watch.LabelSwitch]
		if !ares.ValidName(leaf) {
			continue
		}
		if found[spine] == nil {
			found[spine] = map[string]string{}
		}
		if before, seen := found[spine][leaf]; seen && before != class || !isSwitch(class) {
			class = ""
		}
		found[spine][leaf] = class
	}
	out := map[string][]leaf{}
	for spine, classes := range found {
		for _, name := range slices.SortedFunc(maps.Keys(classes), compareNames) {
			out[spine] = append(out[spine], leaf{name, classes[name]})
		}
	}
	return out
}

// isSwitch reports whether the engine knows the class of switches.
func isSwitch(class string) bool {
	return slices.ContainsFunc(ares.DefaultSwitches(), func(s ares.Switch) bool { return s.Name == class })
}

// domains returns the leaves of the cluster with their adjacent leaves and switches. It also reports whether the switch of
// any leaf is known.
func (p *Planner) domains() (out []ares.Domain, known bool) {
	all := p.leaves()
	for _, spine := range slices.Sorted(maps.Keys(all)) {
		list, uplink := all[spine], ""
		for i, l := range list {
			d := ares.Domain{Name: l.name, Level: ares.LevelLeaf, Switch: l.switchClass}
			if i+1 < len(list) {
				d.Adjacent = []string{list[i+1].name}
			}
			if ares.ValidName(spine) {
				d.Parent = spine
			}
			known = known || l.switchClass != ""
			if i == 0 || slower(l.switchClass, uplink) {
				uplink = l.switchClass
			}
			out = append(out, d)
		}
		if ares.ValidName(spine) { // between its leaves, a spine is as fast as the slowest of them
			out = append(out, ares.Domain{Name: spine, Level: ares.LevelSpine, Switch: uplink})
		}
	}
	return out, known
}

// slower reports whether the first class of switches is slower than the second. An unknown class is the slowest.
func slower(a, b string) bool { return bandwidth(a) < bandwidth(b) }

func bandwidth(class string) int {
	for _, s := range ares.DefaultSwitches() {
		if s.Name == class {
			return s.Gbps
		}
	}
	return 0
}

// refreshTopology tells the engine when the leaves or the configuration changed.
func (p *Planner) refreshTopology() {
	if !p.leavesChanged {
		return
	}
	p.leavesChanged = false
	t := p.settings
	if t.Domains, p.knowsSwitches = p.domains(); len(t.Domains) > ares.MaxDomains || hasDuplicates(t.Domains) {
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
