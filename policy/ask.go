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

// Outcome is the result of evaluating a policy.
type Outcome string

// The outcomes. In dry-run mode, violations are only counted.
const (
	Allowed   Outcome = "allowed"
	Unmatched Outcome = "unmatched" // the policy does not apply to the request
	Rejected  Outcome = "rejected"  // the rule is violated, and its action rejects
	Warned    Outcome = "warned"    // the rule is violated, and its action warns
	Required  Outcome = "required"  // it requires labels of the nodes
	Failed    Outcome = "failed"    // it could not be evaluated or read; counts as violated
)

// Finding is the result of one policy.
type Finding struct {
	Policy  *ares.Policy
	Outcome Outcome
	Text    string // for people, "" where there is nothing to say
}

// Counts is the method that reports whether the finding has an effect. A finding has an effect if the policy was
// violated and is not in dry-run mode.
func (f *Finding) Counts() bool {
	return f.Policy.Mode != ares.DryRun && (f.Outcome == Rejected || f.Outcome == Warned || f.Outcome == Failed)
}

// Verdict is the result of all policies together.
type Verdict struct {
	// Err is the rejection, or nil if no policy rejects the request. The error names each policy that rejects the
	// request, in the order of evaluation.
	Err error
	// Labels are the labels that nodes must have for the job.
	Labels map[string]string
	// Notes are the messages for the submitter of an accepted job. A note is either a warning, or it says which policy
	// requires which label.
	Notes    []ares.PolicyNote
	Findings []Finding
	Cost     uint64
}

// Set contains policies in the order of evaluation. A Set never changes.
type Set struct {
	jobs, places, calls []*Rule
	hours               bool
}

// NewSet orders rules. Rules with a higher priority come first. Among rules of equal priority, global rules come before
// rules of a tenant. All other rules are sorted by name.
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

// InOrder compares two rules by the order in which they are evaluated.
func InOrder(a, b *Rule) int {
	return cmp.Or(cmp.Compare(b.Policy.Priority, a.Policy.Priority), cmp.Compare(a.Policy.Tenant, b.Policy.Tenant), cmp.Compare(a.Policy.Name, b.Policy.Name))
}

// AsksJobs reports whether the set has policies for submissions. AsksHours reports whether a policy
// reads the GPU-hours that the tenant has used this month. AsksCalls reports whether the set has
// access policies.
func (s *Set) AsksJobs() bool  { return len(s.jobs)+len(s.places) > 0 }
func (s *Set) AsksHours() bool { return s.hours }
func (s *Set) AsksCalls() bool { return len(s.calls) > 0 }

// This type represents one evaluation of a set of policies.
type asking struct {
	values  map[string]any
	verdict Verdict
	refused []string
	by      []string // the policies that rejected
}

// Denied is a rejection by policies.
type Denied struct {
	Policies []string // their names
	cause    *ares.Error
}

func (d *Denied) Error() string { return d.cause.Error() }
func (d *Denied) Unwrap() error { return d.cause }

// Submission evaluates the submission policies and then, if none of them rejects the job, the
// placement policies.
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
	return a.end(ares.PolicyDenied)
}

// Access evaluates the access policies. Access policies only deny; they cannot grant a permission
// that the caller's roles do not include. A tenant's own policies do not apply to a platform-admin.
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

// This method reports whether a rule applies to objects of the given tenant.
func (r *Rule) about(tenant string) bool { return r.Policy.Tenant == "" || r.Policy.Tenant == tenant }

func (a *asking) end(code ares.Code) Verdict {
	if len(a.refused) > 0 {
		a.verdict.Err = &Denied{Policies: a.by, cause: ares.Errorf(code, "%s", strings.Join(a.refused, "; "))}
		a.verdict.Labels, a.verdict.Notes = nil, nil
	}
	return a.verdict
}

// This method stores a policy's result, and applies the policy's mode and action.
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

// This method reports whether a rule applies to the request. If the rule cannot be read or evaluated, the method stores the
// result Failed for the rule and returns false.
func (a *asking) matched(r *Rule) bool {
	if r.Broken != nil {
		a.found(r, Failed, fmt.Sprintf("policy %s cannot be read by this version of Ares: apply it again or delete it", r.Policy.Name), nil)
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

// This method evaluates one rule.
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

// The method `message` returns the text for a violation of a rule. The message does not contain the rule itself. The
// rule may contain names that not every user may see.
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

// This method evaluates one placement policy. The argument "by" is a map. It maps labels to policy names. The policy
// with that name is an earlier policy that required the label.
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
			continue // the job requires it itself
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

// This method stores the labels that a policy requires and that the job's own node selector lacks.
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
	for key, value := range labels { // order-free: each label is handled separately
		a.verdict.Labels[key], by[key] = value, r.Policy.Name
	}
	a.found(r, outcome, text, labels)
}

// maxLabels is the maximum number of labels that one policy may require.
const maxLabels = 16

// This function returns an error if a policy requires too many labels or a label that is not valid.
func usable(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("the policy requires %d labels, but the limit is %d", len(labels), maxLabels)
	}
	for k, v := range labels { // order-free: the error text does not depend on the order
		if k == "" || len(k) > ares.MaxNameBytes || len(v) > ares.MaxNameBytes || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return errors.New("the policy requires a label with an invalid key or value")
		}
	}
	return nil
}

// errDear is the error for a policy that was not evaluated. Earlier policies had used up the common cost limit.
var errDear = errors.New("the total evaluation cost of all policies is too high")

// `eval` evaluates one expression, unless the cost limit for all policies is used up. The last evaluation may exceed
// the common cost limit. The excess is at most the cost limit of a single expression.
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

// The function `failure` describes why an evaluation failed. The description leaves out CEL's own message, because that
// may quote the expression.
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
		kind = "it reads a label or key that does not exist: test for it with 'in' first"
	case strings.Contains(text, "divi") || strings.Contains(text, "modulus"):
		kind = "it divides by zero"
	case strings.Contains(text, "overflow"):
		kind = "a number in it becomes too large"
	}
	return fmt.Sprintf("policy %s: its %s cannot be evaluated: %s", r.Policy.Name, field, kind)
}

// The function `tidy` turns a message into one line of limited length without control characters.
func tidy(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
	if len(s) > ares.MaxPolicyTextBytes {
		s = ares.Truncate(s, ares.MaxPolicyTextBytes) + "…"
	}
	return strings.TrimSpace(s)
}
