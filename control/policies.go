package control

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
)

// Policies are the rules that people wrote, as this server reads them: each is
// compiled once, when it changes. Who has waited for the view to reach a revision
// is judged by the policies of that revision.
type Policies struct {
	// Spent is the GPU-hours a tenant has used this month.
	Spent func(tenant string) float64
	Now   func() time.Time
	Log   *slog.Logger
	// Count is told what each policy that was asked came to. May be nil.
	Count func(p *ares.Policy, outcome policy.Outcome)
	// Alert has an alert sent through a channel. May be nil.
	Alert func(channel string, a notify.Alert)

	compiler *policy.Compiler
	set      atomic.Pointer[policy.Set]

	mu    sync.Mutex
	rules map[string]*policy.Rule // by ID

	spending sync.Mutex
	spent    map[string]spending
}

// spending is what a tenant had used at a time.
type spending struct {
	at    time.Time
	hours float64
}

// How long what a tenant has used is believed: it takes the engine's lock to
// count it anew. And how many tenants that is kept of.
const (
	believeSpent = time.Second
	maxSpent     = 10_000
)

// NewPolicies makes the policies of a view. Call it before the view runs.
func NewPolicies(view *View) (*Policies, error) {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return nil, err
	}
	p := &Policies{
		Now: time.Now, Log: slog.New(slog.DiscardHandler), Spent: func(string) float64 { return 0 },
		compiler: compiler, rules: map[string]*policy.Rule{}, spent: map[string]spending{},
	}
	p.set.Store(policy.NewSet(nil))
	view.Feed(p.apply)
	return p, nil
}

func (p *Policies) apply(b ares.Batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	changed := b.Reset
	if b.Reset {
		p.rules = map[string]*policy.Rule{}
	}
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Policy != nil:
			p.rules[e.Policy.ID()], changed = p.read(e.Policy), true
		case e.Gone.Kind == ares.KindPolicy:
			delete(p.rules, e.Gone.ID)
			changed = true
		}
	}
	if changed {
		p.set.Store(policy.NewSet(values(p.rules)))
	}
}

func values(rules map[string]*policy.Rule) []*policy.Rule {
	out := make([]*policy.Rule, 0, len(rules))
	for _, r := range rules { // order-free: a set orders them
		out = append(out, r)
	}
	return out
}

// read compiles a stored policy. One that this version cannot read is kept as
// broken: it was accepted by another version, and to ignore it would let through
// what it was written against.
func (p *Policies) read(stored *ares.Policy) *policy.Rule {
	r, err := p.compiler.Compile(*stored)
	if err == nil {
		return r
	}
	p.Log.Error("a policy cannot be read by this version: in enforce it refuses all that it is about", "policy", stored.ID(), "mode", stored.Mode)
	return policy.Broken(*stored, err)
}

// Compile reads a policy that is to be applied.
func (p *Policies) Compile(wanted ares.Policy) (*policy.Rule, error) {
	return p.compiler.Compile(wanted)
}

// List lists the policies in the order they are asked.
func (p *Policies) List() []*policy.Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(slices.Values(values(p.rules)), policy.InOrder)
}

// Broken says why this server cannot read a policy, nil when it can.
func (p *Policies) Broken(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rules[id]; r != nil {
		return r.Broken
	}
	return nil
}

// Access judges a call by the policies on access, and tells of what it breaks. It
// costs next to nothing where there are none.
func (p *Policies) Access(who func() policy.Access) error {
	set := p.set.Load()
	if !set.AsksCalls() {
		return nil
	}
	in := who()
	in.Now = p.Now()
	v := set.Access(&in)
	p.tell(&v, in.Object.Tenant, []notify.Detail{{Name: "user", Value: in.User.Name}, {Name: "call", Value: in.Request.Action}, {Name: "object", Value: strings.TrimSpace(in.Object.Kind + " " + in.Object.ID)}})
	return v.Err
}

// tell counts what policies said, and sends the alerts that they ask for.
func (p *Policies) tell(v *policy.Verdict, tenant string, details []notify.Detail) {
	for i := range v.Findings {
		f := &v.Findings[i]
		if p.Count != nil {
			p.Count(f.Policy, f.Outcome)
		}
		if p.Alert == nil || !f.Counts() {
			continue
		}
		a := notify.Alert{
			Key: "policy " + f.Policy.ID() + " tenant " + tenant, Title: "Ares: policy " + f.Policy.Name + " " + string(f.Outcome), Text: f.Text, At: p.Now(),
			Details: details,
		}
		if tenant != "" {
			a.Details = append([]notify.Detail{{Name: "tenant", Value: tenant}}, details...)
		}
		for _, channel := range f.Policy.Alert {
			p.Alert(channel, a)
		}
	}
}

// Hours is the GPU-hours a tenant has used this month, as of a second ago at most.
func (p *Policies) Hours(tenant string) float64 {
	now := p.Now()
	p.spending.Lock()
	defer p.spending.Unlock()
	if s, ok := p.spent[tenant]; ok && now.Sub(s.at) < believeSpent {
		return s.hours
	}
	if len(p.spent) >= maxSpent {
		clear(p.spent)
	}
	hours := p.Spent(tenant)
	p.spent[tenant] = spending{now, hours}
	return hours
}

type userKey struct{}

// WithUser says who makes a call, for the policies that ask.
func WithUser(ctx context.Context, who *ares.Identity) context.Context {
	return context.WithValue(ctx, userKey{}, who)
}

func userOf(ctx context.Context, owner string) *ares.Identity {
	if who, ok := ctx.Value(userKey{}).(*ares.Identity); ok {
		return who
	}
	return &ares.Identity{Name: owner}
}
