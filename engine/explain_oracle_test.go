package engine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
)

// An oracle computes the numbers in explanations independently, from the records alone.
type oracle struct {
	w     *randomCluster
	nodes []engine.NodeView
	milli map[string]int // by device
	cpus  map[string]int // by node
	mem   map[string]int
	bound map[string][2]int       // by node and NUMA node: CPUs and memory
	held  map[string]ares.Use     // by tenant, and by tenant/queue
	kept  map[string][]ares.JobID // nominated jobs with seats on a node, by node
}

func newOracle(w *randomCluster) *oracle {
	o := &oracle{w: w, milli: map[string]int{}, cpus: map[string]int{}, mem: map[string]int{}, bound: map[string][2]int{}, held: map[string]ares.Use{}, kept: map[string][]ares.JobID{}}
	o.nodes = slices.Collect(w.State.Nodes())
	for job, run := range w.State.Jobs() {
		if run == nil {
			continue
		}
		if run.Nominated != nil {
			for _, seat := range run.Nominated.Seats {
				o.kept[seat.Node] = append(o.kept[seat.Node], job.ID)
			}
		}
		use := ares.Use{}
		for _, a := range run.Attempts {
			for _, h := range a.Seats {
				if h.State.Free() {
					continue
				}
				o.cpus[h.Node] += h.CPUs
				o.mem[h.Node] += h.Memory
				part := fmt.Sprint(h.Node, " ", h.NUMA)
				o.bound[part] = [2]int{o.bound[part][0] + h.CPUs, o.bound[part][1] + h.Memory}
				use.CPUs, use.MemoryMB, use.GPUMemoryMB = use.CPUs+h.CPUs, use.MemoryMB+h.Memory, use.GPUMemoryMB+job.GPUMemoryMB
				for _, sh := range h.Shares {
					o.milli[sh.Device] += sh.Milli
					if sh.Milli == 1000 {
						use.GPUs++
					} else {
						use.GPUMilli += sh.Milli
					}
				}
			}
		}
		if !job.IsArray() && (run.Phase.Active() || !run.Settled()) {
			use.Jobs = 1
		}
		o.held[job.Tenant] = o.held[job.Tenant].Add(use)
		queue := ares.QueueID(job.Tenant, job.Queue)
		o.held[queue] = o.held[queue].Add(use)
	}
	return o
}

// The method `check` verifies every blocker of an explanation.
func (o *oracle) check(id ares.JobID, e *ares.Explanation) error {
	job, _ := o.w.State.Job(id)
	run, _ := o.w.State.Run(id)
	quotas := slices.ContainsFunc(e.Blockers, func(b ares.Blocker) bool { return strings.Contains(b.Detail.String(), "quota") })
	counts := map[string]int{}
	for i := range o.nodes {
		counts[o.reason(job, &o.nodes[i])]++
	}
	for _, b := range e.Blockers {
		var err error
		detail := b.Detail.String()
		switch {
		case b.Of > 0 && b.Of != len(o.nodes):
			err = fmt.Errorf("there are %d nodes", len(o.nodes))
		case b.Of > 0 && !quotas: // quotas exclude models, which changes the counts
			key := reasonOf(detail)
			if key == "kept" {
				err = o.keptForOthers(job, b.Count)
			} else if key != "affinity" && counts[key] != b.Count { // the oracle does not evaluate affinity
				err = fmt.Errorf("%s: %d nodes, counted %d (%v)", key, b.Count, counts[key], counts)
			}
		case strings.Contains(detail, " limit: "):
			err = o.limit(job, detail)
		case strings.Contains(detail, " quota: "):
			err = o.quota(job, detail)
		case strings.HasPrefix(detail, "all quotas together: "):
			err = o.pool(detail)
		case b.Kind == "delay" && strings.HasPrefix(detail, string(run.Phase)+" until"):
			if !o.w.Now.Before(run.NotBefore) {
				err = fmt.Errorf("it is due")
			}
		case b.Kind == "dependency":
			err = o.dependency(job, detail)
		case b.Kind == "budget":
			err = o.budget(job, detail)
		}
		if err != nil {
			return fmt.Errorf("%q is not true: %w", b, err)
		}
	}
	return nil
}

// keptForOthers looks for nodes where the job would fit but seats are held for other jobs. It returns an error
// if there are fewer such nodes than `count`.
func (o *oracle) keptForOthers(job *ares.Job, count int) error {
	for i := range o.nodes {
		others := slices.ContainsFunc(o.kept[o.nodes[i].Node.ID], func(id ares.JobID) bool { return id != job.ID })
		if others && o.reason(job, &o.nodes[i]) == "room" {
			count--
		}
	}
	if count > 0 {
		return fmt.Errorf("on %d of them no seats are held for other jobs, or the job does not fit", count)
	}
	return nil
}

// The list `reasons` has one key for each node blocker. The key consists of the first words of the blocker's text.
var reasons = []struct{ key, words string }{
	{"session", "no session"},
	{"cordon", "cordoned"},
	{"unfit", "the node recently failed"},
	{"selector", "labels do not match node_selector"},
	{"conditions", "labels do not match node_affinity"},
	{"requirements", "the node does not meet"},
	{"region", "region is not"},
	{"taint", "a taint"},
	{"kind", "no device of type"},
	{"sick", "too many devices are unhealthy"},
	{"small", "too small even when empty"},
	{"busy", "too few free devices"},
	{"busy", "no device has"},
	{"cpus", "too few free CPU"},
	{"memory", "too little free memory"},
	{"numa", "no NUMA node"},
	{"affinity", "affinity or anti"},
	{"kept", "the free capacity is held"},
}

func reasonOf(detail string) string {
	for _, r := range reasons {
		if strings.HasPrefix(detail, r.words) {
			return r.key
		}
	}
	switch {
	case strings.Contains(detail, "of model"):
		return "model"
	case strings.Contains(detail, "MB of memory"):
		return "device memory"
	}
	return detail
}

// The method `reason` returns the first reason why the job does not fit on a node.
func (o *oracle) reason(job *ares.Job, v *engine.NodeView) string {
	n, p := v.Node, job.Placement()
	switch {
	case v.Session == nil:
		return "session"
	case v.Cordon != nil:
		return "cordon"
	case n.Unfit != "":
		return "unfit"
	}
	for k, want := range p.NodeSelector {
		if n.Labels[k] != want {
			return "selector"
		}
	}
	for _, text := range p.NodeAffinity {
		if c, _ := ares.ParseCondition(text); !c.Holds(n.Labels) {
			return "conditions"
		}
	}
	if !p.NodeRequirements.MatchesNode(n.ID, n.Labels, len(n.Devices)) {
		return "requirements"
	}
	if len(p.Regions) > 0 && !slices.Contains(p.Regions, n.Labels["region"]) {
		return "region"
	}
	for _, taint := range n.Taints {
		if !slices.ContainsFunc(p.Tolerations, func(s string) bool { t, _ := ares.ParseToleration(s); return t.Tolerates(taint) }) {
			return "taint"
		}
	}
	if r := o.device(job, n); r != "" {
		return r
	}
	switch {
	case n.CPUs < job.CPUs || n.MemoryMB < job.MemoryMB:
		return "small"
	case o.devicesFree(job, n) < max(job.GPUs, min(job.GPUMilli, 1)):
		return "busy"
	case n.CPUs-o.cpus[n.ID] < job.CPUs:
		return "cpus"
	case n.MemoryMB-o.mem[n.ID] < job.MemoryMB:
		return "memory"
	case (job.NUMAPolicy == "required" || job.Placement().LatencySensitive && job.GPUs > 0) && !o.withinNUMA(job, n):
		return "numa"
	}
	return "room"
}

// withinNUMA reports whether the job fits on one NUMA node.
func (o *oracle) withinNUMA(job *ares.Job, n *ares.Node) bool {
	for _, part := range n.NUMA {
		near := *n
		near.Devices = slices.DeleteFunc(slices.Clone(n.Devices), func(d ares.Device) bool { return d.NUMA != part.ID })
		bound := o.bound[fmt.Sprint(n.ID, " ", part.ID)]
		if o.devicesFree(job, &near) >= max(job.GPUs, min(job.GPUMilli, 1)) && part.CPUs-bound[0] >= job.CPUs && part.MemoryMB-bound[1] >= job.MemoryMB {
			return true
		}
	}
	return false
}

// The method `device` returns the reason why the node's devices do not match the request, or "" if they match.
func (o *oracle) device(job *ares.Job, n *ares.Node) string {
	need := job.GPUs
	if job.GPUMilli > 0 {
		need = 1
	}
	if need == 0 {
		return ""
	}
	model, memory, well := 0, 0, 0
	for _, d := range n.Devices {
		if job.GPUModel != "" && !strings.Contains(strings.ToLower(d.Model), job.GPUModel) {
			continue
		}
		model++
		if d.MemoryMB*max(job.GPUs, 1) < job.GPUMemoryMB {
			continue
		}
		memory++
		if d.Healthy && d.Celsius <= 75 {
			well++
		}
	}
	switch {
	case len(n.Devices) == 0:
		return "kind"
	case len(n.Devices) < need:
		return "small"
	case model < need:
		return "model"
	case memory < need:
		return "device memory"
	case well < need:
		return "sick"
	}
	return ""
}

// devicesFree returns the number of devices with enough free capacity for the job.
func (o *oracle) devicesFree(job *ares.Job, n *ares.Node) int {
	free := 0
	for _, d := range n.Devices {
		if job.GPUModel != "" && !strings.Contains(strings.ToLower(d.Model), job.GPUModel) || d.MemoryMB*max(job.GPUs, 1) < job.GPUMemoryMB || !d.Healthy || d.Celsius > 75 {
			continue
		}
		if taken := o.milli[d.ID]; job.GPUMilli > 0 && taken+job.GPUMilli <= 1000 || job.GPUMilli == 0 && taken == 0 {
			free++
		}
	}
	return free
}

// The method `limit` compares the numbers in a limit blocker with the records.
func (o *oracle) limit(job *ares.Job, detail string) error {
	whose, rest, _ := strings.Cut(detail, " limit: ")
	at := strings.LastIndexFunc(strings.SplitN(rest, " of ", 2)[0], func(r rune) bool { return r == ' ' })
	what := rest[:at]
	var used, limit, asked int
	if _, err := fmt.Sscanf(rest[at+1:], "%d of %d used, %d requested", &used, &limit, &asked); err != nil {
		return err
	}
	tenant, _, _ := o.w.State.Tenant(job.Tenant)
	limits, held := tenant.Limits, o.held[job.Tenant]
	if queue, ok := strings.CutPrefix(whose, "queue "); ok {
		limits, held = o.w.queues[queue].Limits, o.held[queue]
	}
	figures := map[string][2]int{
		"GPUs": {held.GPUs + (held.GPUMilli+999)/1000, limits.GPUs}, "CPU cores": {held.CPUs, limits.CPUs},
		"memory (MB)": {held.MemoryMB, limits.MemoryMB}, "concurrent jobs": {held.Jobs, limits.ConcurrentJobs}, "GPU memory (MB)": {held.GPUMemoryMB, limits.GPUMemoryMB},
	}
	if f, ok := figures[what]; !ok || f != [2]int{used, limit} || used+asked <= limit {
		return fmt.Errorf("%s: %v are used and allowed", what, f)
	}
	return nil
}

// The function `amounts` parses a text such as "3 of 4.5 h100 GPUs used, 2 requested". It returns the model, and
// the amounts in thousandths.
func amounts(text string) (used, limit, asked float64, model string, err error) {
	before, after, _ := strings.Cut(text, "GPUs used")
	fields := strings.Fields(before)
	if len(fields) < 3 {
		return 0, 0, 0, "", fmt.Errorf("%q has no figures", text)
	}
	if len(fields) > 3 {
		model = fields[3]
	}
	_, rest, _ := strings.Cut(after, ", ") // "used", or "used or guaranteed"
	_, err = fmt.Sscan(fields[0]+" "+fields[2]+" "+strings.TrimSuffix(rest, " requested"), &used, &limit, &asked)
	return used * 1000, limit * 1000, asked * 1000, model, err
}

// The method `quota` compares the numbers in a quota blocker with the records. The amount that the blocker reports
// as used must not be less than the amount that seats hold. The two amounts must be equal if no other queue of the
// tenant has quotas.
func (o *oracle) quota(job *ares.Job, detail string) error {
	whose, rest, _ := strings.Cut(detail, " quota: ")
	used, limit, asked, model, err := amounts(rest)
	if err != nil {
		return err
	}
	tenant, _, _ := o.w.State.Tenant(job.Tenant)
	quotas, name := tenant.Quotas, ""
	if queue, ok := strings.CutPrefix(whose, "queue "); ok {
		quotas, name = o.w.queues[queue].Quotas, queue
	}
	at := slices.IndexFunc(quotas, func(q ares.Quota) bool { return strings.EqualFold(q.Model, model) })
	if at < 0 || quotas[at].Borrow == ares.Unlimited || limit != float64(quotas[at].Nominal+quotas[at].Borrow)*1000 {
		return fmt.Errorf("%+v has no such bound", quotas)
	}
	held := float64(o.heldOf(job.Tenant, name, model))
	below := slices.ContainsFunc(slices.Collect(maps.Values(o.w.queues)), func(q ares.Queue) bool {
		return q.Tenant == job.Tenant && q.ID() != name && len(q.Quotas) > 0
	})
	if used < held || !below && used != held || used+asked <= limit {
		return fmt.Errorf("%v/1000 are held", held)
	}
	return nil
}

// The method `pool` verifies that the sum of all quotas for a model is too small.
func (o *oracle) pool(detail string) error {
	used, limit, asked, _, err := amounts(strings.TrimPrefix(detail, "all quotas together: "))
	if err == nil && used+asked <= limit {
		err = fmt.Errorf("there is enough")
	}
	return err
}

// heldOf returns the devices of a model that the jobs of a tenant or queue hold, in thousandths of a
// device. The result includes the devices of every model whose name contains the given name.
func (o *oracle) heldOf(tenant, queue, model string) int {
	models := map[string]string{}
	for _, v := range o.nodes {
		for _, d := range v.Node.Devices {
			models[d.ID] = strings.ToLower(d.Model)
		}
	}
	sum := 0
	for job, run := range o.w.State.Jobs() {
		if run == nil || job.Tenant != tenant || queue != "" && ares.QueueID(tenant, job.Queue) != queue {
			continue
		}
		for _, a := range run.Attempts {
			for _, h := range a.Seats {
				for _, sh := range h.Shares {
					if !h.State.Settled() && strings.Contains(models[sh.Device], strings.ToLower(model)) {
						sum += sh.Milli
					}
				}
			}
		}
	}
	return sum
}

func (o *oracle) dependency(job *ares.Job, detail string) error {
	for _, id := range job.After {
		if strings.HasPrefix(detail, "after job "+id+":") {
			if run, ok := o.w.State.Run(ares.JobID(id)); ok && run.Phase == ares.Succeeded {
				return fmt.Errorf("it succeeded")
			}
			return nil
		}
	}
	return fmt.Errorf("it does not wait for that")
}

func (o *oracle) budget(job *ares.Job, detail string) error {
	tenant, _, _ := o.w.State.Tenant(job.Tenant)
	seconds := 0
	for other, run := range o.w.State.Jobs() {
		if other.Tenant != job.Tenant || run == nil {
			continue
		}
		for _, a := range run.Attempts {
			until := a.EndedAt
			if until.IsZero() {
				until = o.w.Now
			}
			for _, h := range a.Seats {
				for _, sh := range h.Shares {
					seconds += sh.Milli * int(until.Sub(a.PlacedAt).Seconds())
				}
			}
		}
	}
	want := fmt.Sprintf("used %d GPU-hours of its %d", seconds/1000/3600, tenant.GPUHours)
	if !strings.Contains(detail, want) || seconds/1000 < tenant.GPUHours*3600 {
		return fmt.Errorf("it has %s", want)
	}
	return nil
}
