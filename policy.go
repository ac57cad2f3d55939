package ares

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Policy is a rule that people wrote: on what is submitted, on where it runs, or
// on who may call what. Its expressions are CEL; package policy reads them.
type Policy struct {
	Name   string
	Tenant string // whose jobs, or whose objects, it is about; "" for all
	On     PolicyPoint
	// Match says whom the rule is about, "" for everybody.
	Match string
	// Rule is true of what is allowed; of submission and access.
	Rule string
	// Require is the labels that a node must have; of placement.
	Require string
	Action  PolicyAction
	// Message is what whoever breaks the rule is told, MessageExpression an
	// expression for it. At most one is given.
	Message           string
	MessageExpression string
	Mode              PolicyMode
	Alert             []string // channels that are told when it is broken
	Priority          int      // higher ones are asked first
	Why               string   // for people
	By                string
	At                time.Time
	Revision          int64
}

// PolicyPoint is when a policy is asked.
type PolicyPoint string

// The points.
const (
	OnSubmission PolicyPoint = "submission" // a job is submitted
	OnPlacement  PolicyPoint = "placement"  // a job is submitted: which nodes it may have
	OnAccess     PolicyPoint = "access"     // a method is called
)

// PolicyPoints lists them.
func PolicyPoints() []PolicyPoint { return []PolicyPoint{OnSubmission, OnPlacement, OnAccess} }

// PolicyAction is what becomes of what breaks a rule.
type PolicyAction string

// The actions.
const (
	RejectJob     PolicyAction = "REJECT_JOB"     // the job is refused
	DenyAccess    PolicyAction = "DENY_ACCESS"    // the call is refused
	RequireLabels PolicyAction = "REQUIRE_LABELS" // the job goes only to nodes with the labels
	Warn          PolicyAction = "WARN"           // who submitted it is told
)

// PolicyActions lists the actions there are at a point, the usual one first.
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

// PolicyMode is how much a policy counts.
type PolicyMode string

// The modes.
const (
	Enforce  PolicyMode = "enforce" // its action is taken
	WarnOnly PolicyMode = "warn"    // its action becomes a warning
	DryRun   PolicyMode = "dry-run" // it is only counted
)

// PolicyModes lists them.
func PolicyModes() []PolicyMode { return []PolicyMode{Enforce, WarnOnly, DryRun} }

// Limits of policies.
const (
	MaxPolicies        = 256 // of all scopes together
	MaxTenantPolicies  = 32  // that one tenant has of its own
	MaxExpressionBytes = 2048
	MaxPolicyTextBytes = 512 // of a message, and of why
	MaxPolicyChannels  = 8
	MaxPolicyPriority  = 1_000_000 // and as much below zero
)

// ID is unique among all policies: names are a tenant's own.
func (p *Policy) ID() string { return PolicyID(p.Tenant, p.Name) }

// PolicyID is the ID of a tenant's policy, or, for the tenant "", of one for all.
func PolicyID(tenant, name string) string {
	if tenant == "" {
		tenant = "*" // which is no tenant's name
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

// WithDefaults returns the policy with what was not said filled in.
func (p Policy) WithDefaults() Policy {
	fill(&p.Mode, Enforce)
	if actions := PolicyActions(p.On); len(actions) > 0 {
		fill(&p.Action, actions[0])
	}
	return p
}

// Check tells every mistake but those inside the expressions. Defaults are
// filled in before.
func (p *Policy) Check() error {
	var bad Problems
	if !ValidName(p.Name) {
		bad.Add("name", "%q is not a name: use letters, digits, '.', '-' and '_', at most 63, a letter or digit first", clip(p.Name))
	}
	if p.Tenant != "" && !ValidName(p.Tenant) {
		bad.Add("tenant_id", "%q is not a tenant's ID: name one, or leave it out for all", clip(p.Tenant))
	}
	knownWord(&bad, "on", p.On, PolicyPoints())
	if slices.Contains(PolicyPoints(), p.On) {
		knownWord(&bad, "action", p.Action, PolicyActions(p.On))
	}
	knownWord(&bad, "mode", p.Mode, PolicyModes())
	if p.On == OnAccess && p.Mode == WarnOnly {
		bad.Add("mode", "an access policy has nobody to warn: use enforce or dry-run")
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
			bad.Add("alert", "%q is not the name of a channel", clip(channel))
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
	bad.Add(field, "%q is unknown: use %s", clip(string(v)), strings.Join(words, ", "))
}

// checkExpressions sees that the right ones are given and that none is too long:
// that is so before anything parses them.
func (p *Policy) checkExpressions(bad *Problems) {
	for _, e := range []struct{ field, value string }{
		{"match", p.Match}, {"rule", p.Rule}, {"require", p.Require}, {"message_expression", p.MessageExpression},
	} {
		if len(e.value) > MaxExpressionBytes {
			bad.Add(e.field, "is %d bytes long, at most %d are taken: make several policies of it", len(e.value), MaxExpressionBytes)
		} else if !utf8.ValidString(e.value) || strings.ContainsRune(e.value, 0) {
			bad.Add(e.field, "must be text in UTF-8")
		}
	}
	place := p.On == OnPlacement
	switch {
	case place && p.Require == "":
		bad.Add("require", `is missing: a placement policy says which labels a node must have, such as {"pool": "a100"}`)
	case !place && p.Rule == "":
		bad.Add("rule", "is missing: an expression that is true of what is allowed, such as job.gpus <= 8")
	}
	if place && p.Rule != "" {
		bad.Add("rule", "is not for placement: use match to say whom it is about")
	}
	if !place && p.Require != "" {
		bad.Add("require", "is for placement alone: set on: placement")
	}
	if place && p.MessageExpression != "" {
		bad.Add("message_expression", "is not for placement: the labels are told by themselves")
	}
	if p.Message != "" && p.MessageExpression != "" {
		bad.Add("message_expression", "give it or message, not both")
	}
}

// PolicyNote is what a policy said of a job that was accepted.
type PolicyNote struct {
	Policy string // its name
	Text   string
	Labels map[string]string // that it added to the job's node_selector, nil for none
}

// Required says whether a policy requires labels of the job's nodes: to drop its
// node_selector would not help it.
func (j *Job) Required() bool {
	return slices.ContainsFunc(j.Notes, func(n PolicyNote) bool { return len(n.Labels) > 0 })
}

// Told is what people are told of a transition of a job: with its acceptance,
// what policies said of it.
func (j *Job) Told(t Transition) string {
	if t.Message != accepted {
		return t.Message
	}
	text := t.Message
	for _, n := range j.Notes {
		text += "; " + n.Text
	}
	return text
}

// Same says whether two policies say the same, whoever wrote them and when.
func (p *Policy) Same(q *Policy) bool {
	return p.Name == q.Name && p.Tenant == q.Tenant && p.On == q.On && p.Match == q.Match && p.Rule == q.Rule && p.Require == q.Require &&
		p.Action == q.Action && p.Message == q.Message && p.MessageExpression == q.MessageExpression && p.Mode == q.Mode &&
		p.Priority == q.Priority && p.Why == q.Why && slices.Equal(p.Alert, q.Alert)
}
