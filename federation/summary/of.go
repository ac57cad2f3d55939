package summary

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// Terms are what an administrator says about the cluster's prices. A model is found by a part of its name, ignoring
// case; the longest name that matches counts.
type Terms struct {
	PriceMicros  map[string]int64 // for an hour of one device, by model; "" for the others
	RuntimeMilli map[string]int   // by model; 1000 if nothing matches
	EgressMicros int64
}

// WithTerms returns a copy of a summary with other prices. A model that the terms do not name keeps its price.
func (s *Summary) WithTerms(terms *Terms) *Summary {
	out := *s
	out.Models = slices.Clone(s.Models)
	for i := range out.Models {
		m := &out.Models[i]
		m.PriceMicros = longest(terms.PriceMicros, m.Name, m.PriceMicros)
	}
	return &out
}

// recently is the time over which delays and failures are measured.
const recently = time.Hour

// Of returns the summary of a state. Like all questions to a state, it needs exclusive access to the state.
func Of(s *engine.State, terms *Terms, now time.Time) *Summary {
	out := &Summary{At: now, Revision: s.Revision(), EgressMicros: terms.EgressMicros}
	out.addNodes(s, terms)
	out.addJobs(s, now)
	return out
}

// leafKey identifies the devices of one model in one leaf.
type leafKey struct{ model, leaf string }

// addNodes adds shapes, models and labels. Only nodes that accept jobs now have free capacity.
func (out *Summary) addNodes(s *engine.State, terms *Terms) {
	up := map[string]bool{}
	for v := range s.Nodes() {
		up[v.Node.ID] = v.Session != nil && v.Cordon == nil && v.Node.Unfit == ""
	}
	nodes, models := map[node]int{}, map[string]*Model{}
	free, all := map[leafKey]int{}, map[leafKey]int{}
	labels := map[Label]int{}
	for f := range s.FreeCapacities() {
		n := f.Node
		at := node{Type: typeOf(n)}
		if up[n.ID] {
			at.Free = Free{Devices: f.Whole, CPUs: max(f.CPUs, 0), MemoryMB: max(f.MemoryMB, 0)}
			for _, part := range f.Parts {
				at.PartMilli = max(at.PartMilli, int(part))
			}
		}
		nodes[at]++
		out.addLabels(n, labels)
		for i := range n.Devices {
			out.Celsius = max(out.Celsius, n.Devices[i].Celsius)
		}
		if at.Model == "" {
			continue
		}
		m := models[at.Model]
		if m == nil {
			m = &Model{Name: at.Model, PriceMicros: longest(terms.PriceMicros, at.Model, 0), RuntimeMilli: longest(terms.RuntimeMilli, at.Model, 1000)}
			models[at.Model] = m
		}
		key := leafKey{at.Model, n.Labels["leaf"]}
		free[key] += at.Free.Devices
		all[key] += at.Type.Devices
		m.Devices += at.Type.Devices
		m.Free += at.Free.Devices
		m.FreeInLeaf, m.InLeaf = max(m.FreeInLeaf, free[key]), max(m.InLeaf, all[key])
	}
	out.Shapes = compact(nodes)
	for _, name := range slices.Sorted(maps.Keys(models)) {
		out.Models = append(out.Models, *models[name])
	}
	slices.SortStableFunc(out.Models, func(a, b Model) int { return cmp.Compare(b.Devices, a.Devices) })
	out.Models = out.Models[:min(len(out.Models), MaxModels)]
	slices.SortFunc(out.Models, func(a, b Model) int { return cmp.Compare(a.Name, b.Name) })
	for l, count := range labels {
		l.Nodes = count
		out.Labels = append(out.Labels, l)
	}
	slices.SortFunc(out.Labels, func(a, b Label) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value))
	})
	if len(out.Labels) > MaxLabels {
		out.Labels, out.MoreLabels = out.Labels[:MaxLabels], true
	}
	slices.SortFunc(out.Labels, func(a, b Label) int { return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value)) })
}

// maxLabelText is the maximum length of a label in a summary. Few selectors use longer labels.
const maxLabelText = 48

// addLabels counts the labels of a node. A label with another value on each node, such as a host name, would fill the
// summary, so the labels of most nodes come first in it.
func (out *Summary) addLabels(n *ares.Node, labels map[Label]int) {
	for k, v := range n.Labels {
		if len(k)+len(v) > maxLabelText {
			out.MoreLabels = true
			continue
		}
		labels[Label{Key: k, Value: v}]++
	}
}

// typeOf returns what a node has. Devices of other models than the first do not count: such nodes are rare, and a
// summary must not promise devices of the wrong model.
func typeOf(n *ares.Node) Type {
	t := Type{CPUs: n.CPUs, MemoryMB: n.MemoryMB}
	for i := range n.Devices {
		d := &n.Devices[i]
		if d.Parent != "" {
			continue
		}
		if t.Devices == 0 {
			t.Model, t.DeviceMemoryMB = d.Model, d.MemoryMB
		}
		if d.Model == t.Model {
			t.Devices++
			t.DeviceMemoryMB = min(t.DeviceMemoryMB, d.MemoryMB)
		}
	}
	t.Link = slowestLink(n)
	return t
}

// linkClasses lists the classes of links, the slowest first.
var linkClasses = []string{"SYS", "NODE", "PHB", "PXB", "PIX", "NV"}

func slowestLink(n *ares.Node) string {
	slowest := len(linkClasses)
	for i := range n.Links {
		for k, link := range n.Links[i] {
			if i == k {
				continue
			}
			if at := slices.IndexFunc(linkClasses, func(class string) bool { return strings.HasPrefix(link, class) }); at >= 0 {
				slowest = min(slowest, at)
			}
		}
	}
	if slowest == len(linkClasses) {
		return ""
	}
	return linkClasses[slowest]
}

// longest returns the value of the longest name that is part of the model's name.
func longest[T any](values map[string]T, model string, otherwise T) T {
	best := -1
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(name) > best && strings.Contains(strings.ToLower(model), strings.ToLower(name)) {
			best, otherwise = len(name), values[name]
		}
	}
	return otherwise
}

// addJobs adds the queue by class, the delays of recent starts, and the rate of failures.
func (out *Summary) addJobs(s *engine.State, now time.Time) {
	classes, delays := map[ares.Class]*Class{}, map[ares.Class][]time.Duration{}
	class := func(j *ares.Job) *Class {
		name := ares.ClassOf(j.PriorityValue())
		if classes[name] == nil {
			classes[name] = &Class{Name: name}
		}
		return classes[name]
	}
	ended, failed := 0, 0
	waiting := map[string]*TenantUse{}
	for j, run := range s.Jobs() {
		if j.IsArray() {
			continue
		}
		if run == nil || run.Phase.Waiting() {
			c := class(j)
			c.Waiting++
			asks := j.Asks()
			milli := int64(1000*asks.GPUs + asks.GPUMilli)
			c.WaitingGPUMilli += milli
			if milli > 0 && mayStart(s, j, run, now) {
				addWaiting(waiting, j, milli)
			}
		}
		if run == nil {
			continue
		}
		for i := range run.Attempts {
			a := &run.Attempts[i]
			if a.Number == 1 && !a.PlacedAt.IsZero() && now.Sub(a.PlacedAt) < recently {
				c := class(j)
				delays[c.Name] = append(delays[c.Name], max(a.PlacedAt.Sub(j.AcceptedAt), 0))
			}
			if !a.EndedAt.IsZero() && now.Sub(a.EndedAt) < recently {
				ended++
				if a.Outcome == ares.OutcomeLost || a.Outcome == ares.OutcomeSpawnError {
					failed++
				}
			}
		}
	}
	if ended > 0 {
		out.FailureMilli = 1000 * failed / ended
	}
	out.addTenants(s, waiting, now)
	for _, name := range ares.Classes() {
		if c := classes[name]; c != nil {
			c.DelayP50, c.DelayP90 = quantiles(delays[name])
			out.Classes = append(out.Classes, *c)
		}
	}
}

// quantiles returns the median and the p90, both as the nearest rank.
func quantiles(delays []time.Duration) (p50, p90 time.Duration) {
	if len(delays) == 0 {
		return 0, 0
	}
	slices.Sort(delays)
	rank := func(percent int) time.Duration { return delays[(len(delays)*percent+99)/100-1] }
	return rank(50), rank(90)
}

// mayStart reports whether a waiting job could start now as far as its own conditions say. A later job must not move the tenant's
// quota to this cluster before its time.
func mayStart(s *engine.State, j *ares.Job, run *ares.Run, now time.Time) bool {
	if run.IsHeld(j) || run != nil && run.NotBefore.After(now) {
		return false
	}
	succeeded := func(id ares.JobID) bool {
		r, ok := s.Run(id)
		return ok && r.Phase == ares.Succeeded
	}
	if slices.ContainsFunc(j.After, func(id string) bool { return !succeeded(ares.JobID(id)) }) {
		return false
	}
	c := j.Start
	if c == nil {
		return true
	}
	waits := func(d ares.Dependency) bool {
		r, ok := s.Run(d.Job)
		return d.Type != ares.Singleton && (!ok || !r.Phase.Final() && d.Type != ares.AfterStart)
	}
	return !c.Begin.After(now) && !slices.ContainsFunc(c.Dependencies, waits)
}

// addWaiting adds a waiting job to what the jobs of its tenant request.
func addWaiting(to map[string]*TenantUse, j *ares.Job, milli int64) {
	u := to[j.Tenant]
	if u == nil {
		u = &TenantUse{Since: j.AcceptedAt}
		to[j.Tenant] = u
	}
	u.WaitingMilli += milli
	u.LargestMilli = max(u.LargestMilli, milli)
	if j.AcceptedAt.Before(u.Since) {
		u.Since = j.AcceptedAt
	}
}

// addTenants adds the tenants that use and request most.
func (out *Summary) addTenants(s *engine.State, waiting map[string]*TenantUse, now time.Time) {
	for t := range s.Tenants() {
		_, use, _ := s.Tenant(t.ID)
		u := TenantUse{Tenant: t.ID, GPUMilli: int64(1000*use.GPUs + use.GPUMilli), CPUs: int64(use.WholeCPUs()), MemoryMB: int64(use.MemoryMB)}
		if w := waiting[t.ID]; w != nil {
			u.WaitingMilli, u.LargestMilli, u.Since = w.WaitingMilli, w.LargestMilli, w.Since.UTC().Truncate(time.Second)
		}
		if t.Loan != nil && t.Loan.Budget.Hours > 0 {
			u.UsedSecs = engine.BudgetUsed(s, t.ID, now)
		}
		if u.GPUMilli > 0 || u.CPUs > 0 || u.MemoryMB > 0 || u.WaitingMilli > 0 || u.UsedSecs > 0 {
			out.Tenants = append(out.Tenants, u)
		}
	}
	slices.SortStableFunc(out.Tenants, func(a, b TenantUse) int {
		return cmp.Compare(b.GPUMilli+b.WaitingMilli, a.GPUMilli+a.WaitingMilli)
	})
	out.Tenants = out.Tenants[:min(len(out.Tenants), MaxTenants)]
	slices.SortFunc(out.Tenants, func(a, b TenantUse) int { return cmp.Compare(a.Tenant, b.Tenant) })
}
