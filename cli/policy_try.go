package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/policy"
)

// policyFile is what a file holds.
type policyFile struct {
	policies []*apipb.Policy
	cases    []policy.Case
}

// caseSaid is a case as it is written: its job is read like any other.
type caseSaid struct {
	policy.Case

	Job json.RawMessage `json:"job"`
}

func (a *app) policyTestCommand() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use: "test -f FILE", Short: "Try policies on cases, without a server",
		Long: `Reads policies and cases, asks the policies about each case and compares. A case is a
job with its tenant, usage and user, or a request with its object and user, and what is
expected: allow, policies, message, warnings, labels, outcomes.`,
		Example: `  ares policy test -f budget.yaml
  ares policy test -f policies.yaml -f cases.yaml`,
		Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			if len(files) == 0 {
				return usagef("name a file with policies and cases: ares policy test -f FILE")
			}
			var all policyFile
			for _, name := range files {
				f, err := a.readPolicies(name)
				if err != nil {
					return err
				}
				all.policies, all.cases = append(all.policies, f.policies...), append(all.cases, f.cases...)
			}
			if err := a.tryCases(all, a.out); err != nil {
				return err // a mistake in a rule before all
			}
			if len(all.cases) == 0 {
				return usagef("there is no case in it: add a list under \"cases:\"")
			}
			return nil
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "file with policies and cases, YAML or JSON, - for standard input; may be repeated")
	return c
}

// tryCases tries every case, and fails when one is not as expected.
func (a *app) tryCases(f policyFile, w io.Writer) error {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return err
	}
	var rules []*policy.Rule
	for _, m := range f.policies {
		r, err := compiler.Compile(policySaid(m))
		if err != nil {
			return fmt.Errorf("policy %s: %w", m.GetName(), err)
		}
		rules = append(rules, r)
	}
	set := policy.NewSet(rules)
	var wrong []string
	for i := range f.cases {
		c := &f.cases[i]
		differs := set.Check(c)
		if len(differs) == 0 {
			say(w, "ok    %s\n", clean(c.Name))
			continue
		}
		wrong = append(wrong, fmt.Sprintf("case %q: %s", c.Name, strings.Join(differs, "; ")))
		say(w, "FAIL  %s\n", clean(c.Name))
		for _, text := range differs {
			say(w, "      %s\n", clean(text))
		}
	}
	if len(wrong) == 0 {
		if len(f.cases) > 0 {
			say(w, "%s as expected\n", count(len(f.cases), "case"))
		}
		return nil
	}
	if w == io.Discard {
		return ares.Errorf(ares.Invalid, "%s", strings.Join(wrong, "; "))
	}
	return fmt.Errorf("%d of %s not as expected", len(wrong), count(len(f.cases), "case"))
}

// policySaid is a policy as the server would read it.
func policySaid(m *apipb.Policy) ares.Policy {
	return ares.Policy{
		Name: m.GetName(), Tenant: m.GetTenantId(), On: ares.PolicyPoint(m.GetOn()), Match: m.GetMatch(), Rule: m.GetRule(), Require: m.GetRequire(),
		Action: ares.PolicyAction(m.GetAction()), Message: m.GetMessage(), MessageExpression: m.GetMessageExpression(), Mode: ares.PolicyMode(m.GetMode()),
		Alert: m.GetAlert(), Priority: int(m.GetPriority()), Why: m.GetWhy(),
	}.WithDefaults()
}

// readPolicies reads a file: one policy for each document, or lists under
// "policies:" and "cases:".
func (a *app) readPolicies(name string) (policyFile, error) {
	var out policyFile
	if name == "" {
		return out, usagef("name a file with -f FILE, - for standard input")
	}
	data, err := a.readFile(name)
	if err != nil {
		return out, err
	}
	documents, err := toJSON(data)
	if err != nil {
		return out, in(name, err)
	}
	for _, doc := range documents {
		if err = out.add(doc); err != nil {
			return out, in(name, err)
		}
	}
	return out, nil
}

func (f *policyFile) add(doc []byte) error {
	var lists struct {
		Policies []json.RawMessage `json:"policies"`
		Cases    []json.RawMessage `json:"cases"`
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(doc, &keys); err != nil {
		return ares.Errorf(ares.Invalid, "want a policy, or lists under policies: and cases:")
	}
	if keys["policies"] == nil && keys["cases"] == nil {
		lists.Policies = []json.RawMessage{doc}
	} else if err := strict(doc, &lists); err != nil {
		return err
	}
	for i, one := range lists.Policies {
		m := &apipb.Policy{}
		if err := apipb.UnmarshalJSON(one, m); err != nil {
			return fmt.Errorf("policy %d: %w", i+1, err)
		}
		f.policies = append(f.policies, m)
	}
	for i, one := range lists.Cases {
		c, err := readCase(one)
		if c.Name == "" {
			c.Name = fmt.Sprintf("case %d", i+1)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		f.cases = append(f.cases, c)
	}
	return nil
}

func readCase(doc []byte) (policy.Case, error) {
	said := caseSaid{Case: policy.NewCase()}
	if err := strict(doc, &said); err != nil {
		return said.Case, err
	}
	if said.Job != nil {
		spec := &apipb.JobSpec{}
		if err := apipb.UnmarshalJSON(said.Job, spec); err != nil {
			return said.Case, fmt.Errorf("job: %w", err)
		}
		said.Case.Job = spec.Spec()
	}
	e := &said.Expect
	if e.Allow == nil && len(e.Policies)+len(e.Warnings)+len(e.Labels)+len(e.Outcomes) == 0 && e.Message == "" {
		return said.Case, ares.Errorf(ares.Invalid, "expects nothing: say expect: {allow: true}, or what else it should come to")
	}
	return said.Case, nil
}

// strict reads JSON that has no other keys than those there are.
func strict(doc []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return ares.Errorf(ares.Invalid, "%s", strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "there is no key", 1))
	}
	return nil
}
