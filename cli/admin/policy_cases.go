package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/policy"
)

// policyFile is the content of one or several policy files.
type policyFile struct {
	policies []*apipb.Policy
	cases    []policy.Case
	notes    []string // about policies that were translated
}

// caseFile is a test case in a policy file. A test case describes its job with the same fields as a
// job file.
type caseFile struct {
	policy.Case

	Job json.RawMessage `json:"job"`
}

func (a *commands) policyTestCommand() *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use: "test -f FILE", Short: "Run the test cases of policies, without a server",
		Long: `Evaluate the policies in a file for each test case in the same file. The command compares each
result with the expected result, which the case lists under "expect". A case describes either a
job (with tenant, usage and user) or a request (with object and user). "expect" can contain
allow, policies, message, warnings, labels and outcomes.`,
		Example: "  ares policy test -f budget.yaml",
		Args:    command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if len(files) == 0 {
				return exit.Usagef("-f is missing: ares policy test -f FILE")
			}
			var all policyFile
			for _, name := range files {
				f, err := a.readPolicies(name)
				if err != nil {
					return err
				}
				all.policies, all.cases = append(all.policies, f.policies...), append(all.cases, f.cases...)
			}
			if err := a.tryCases(all, a.Out); err != nil {
				return err // report a mistake in a policy before missing cases
			}
			if len(all.cases) == 0 {
				return exit.Usagef("the file has no cases: add a list under \"cases:\"")
			}
			return nil
		},
	}
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "file with policies and cases, YAML or JSON, - for standard input; may be repeated")
	return c
}

// tryCases evaluates every test case and fails if a result differs from the expected one.
func (a *commands) tryCases(f policyFile, w io.Writer) error {
	compiler, err := policy.NewCompiler()
	if err != nil {
		return err
	}
	var rules []*policy.Rule
	for _, m := range f.policies {
		r, err := compiler.Compile(policyFromMessage(m))
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
			output.Printf(w, "ok    %s\n", output.Clean(c.Name))
			continue
		}
		wrong = append(wrong, fmt.Sprintf("case %q: %s", c.Name, strings.Join(differs, "; ")))
		output.Printf(w, "FAIL  %s\n", output.Clean(c.Name))
		for _, text := range differs {
			output.Printf(w, "      %s\n", output.Clean(text))
		}
	}
	if len(wrong) == 0 {
		if len(f.cases) > 0 {
			output.Printf(w, "%s as expected\n", output.Count(len(f.cases), "case"))
		}
		return nil
	}
	if w == io.Discard {
		return ares.Errorf(ares.Invalid, "%s", strings.Join(wrong, "; "))
	}
	return fmt.Errorf("%d of %s did not have the expected result", len(wrong), output.Count(len(f.cases), "case"))
}

// policyFromMessage converts a policy from its API type, in the same way as the server does.
func policyFromMessage(m *apipb.Policy) ares.Policy {
	return ares.Policy{
		Name: m.GetName(), Tenant: m.GetTenantId(), On: ares.PolicyPoint(m.GetOn()), Match: m.GetMatch(), Rule: m.GetRule(), Require: m.GetRequire(),
		Action: ares.PolicyAction(m.GetAction()), Message: m.GetMessage(), MessageExpression: m.GetMessageExpression(), Mode: ares.PolicyMode(m.GetMode()),
		Alert: m.GetAlert(), Priority: int(m.GetPriority()), Why: m.GetWhy(),
	}.WithDefaults()
}

// readPolicies reads a policy file. Each YAML document in the file is one policy, or has lists
// under "policies:" and "cases:".
func (a *commands) readPolicies(name string) (policyFile, error) {
	var out policyFile
	if name == "" {
		return out, exit.Usagef("-f is missing: use -f FILE, or -f - for standard input")
	}
	data, err := a.ReadFile(name)
	if err != nil {
		return out, err
	}
	documents, err := command.ToJSON(data)
	if err != nil {
		return out, command.InFile(name, err)
	}
	for _, doc := range documents {
		if err = out.add(doc); err != nil {
			return out, command.InFile(name, err)
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
		return ares.Errorf(ares.Invalid, "the file must contain one policy, or an object with the lists \"policies\" and \"cases\"")
	}
	if one := documentPolicyOf(keys); one != nil {
		if err := f.addDocumentPolicy(one); err != nil {
			return err
		}
		delete(keys, "policy")
		var err error
		if doc, err = json.Marshal(keys); err != nil || len(keys) == 0 {
			return err
		}
		if err = strict(doc, &lists); err != nil {
			return fmt.Errorf("beside \"policy\": %w", err)
		}
	} else if keys["policies"] == nil && keys["cases"] == nil {
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
	said := caseFile{Case: policy.NewCase()}
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
		return said.Case, ares.Errorf(ares.Invalid, "the case has no expectation: add, for example, expect: {allow: true}")
	}
	return said.Case, nil
}

// The function `strict` parses JSON and returns an error for unknown keys.
func strict(doc []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return ares.Errorf(ares.Invalid, "%s", strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "there is no key", 1))
	}
	return nil
}
