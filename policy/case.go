package policy

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Case is a request with the expected result of the policies. If Request is set, the test case is
// an API call. If Request is not set, the test case is a job submission.
type Case struct {
	Name    string    `json:"name"`
	Job     ares.Spec `json:"job"`
	Tenant  Tenant    `json:"tenant"`
	Usage   Usage     `json:"usage"`
	User    User      `json:"user"`
	Request Request   `json:"request"`
	Object  Object    `json:"object"`
	Now     time.Time `json:"now"`
	Expect  Expect    `json:"expect"`
}

// Expect is the expected result of a case. Missing fields of Expect are not compared.
type Expect struct {
	// Allow says whether the job or the call is accepted.
	Allow *bool `json:"allow"`
	// Policies are the policies that must reject the request, in any order.
	Policies []string `json:"policies"`
	// Message is a text that the rejection must contain.
	Message string `json:"message"`
	// Warnings lists texts. Each text must be part of one of the notes for the submitter.
	Warnings []string `json:"warnings"`
	// Labels are the labels that nodes must have.
	Labels map[string]string `json:"labels"`
	// Outcomes maps the names of policies to their expected outcomes, including policies in
	// dry-run mode.
	Outcomes map[string]Outcome `json:"outcomes"`
}

// NewCase returns the default case, with a tenant without limits.
func NewCase() Case {
	return Case{
		Tenant: Tenant{
			ID: ares.DefaultTenant, Name: ares.DefaultTenant, Quota: math.Inf(1), MaxGPUs: ares.Unlimited, MaxJobs: ares.Unlimited, MaxPending: ares.Unlimited,
			Weight: 1, MayPreempt: true,
		},
		User: User{Name: "somebody", Kind: string(ares.ByToken), Roles: []string{string(ares.Submitter)}},
		Now:  time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC),
	}
}

// Check evaluates the policies for a case, and lists the differences from the expected result. If
// the result is as expected, Check returns nil.
func (s *Set) Check(c *Case) []string {
	var v Verdict
	if c.Request != (Request{}) {
		v = s.Access(&Access{User: c.User, Request: c.Request, Object: c.Object, Now: c.Now})
	} else {
		v = s.Submission(&Input{Job: NewJob(c.Job), Tenant: c.Tenant, User: c.User, Usage: c.Usage, Now: c.Now})
	}
	return c.Expect.differs(&v)
}

func (e *Expect) differs(v *Verdict) []string {
	var out []string
	miss := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	text := ""
	if v.Err != nil {
		text = v.Err.Error()
	}
	if e.Allow != nil && *e.Allow != (v.Err == nil) {
		if *e.Allow {
			miss("expected to be allowed, refused: %s", text)
		} else {
			miss("expected to be refused, was allowed")
		}
	}
	var refusing []string
	for i := range v.Findings {
		if f := &v.Findings[i]; f.Policy.Mode == ares.Enforce && f.Policy.Action != ares.Warn && (f.Outcome == Rejected || f.Outcome == Failed) {
			refusing = append(refusing, f.Policy.Name)
		}
	}
	slices.Sort(refusing)
	if want := slices.Sorted(slices.Values(e.Policies)); len(want) > 0 && !slices.Equal(want, refusing) {
		miss("expected to be refused by %s, was by %s", strings.Join(want, ", "), cmp.Or(strings.Join(refusing, ", "), "none"))
	}
	if !strings.Contains(text, e.Message) {
		miss("expected a message with %q, got %q", e.Message, text)
	}
	for _, want := range e.Warnings {
		if !slices.ContainsFunc(v.Notes, func(n ares.PolicyNote) bool { return strings.Contains(n.Text, want) }) {
			miss("expected a warning with %q, got %s", want, notes(v.Notes))
		}
	}
	if e.Labels != nil && !maps.Equal(e.Labels, v.Labels) {
		miss("expected node labels %v, got %v", e.Labels, v.Labels)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Outcomes)) {
		if got := v.outcome(name); got != e.Outcomes[name] {
			miss("expected outcome %[2]s of policy %[1]s, was %[3]s", name, e.Outcomes[name], cmp.Or(string(got), "not asked"))
		}
	}
	return out
}

func notes(all []ares.PolicyNote) string {
	texts := make([]string, len(all))
	for i, n := range all {
		texts[i] = fmt.Sprintf("%q", n.Text)
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}

// The method `outcome` returns the outcome of a policy, or "" if it was not evaluated.
func (v *Verdict) outcome(name string) Outcome {
	for i := range v.Findings {
		if v.Findings[i].Policy.Name == name {
			return v.Findings[i].Outcome
		}
	}
	return ""
}
