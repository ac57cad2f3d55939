package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	ares "github.com/ares-scheduler/ares"
)

// Outcome is what asking a policy came to.
type Outcome string

// The outcomes. In dry-run they are only counted.
const (
	Allowed   Outcome = "allowed"
	Unmatched Outcome = "unmatched" // it is not about this one
	Rejected  Outcome = "rejected"  // the rule is broken, and its action refuses
	Warned    Outcome = "warned"    // the rule is broken, and its action warns
	Required  Outcome = "required"  // it asks for labels of the nodes
	Failed    Outcome = "failed"    // it could not be evaluated, or not be read: as broken
)

// Finding is what one policy said.
type Finding struct {
	Policy  *ares.Policy
	Outcome Outcome
	Text    string // for people, "" where there is nothing to say
}

// Counts says whether the finding is more than a count: the policy is no dry run
// and was broken.
func (f *Finding) Counts() bool {
	return f.Policy.Mode != ares.DryRun && (f.Outcome == Rejected || f.Outcome == Warned || f.Outcome == Failed)
}

// Verdict is what all policies together say.
type Verdict struct {
	// Err is the refusal, nil when there is none. It names each policy that
	// refuses, the first one first.
	Err error
	// Labels are what nodes must have for the job.
	Labels map[string]string
	// Notes are what the submitter is told of a job that is accepted: warnings,
	// and which policy requires which label.
	Notes    []ares.PolicyNote
	Findings []Finding
	Cost     uint64
}

// Set is policies in the order they are asked. It never changes.
type Set struct {
	jobs, places, calls []*Rule
	hours               bool
}

// NewSet orders rules: higher priority first, then those for all before a
// tenant's own, then by name.
func NewSet(rules []*Rule) *Set {
	s := &Set{}
	for _, r := range slices.SortedFunc(slices.Values(rules), InOrder) {
		switch r.Policy.On {
		case ares.OnSubmission:
			s.jobs = append(s.jobs, r)
		case ares.OnPlacement:
			s.places = append(s.places, r)
		case ares.OnAccess:
			s.calls = append(s.calls, r)
		}
		s.hours = s.hours || r.Hours
	}
	return s
}

// InOrder is the order in which policies are asked.
func InOrder(a, b *Rule) int {
	return cmp.Or(cmp.Compare(b.Policy.Priority, a.Policy.Priority), cmp.Compare(a.Policy.Tenant, b.Policy.Tenant), cmp.Compare(a.Policy.Name, b.Policy.Name))
}

// AsksJobs, AsksHours and AsksCalls say whether there is anything to ask: of a
// submission, for which the GPU-hours of the month are needed, and of a call.
func (s *Set) AsksJobs() bool  { return len(s.jobs)+len(s.places) > 0 }
func (s *Set) AsksHours() bool { return s.hours }
func (s *Set) AsksCalls() bool { return len(s.calls) > 0 }

// asking is one evaluation of a set.
type asking struct {
	values  map[string]any
	verdict Verdict
	refused []string
	by      []string // the policies that refused
}

// Denied is a refusal by policies.
type Denied struct {
	Policies []string // their names
	cause    *ares.Error
}

func (d *Denied) Error() string { return d.cause.Error() }
func (d *Denied) Unwrap() error { return d.cause }

// Submission asks the policies on submission, and then, if none refuses, those on
// placement.
func (s *Set) Submission(in *Input) Verdict {
	a := &asking{values: map[string]any{"job": &in.Job, "tenant": &in.Tenant, "user": &in.User, "usage": &in.Usage, "now": in.Now}}
	for _, r := range s.jobs {
		if r.about(in.Tenant.ID) {
			a.ask(r)
		}
	}
	if len(a.refused) == 0 {
		by := map[string]string{}
		for _, r := range s.places {
			if r.about(in.Tenant.ID) {
				a.require(r, &in.Job, by)
			}
		}
	}
	return a.end(ares.Refused)
}

// Access asks the policies on access. They only deny; what a role does not grant
// they cannot. A tenant's own policies do not bind a platform-admin.
func (s *Set) Access(in *Access) Verdict {
	a := &asking{values: map[string]any{"user": &in.User, "request": &in.Request, "object": &in.Object, "now": in.Now}}
	admin := slices.Contains(in.User.Roles, string(ares.PlatformAdmin))
	for _, r := range s.calls {
		if r.about(in.Object.Tenant) && (r.Policy.Tenant == "" || !admin) {
			a.ask(r)
		}
	}
	return a.end(ares.Forbidden)
}

// about says whether a rule is about what belongs to a tenant.
func (r *Rule) about(tenant string) bool { return r.Policy.Tenant == "" || r.Policy.Tenant == tenant }

func (a *asking) end(code ares.Code) Verdict {
	if len(a.refused) > 0 {
		a.verdict.Err = &Denied{Policies: a.by, cause: ares.Errorf(code, "%s", strings.Join(a.refused, "; "))}
		a.verdict.Labels, a.verdict.Notes = nil, nil
	}
	return a.verdict
}

// found notes what a policy said, and does what its mode and action want.
func (a *asking) found(r *Rule, outcome Outcome, text string, labels map[string]string) {
	p := &r.Policy
	refuses := outcome == Rejected || outcome == Failed
	if refuses && (p.Mode == ares.WarnOnly || p.Action == ares.Warn) {
		refuses = false
		if outcome == Rejected {
			outcome = Warned
		}
	}
	a.verdict.Findings = append(a.verdict.Findings, Finding{Policy: p, Outcome: outcome, Text: text})
	switch {
	case p.Mode == ares.DryRun || text == "":
	case refuses:
		a.refused, a.by = append(a.refused, text), append(a.by, p.Name)
	default:
		a.verdict.Notes = append(a.verdict.Notes, ares.PolicyNote{Policy: p.Name, Text: text, Labels: labels})
	}
}

// matched says whether a rule is about what is asked. One that cannot be read
// or evaluated is noted here, and is about everything in its scope.
func (a *asking) matched(r *Rule) bool {
	if r.Broken != nil {
		a.found(r, Failed, fmt.Sprintf("policy %s cannot be read by this version of Ares: have it applied anew or deleted", r.Policy.Name), nil)
		return false
	}
	if r.match == nil {
		return true
	}
	out, err := a.eval(r.match)
	if err != nil {
		a.found(r, Failed, failure(r, "match", err), nil)
		return false
	}
	if out != types.True {
		a.found(r, Unmatched, "", nil)
		return false
	}
	return true
}

// ask asks one rule.
func (a *asking) ask(r *Rule) {
	if !a.matched(r) {
		return
	}
	out, err := a.eval(r.rule)
	switch {
	case err != nil:
		a.found(r, Failed, failure(r, "rule", err), nil)
	case out == types.True:
		a.found(r, Allowed, "", nil)
	default:
		a.found(r, Rejected, fmt.Sprintf("policy %s: %s", r.Policy.Name, a.message(r)), nil)
	}
}

// message is what whoever breaks a rule is told. The rule itself is not: it may
// name what is not everybody's to read.
func (a *asking) message(r *Rule) string {
	text := r.Policy.Message
	if r.message != nil {
		if out, err := a.eval(r.message); err == nil {
			text, _ = out.Value().(string)
		}
	}
	if text = tidy(text); text == "" {
		text = "its rule is not met"
	}
	return text
}

// require asks one placement policy for labels. by says which policy asked for
// each so far.
func (a *asking) require(r *Rule, job *Job, by map[string]string) {
	if !a.matched(r) {
		return
	}
	out, err := a.eval(r.require)
	var native any
	if err == nil {
		native, err = out.ConvertToNative(reflect.TypeFor[map[string]string]())
	}
	labels, _ := native.(map[string]string)
	if err == nil {
		err = usable(labels)
	}
	if err != nil {
		a.found(r, Failed, failure(r, "require", err), nil)
		return
	}
	enforced := r.Policy.Mode == ares.Enforce && r.Policy.Action == ares.RequireLabels
	news := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value, asked, other := labels[key], job.NodeSelector[key], by[key]
		switch {
		case asked == value:
			continue // the job says so itself
		case enforced && asked != "":
			a.found(r, Rejected, fmt.Sprintf("policy %s requires node label %s=%s, the job asks for %s=%s: leave it out of placement.node_selector", r.Policy.Name, key, value, key, asked), nil)
			return
		case other != "" && a.verdict.Labels[key] == value:
			continue
		case enforced && other != "":
			a.found(r, Rejected, fmt.Sprintf("policy %s requires node label %s=%s and policy %s %s=%s: no node has both", r.Policy.Name, key, value, other, key, a.verdict.Labels[key]), nil)
			return
		}
		news[key] = value
	}
	a.needed(r, news, by, enforced)
}

// needed notes the labels that a policy wants and the job does not name itself.
func (a *asking) needed(r *Rule, labels, by map[string]string, enforced bool) {
	if len(labels) == 0 {
		a.found(r, Allowed, "", nil)
		return
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		pairs = append(pairs, key+"="+labels[key])
	}
	word := "label"
	if len(pairs) > 1 {
		word = "labels"
	}
	outcome, verb := Required, "requires"
	if !enforced {
		outcome, verb = Warned, "would require"
	}
	text := fmt.Sprintf("policy %s %s node %s %s", r.Policy.Name, verb, word, strings.Join(pairs, ", "))
	if said := tidy(r.Policy.Message); said != "" {
		text += ": " + said
	}
	if !enforced {
		a.found(r, outcome, text, nil)
		return
	}
	if a.verdict.Labels == nil {
		a.verdict.Labels = map[string]string{}
	}
	for key, value := range labels { // order-free: each for itself
		a.verdict.Labels[key], by[key] = value, r.Policy.Name
	}
	a.found(r, outcome, text, labels)
}

// maxLabels bounds what one policy may ask of nodes.
const maxLabels = 16

// usable says whether labels may become part of a job.
func usable(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("asks for %d labels, at most %d are taken", len(labels), maxLabels)
	}
	for k, v := range labels { // order-free: the text is the same
		if k == "" || len(k) > ares.MaxNameBytes || len(v) > ares.MaxNameBytes || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return errors.New("asks for a label that cannot be one")
		}
	}
	return nil
}

// errDear is why a policy is not asked any more.
var errDear = errors.New("all policies together cost too much")

// eval evaluates one expression, unless what all may cost is used up: the last
// one may pass that by its own limit.
func (a *asking) eval(program cel.Program) (ref.Val, error) {
	if a.verdict.Cost >= MaxTotalCost {
		return nil, errDear
	}
	out, details, err := program.Eval(a.values)
	if details != nil && details.ActualCost() != nil {
		a.verdict.Cost += *details.ActualCost()
	}
	return out, err
}

// failure says that an evaluation failed, and of what kind that was. The words of
// CEL are left out: they may quote the expression.
func failure(r *Rule, field string, err error) string {
	kind := "it fails for this request; try it with `ares policy test`"
	switch text := err.Error(); {
	case errors.Is(err, errDear):
		kind = fmt.Sprintf("all policies together cost more than %d", MaxTotalCost)
	case strings.Contains(text, "cost limit"):
		kind = fmt.Sprintf("it costs more than %d for this request", MaxCost)
	case strings.Contains(text, "memory limit"):
		kind = fmt.Sprintf("it holds more than %d values for this request", maxMemory)
	case strings.Contains(text, "no such key"):
		kind = "it reads a label or key that is not there: it should ask with 'in' first"
	case strings.Contains(text, "divi") || strings.Contains(text, "modulus"):
		kind = "it divides by zero"
	case strings.Contains(text, "overflow"):
		kind = "a number in it becomes too large"
	}
	return fmt.Sprintf("policy %s: its %s cannot be evaluated: %s", r.Policy.Name, field, kind)
}

// tidy makes a message one line of bounded length without control characters.
func tidy(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if len(s) > ares.MaxPolicyTextBytes {
		s = strings.ToValidUTF8(s[:ares.MaxPolicyTextBytes], "") + "…"
	}
	return strings.TrimSpace(s)
}
