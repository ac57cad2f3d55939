package ares

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Policy is a rule that administrators write for submissions, placement or access. A policy's expressions are
// written in CEL, and package policy evaluates them.
type Policy struct {
	Name   string
	Tenant string // the tenant whose jobs or objects it applies to; "" for all
	On     PolicyPoint
	// Match selects the jobs or callers that the policy applies to; "" selects all of them.
	Match string
	// Rule is an expression that is true when the request is allowed. Only submission and access policies have a
	// Rule.
	Rule string
	// Require is an expression that computes the labels that a node must have. Only placement
	// policies have a Require expression.
	Require string
	Action  PolicyAction
	// Message is the text shown for a violation. MessageExpression is an expression that computes the text shown for a violation. At
	// most one of Message and MessageExpression is set.
	Message           string
	MessageExpression string
	Mode              PolicyMode
	Alert             []string // notification channels for a violation
	Priority          int      // higher ones are evaluated first
	Why               string   // a comment for people
	By                string
	At                time.Time
	Revision          int64
}

// PolicyPoint says at which point a policy is evaluated.
type PolicyPoint string

// The points.
const (
	OnSubmission PolicyPoint = "submission" // a job is submitted
	OnPlacement  PolicyPoint = "placement"  // a job is submitted; the policy decides which nodes it may use
	OnAccess     PolicyPoint = "access"     // a method is called
)

// PolicyPoints lists the points at which policies are evaluated.
func PolicyPoints() []PolicyPoint { return []PolicyPoint{OnSubmission, OnPlacement, OnAccess} }

// PolicyAction is the effect of a violation.
type PolicyAction string

// The actions.
const (
	RejectJob     PolicyAction = "REJECT_JOB"     // the job is rejected
	DenyAccess    PolicyAction = "DENY_ACCESS"    // the call is denied
	RequireLabels PolicyAction = "REQUIRE_LABELS" // the job is placed only on nodes with the labels
	Warn          PolicyAction = "WARN"           // the submitter is warned
)

// PolicyActions lists the actions that a policy at the given point can have, the default action
// first.
func PolicyActions(on PolicyPoint) []PolicyAction {
	switch on {
	case OnSubmission:
		return []PolicyAction{RejectJob, Warn}
	case OnPlacement:
		return []PolicyAction{RequireLabels, Warn}
	case OnAccess:
		return []PolicyAction{DenyAccess}
	}
	return nil
}

// PolicyMode says how strictly a policy is enforced.
type PolicyMode string

// The modes.
const (
	Enforce  PolicyMode = "enforce" // its action is carried out
	WarnOnly PolicyMode = "warn"    // its action becomes a warning
	DryRun   PolicyMode = "dry-run" // violations are only counted
)

// PolicyModes lists all modes.
func PolicyModes() []PolicyMode { return []PolicyMode{Enforce, WarnOnly, DryRun} }

// Limits of policies.
const (
	MaxPolicies        = 256  // of the platform
	MaxTenantPolicies  = 32   // of one tenant
	MaxTenantsPolicies = 1024 // of all tenants together
	MaxExpressionBytes = 2048
	MaxPolicyTextBytes = 512 // for a message, and for a comment
	MaxPolicyChannels  = 8
	MaxPolicyPriority  = 1_000_000 // the lowest priority is the negative of this
)

// ID returns an ID that is unique among all policies. A name is unique only within its tenant.
func (p *Policy) ID() string { return PolicyID(p.Tenant, p.Name) }

// PolicyID returns the ID of a tenant's policy, or of a global policy if `tenant` is "".
func PolicyID(tenant, name string) string {
	if tenant == "" {
		tenant = "*" // no tenant can have this name
	}
	return tenant + "/" + name
}

// ParsePolicyID is the reverse of PolicyID.
func ParsePolicyID(id string) (tenant, name string) {
	tenant, name, _ = strings.Cut(id, "/")
	if tenant == "*" {
		tenant = ""
	}
	return tenant, name
}

// WithDefaults returns the policy with every missing field filled in.
func (p Policy) WithDefaults() Policy {
	fill(&p.Mode, Enforce)
	if actions := PolicyActions(p.On); len(actions) > 0 {
		fill(&p.Action, actions[0])
	}
	return p
}

// Check reports every mistake in a policy, except mistakes inside its expressions. WithDefaults must be
// applied to a policy before Check.
func (p *Policy) Check() error {
	var bad Problems
	if !ValidName(p.Name) {
		bad.Add("name", "%q is not a name: use letters, digits, '.', '-' and '_', at most 63, a letter or digit first", Clip(p.Name))
	}
	if p.Tenant != "" && !ValidName(p.Tenant) {
		bad.Add("tenant_id", "%q is not a tenant's ID: name one, or leave it out for all", Clip(p.Tenant))
	}
	knownWord(&bad, "on", p.On, PolicyPoints())
	if slices.Contains(PolicyPoints(), p.On) {
		knownWord(&bad, "action", p.Action, PolicyActions(p.On))
	}
	knownWord(&bad, "mode", p.Mode, PolicyModes())
	if p.On == OnAccess && p.Mode == WarnOnly {
		bad.Add("mode", "an access policy cannot warn: use enforce or dry-run")
	}
	p.checkExpressions(&bad)
	for _, text := range []struct{ field, value string }{{"message", p.Message}, {"why", p.Why}} {
		if len(text.value) > MaxPolicyTextBytes || !utf8.ValidString(text.value) {
			bad.Add(text.field, "must be text of at most %d bytes, got %d", MaxPolicyTextBytes, len(text.value))
		}
	}
	if len(p.Alert) > MaxPolicyChannels {
		bad.Add("alert", "at most %d channels, got %d", MaxPolicyChannels, len(p.Alert))
	}
	for _, channel := range p.Alert {
		if !ValidName(channel) {
			bad.Add("alert", "%q is not the name of a channel", Clip(channel))
		}
	}
	if p.Priority < -MaxPolicyPriority || p.Priority > MaxPolicyPriority {
		bad.Add("priority", "must be between %d and %d, got %d", -MaxPolicyPriority, MaxPolicyPriority, p.Priority)
	}
	return bad.Err()
}

func knownWord[T ~string](bad *Problems, field string, v T, known []T) {
	if slices.Contains(known, v) {
		return
	}
	words := make([]string, len(known))
	for i, k := range known {
		words[i] = string(k)
	}
	if v == "" {
		bad.Add(field, "is missing: use %s", strings.Join(words, ", "))
		return
	}
	bad.Add(field, "%q is unknown: use %s", Clip(string(v)), strings.Join(words, ", "))
}

// checkExpressions checks that the expressions fit the policy's point and that none is too long. It must run before any
// expression is parsed.
func (p *Policy) checkExpressions(bad *Problems) {
	for _, e := range []struct{ field, value string }{
		{"match", p.Match}, {"rule", p.Rule}, {"require", p.Require}, {"message_expression", p.MessageExpression},
	} {
		if len(e.value) > MaxExpressionBytes {
			bad.Add(e.field, "is %d bytes long, the limit is %d: split it into several policies", len(e.value), MaxExpressionBytes)
		} else if !utf8.ValidString(e.value) || strings.ContainsRune(e.value, 0) {
			bad.Add(e.field, "must be text in UTF-8")
		}
	}
	place := p.On == OnPlacement
	switch {
	case place && p.Require == "":
		bad.Add("require", `is missing: a placement policy says which labels a node must have, such as {"pool": "a100"}`)
	case !place && p.Rule == "":
		bad.Add("rule", "is missing: give an expression that is true for what is allowed, such as job.gpus <= 8")
	}
	if place && p.Rule != "" {
		bad.Add("rule", "is not for placement policies: use match to select jobs")
	}
	if !place && p.Require != "" {
		bad.Add("require", "is only for placement policies: set on: placement")
	}
	if place && p.MessageExpression != "" {
		bad.Add("message_expression", "is not for placement policies: the message is made from the labels")
	}
	if p.Message != "" && p.MessageExpression != "" {
		bad.Add("message_expression", "give it or message, not both")
	}
}

// PolicyNote is a note that a policy added to an accepted job.
type PolicyNote struct {
	Policy string // name of the policy
	Text   string
	Labels map[string]string // labels it added to the job's node_selector, nil for none
}

// Required reports whether a policy requires certain labels on the job's nodes. If so, the job's nodes must have these
// labels, even if the job has no node_selector.
func (j *Job) Required() bool {
	return slices.ContainsFunc(j.Notes, func(n PolicyNote) bool { return len(n.Labels) > 0 })
}

// TransitionText describes a job's transition in words. The text of the first transition, which
// records the acceptance, includes the notes of policies.
func (j *Job) TransitionText(t Transition) string {
	if t.Message != accepted {
		return t.Message
	}
	text := t.Message
	for _, n := range j.Notes {
		text += "; " + n.Text
	}
	return text
}

// Same reports whether two policies are equal except for their authors and times.
func (p *Policy) Same(q *Policy) bool {
	return p.Name == q.Name && p.Tenant == q.Tenant && p.On == q.On && p.Match == q.Match && p.Rule == q.Rule && p.Require == q.Require &&
		p.Action == q.Action && p.Message == q.Message && p.MessageExpression == q.MessageExpression && p.Mode == q.Mode &&
		p.Priority == q.Priority && p.Why == q.Why && slices.Equal(p.Alert, q.Alert)
}
