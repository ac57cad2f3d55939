package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// Edit is the change that a what-if analysis makes to a snapshot.
type Edit struct {
	Quotas  []Amount // GPUs
	Weights []Amount
	Add     []Addition
	Remove  []string // nodes
	Reserve []*ares.Reservation
	Policy  string         // name of the policy, for display
	Config  *config.Config // configuration of that policy; nil to keep the server's
}

// Addition describes machines to add, either from a profile or as copies of an existing node.
type Addition struct {
	Profile string
	Like    string // an existing node, if there is no profile
	Nodes   []*ares.Node
}

func (a *Addition) String() string {
	nodes := "nodes"
	if len(a.Nodes) == 1 {
		nodes = "node"
	}
	if a.Profile != "" {
		return fmt.Sprintf("%d more %s %s", len(a.Nodes), a.Profile, nodes)
	}
	return fmt.Sprintf("%d more %s like %s", len(a.Nodes), nodes, a.Like)
}

// Amount is a new value for a tenant or a queue. An Amount is either absolute or relative to the old
// value.
type Amount struct {
	Target   string // tenant or tenant/queue
	Model    string // of GPUs, "" for all
	Value    float64
	Relative bool
}

// ParseAmount reads "science=12", "science=+8", "science/night=-4" or, for the
// quota of one model, "science:h100=+8".
func ParseAmount(text string) (Amount, error) {
	name, figure, ok := strings.Cut(text, "=")
	target, model, _ := strings.Cut(name, ":")
	by, err := strconv.ParseFloat(strings.TrimSpace(figure), 64)
	if !ok || err != nil || target == "" || by != by || by > 1e6 || by < -1e6 {
		return Amount{}, ares.Errorf(ares.Invalid, "%q must have a form like TENANT=12, TENANT=+8 or TENANT/QUEUE=-4", text)
	}
	return Amount{Target: target, Model: model, Value: by, Relative: strings.ContainsAny(figure[:1], "+-")}, nil
}

func (a Amount) apply(old float64) float64 {
	if a.Relative {
		return old + a.Value
	}
	return a.Value
}

// For a given state, editResolver converts an edit into events and into descriptions of the changes.
type editResolver struct {
	state        *engine.State
	shares       map[string]*tenantOrQueue // by ID of the tenant or queue; copies
	events       []ares.Event
	descriptions []string
}

// tenantOrQueue is a copy of the tenant or queue that an edit changes.
type tenantOrQueue struct {
	tenant *ares.Tenant
	queue  *ares.Queue
}

func (s *tenantOrQueue) parts() (limits *ares.Limits, quotas *[]ares.Quota, weight *float64) {
	if s.queue != nil {
		return &s.queue.Limits, &s.queue.Quotas, &s.queue.Weight
	}
	return &s.tenant.Limits, &s.tenant.Quotas, &s.tenant.Weight
}

// This method returns the events that apply an edit, and descriptions of the
// changes. Jobs on removed nodes are handled by projection.loseNodes.
func (e *Edit) resolve(s *engine.State) (events []ares.Event, descriptions []string, err error) {
	d := &editResolver{state: s, shares: map[string]*tenantOrQueue{}}
	for _, q := range e.Quotas {
		if err = d.quota(q); err != nil {
			return nil, nil, err
		}
	}
	for _, w := range e.Weights {
		if err = d.weight(w); err != nil {
			return nil, nil, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.shares)) {
		if sh := d.shares[id]; sh.queue != nil {
			d.events = append(d.events, ares.Event{Queue: sh.queue})
		} else {
			d.events = append(d.events, ares.Event{Tenant: sh.tenant})
		}
	}
	if err = d.nodes(e); err != nil {
		return nil, nil, err
	}
	if err = d.reservations(e); err != nil {
		return nil, nil, err
	}
	if e.Config != nil {
		d.descriptions = append(d.descriptions, "policy "+e.Policy)
	}
	if len(d.descriptions) == 0 {
		return nil, nil, ares.Errorf(ares.Invalid, "no change is given: use --quota, --weight, --add-nodes, --remove-nodes, --reserve or --policy")
	}
	return d.events, d.descriptions, nil
}

// This method returns a copy of a tenant or queue, so that the edit does not change the original.
func (d *editResolver) share(target string) (*tenantOrQueue, error) {
	if d.shares[target] != nil {
		return d.shares[target], nil
	}
	names := []string{}
	tenant, queue, _ := strings.Cut(target, "/")
	for t := range d.state.Tenants() {
		names = append(names, t.ID)
		if t.ID == target {
			made := *t
			made.Quotas = slices.Clone(t.Quotas)
			d.shares[target] = &tenantOrQueue{tenant: &made}
		} else if t.ID == tenant && queue == ares.DefaultQueue {
			d.shares[target] = &tenantOrQueue{queue: new(ares.NewDefaultQueue(tenant))} // replaced below if it has a record
		}
	}
	for q := range d.state.Queues() {
		names = append(names, q.ID())
		if q.ID() == target {
			made := *q
			made.Quotas = slices.Clone(q.Quotas)
			d.shares[target] = &tenantOrQueue{queue: &made}
		}
	}
	if d.shares[target] == nil {
		what := "tenant"
		if queue != "" {
			what = "queue"
		}
		return nil, unknown(what, target, names)
	}
	return d.shares[target], nil
}

// This method changes the GPU limit and the GPU quota of a tenant or queue, if it has
// them. If the tenant or queue has several quotas, this method changes the quota for
// the given GPU model.
func (d *editResolver) quota(a Amount) error {
	sh, err := d.share(a.Target)
	if err != nil {
		return err
	}
	if a.Value != float64(int(a.Value)) {
		return ares.Errorf(ares.Invalid, "--quota %s: %v is not a whole number of GPUs", a.Target, a.Value)
	}
	limits, quotas, _ := sh.parts()
	change := func(what string, to *int) {
		was := *to
		*to = max(int(a.apply(float64(was))), 0)
		d.descriptions = append(d.descriptions, fmt.Sprintf("%s of %s %s → %s", what, a.Target, bound(was), bound(*to)))
	}
	if len(*quotas) > 0 {
		i := 0
		if a.Model != "" || len(*quotas) > 1 {
			names := make([]string, len(*quotas))
			for k, q := range *quotas {
				names[k] = cmp.Or(q.Model, "all")
			}
			if i = slices.Index(names, cmp.Or(a.Model, "all")); i < 0 && a.Model == "" {
				return ares.Errorf(ares.Invalid, "%s has quotas for the GPU models %s: name one of these models, as in --quota %s:%s=+8", a.Target, strings.Join(names, ", "), a.Target, names[0])
			} else if i < 0 {
				return unknown("quota of "+a.Target, a.Model, names)
			}
		}
		change("quota ("+cmp.Or((*quotas)[i].Model, "all")+")", &(*quotas)[i].Nominal)
	} else if a.Model != "" {
		return ares.Errorf(ares.Invalid, "%s has no quotas for GPU models: to change its GPU limit, use --quota without the model %s", a.Target, a.Model)
	}
	if a.Model == "" && (limits.GPUs < ares.Unlimited || len(*quotas) == 0 && !a.Relative) {
		change("max_gpus", &limits.GPUs)
	} else if len(*quotas) == 0 {
		return ares.Errorf(ares.Invalid, "%s has no GPU limit to raise or lower: set a limit with --quota %s=8", a.Target, a.Target)
	}
	return nil
}

func bound(n int) string {
	if n >= ares.Unlimited {
		return "unlimited"
	}
	return strconv.Itoa(n)
}

func (d *editResolver) weight(a Amount) error {
	sh, err := d.share(a.Target)
	if err != nil {
		return err
	}
	_, _, weight := sh.parts()
	was := cmp.Or(*weight, 1)
	if *weight = a.apply(was); !ares.ValidWeight(*weight) {
		sum := ""
		if a.Relative { // the user may have intended an absolute value
			sum = fmt.Sprintf(" (%v%+v)", was, a.Value)
		}
		return ares.Errorf(ares.Invalid, "--weight %s: a weight must be between %v and %v, but the new weight is %v%s", a.Target, ares.MinWeight, ares.MaxWeight, *weight, sum)
	}
	d.descriptions = append(d.descriptions, fmt.Sprintf("weight of %s %v → %v", a.Target, was, *weight))
	return nil
}

func (d *editResolver) nodes(e *Edit) error {
	names := []string{}
	for n := range d.state.Nodes() {
		names = append(names, n.Node.ID)
	}
	for i := range e.Add {
		for _, n := range e.Add[i].Nodes {
			if slices.Contains(names, n.ID) {
				return ares.Errorf(ares.Conflict, "node %s already exists", n.ID)
			}
			d.events = append(d.events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "what if"}})
		}
		d.descriptions = append(d.descriptions, e.Add[i].String())
	}
	for i, id := range e.Remove {
		if slices.Contains(e.Remove[:i], id) { // the node is named twice
			continue
		}
		if !slices.Contains(names, id) {
			return unknown("node", id, names)
		}
		d.events = append(d.events, ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: id}}, ares.Event{Gone: ares.Gone{Kind: ares.KindNode, ID: id}})
		d.descriptions = append(d.descriptions, "without node "+id)
	}
	return nil
}

// This function returns an error for an unknown name. The error suggests the known name that is most
// similar.
func unknown(what, name string, names []string) error {
	if near := ares.Nearest(name, names); near != "" {
		return ares.Errorf(ares.NotFound, "there is no %s %q: did you mean %s?", what, name, near)
	}
	few := slices.Sorted(slices.Values(names))
	more := ""
	if len(few) > 10 {
		few, more = few[:10], ", …"
	}
	return ares.Errorf(ares.NotFound, "there is no %s %q: the known names are %s%s", what, name, cmp.Or(strings.Join(few, ", "), "none"), more)
}
