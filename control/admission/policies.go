package admission

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
)

// Policies contains the policies that users have applied. A policy is compiled again only when it
// changes. As soon as the view has reached a revision, API calls are checked against the policies
// of that revision.
type Policies struct {
	// The function Spent returns the GPU-hours that a tenant has used this month.
	Spent func(tenant string) float64
	Now   func() time.Time
	Log   *slog.Logger
	// Count is called with the outcome of each evaluated policy. Count may be nil.
	Count func(p *ares.Policy, outcome policy.Outcome)
	// Alert sends an alert through a channel. Alert may be nil.
	Alert func(channel string, a notify.Alert)

	compiler *policy.Compiler
	set      atomic.Pointer[policy.Set]

	mu    sync.Mutex
	rules map[string]*policy.Rule // by ID

	spending sync.Mutex
	spent    map[string]spending
}

// The type `spending` is a tenant's cached usage and the time when it was computed.
type spending struct {
	at    time.Time
	hours float64
}

// believeSpent is how long a tenant's usage is cached. The usage is cached because computing it takes the engine's
// lock. The constant maxSpent is the maximum number of tenants in that cache.
const (
	believeSpent = time.Second
	maxSpent     = 10_000
)

// NewPolicies returns a value of type Policies. The given view keeps it up to date. Call
// NewPolicies before the view runs.
func NewPolicies(view *cache.View) (*Policies, error) {
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
	for _, r := range rules { // order-free: sorted later
		out = append(out, r)
	}
	return out
}

// The method `read` compiles a stored policy. A policy that this version cannot read is marked as broken. A broken
// policy is not ignored. Another version accepted the policy. If the policy were ignored, requests that it forbids
// would be allowed.
func (p *Policies) read(stored *ares.Policy) *policy.Rule {
	r, err := p.compiler.Compile(*stored)
	if err == nil {
		return r
	}
	p.Log.Error("this version cannot read a policy: in mode enforce it rejects everything it applies to", "policy", stored.ID(), "mode", stored.Mode)
	return policy.Broken(*stored, err)
}

// Compile compiles a policy that a user wants to apply.
func (p *Policies) Compile(wanted ares.Policy) (*policy.Rule, error) {
	return p.compiler.Compile(wanted)
}

// List returns the policies in the order of evaluation.
func (p *Policies) List() []*policy.Rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.SortedFunc(slices.Values(values(p.rules)), policy.InOrder)
}

// Broken returns why this server cannot read a policy, or nil if it can.
func (p *Policies) Broken(id string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.rules[id]; r != nil {
		return r.Broken
	}
	return nil
}

// Access evaluates the access policies for a call and reports violations. If no access policies
// exist, Access costs almost nothing.
func (p *Policies) Access(who func() policy.Access) error {
	set := p.set.Load()
	if !set.AsksCalls() {
		return nil
	}
	in := who()
	in.Now = p.Now()
	v := set.Access(&in)
	// The caller of a list can name any tenant, so the caller itself decides which alerts are the same.
	p.report(&v, in.Object.Tenant, cmp.Or(in.User.Tenant, in.User.Name), []notify.Detail{{Name: "user", Value: in.User.Name}, {Name: "call", Value: in.Request.Action}, {Name: "object", Value: strings.TrimSpace(in.Object.Kind + " " + in.Object.ID)}})
	return v.Err
}

// The method `report` counts the outcomes of policies, and sends the alerts that the policies request. The argument `cause` is
// the tenant that caused them: of the alerts of a policy that one tenant causes, only one is sent within a while.
func (p *Policies) report(v *policy.Verdict, tenant, cause string, details []notify.Detail) {
	for i := range v.Findings {
		f := &v.Findings[i]
		if p.Count != nil {
			p.Count(f.Policy, f.Outcome)
		}
		if p.Alert == nil || !f.Counts() {
			continue
		}
		a := notify.Alert{
			Key: "policy " + f.Policy.ID() + " tenant " + cause, Title: "Ares: policy " + f.Policy.Name + " " + string(f.Outcome), Text: f.Text, At: p.Now(),
			Details: details, Tenant: f.Policy.Tenant, Policy: f.Policy.Name,
			Written: f.Policy.MessageExpression != "" || f.Policy.On == ares.OnPlacement, // the latter quotes the job's labels
		}
		if tenant != "" {
			a.Details = append([]notify.Detail{{Name: "tenant", Value: tenant}}, details...)
		}
		for _, channel := range f.Policy.Alert {
			p.Alert(channel, a)
		}
	}
}

// Hours returns the GPU-hours that a tenant has used this month. The value is at most a second old.
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

// WithUser adds the caller to a context, so that policies can test who the user is.
func WithUser(ctx context.Context, who *ares.Identity) context.Context {
	return context.WithValue(ctx, userKey{}, who)
}

func userOf(ctx context.Context, owner string) *ares.Identity {
	if who, ok := ctx.Value(userKey{}).(*ares.Identity); ok {
		return who
	}
	return &ares.Identity{Name: owner}
}
