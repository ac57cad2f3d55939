package admin

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/policy"
)

func (a *commands) policyCommand() *cobra.Command {
	return command.Group("policy", "Manage policies for submissions, placement and access", "  ares policy list",
		`A policy is a CEL expression that must be true for a request to be allowed, such as

  tenant.gpu_hours < tenant.quota

Try a new policy with "ares policy test" first. Before you enforce the policy, apply it with
"mode: dry-run" or "mode: warn". "mode: dry-run" only counts violations, and "mode: warn" warns
users. See docs/guide/policy.md for fields and examples.`,
		a.policyApplyCommand(), a.policyListCommand(), a.policyGetCommand(), a.policyDeleteCommand(), a.policyTestCommand(), a.policyFieldsCommand())
}

func (a *commands) policyApplyCommand() *cobra.Command {
	var file string
	var check bool
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Create or replace policies",
		Long: `Create or replace the policies in a file. The file contains one policy, several YAML documents,
or a list under "policies:". A policy can also have the short form under the key "policy:" (name,
rule, action, alert). The command then prints the name and the alert channels of the resulting
policy. The command runs the test cases in the file and checks every policy before it writes any
policy.`,
		Example: `  ares policy apply --check -f budget.yaml
  ares policy apply -f budget.yaml`,
		Args: command.ExactArgs(),
	}
	c.RunE = a.WithClient(func(ctx context.Context, cl *client.Client, _ []string) error {
		f, err := a.readPolicies(file)
		if err != nil {
			return err
		}
		if len(f.policies) == 0 {
			return command.InFile(file, ares.Errorf(ares.Invalid, "the file has no policy"))
		}
		if len(f.cases) > 0 {
			if err = a.tryCases(f, io.Discard); err != nil {
				return command.InFile(file, err)
			}
		}
		a.printNotes(&f)
		for _, p := range f.policies {
			if _, err = cl.ApplyPolicy(ctx, p, true); err != nil {
				return fmt.Errorf("policy %s: %w", p.GetName(), err)
			}
		}
		if check {
			output.Printf(a.Out, "%s checked, none written\n", output.Count(len(f.policies), "policy"))
			return nil
		}
		for _, p := range f.policies {
			got, err := cl.ApplyPolicy(ctx, p, false)
			if err != nil {
				return fmt.Errorf("policy %s: %w", p.GetName(), err)
			}
			output.Printf(a.Out, "%s %s (%s, %s)\n", output.Clean(got.GetPolicy().GetName()), got.GetStatus(), output.Clean(got.GetPolicy().GetOn()), output.Clean(got.GetPolicy().GetMode()))
			for _, warning := range got.GetWarnings() {
				output.Printf(a.Err, "ares: warning: %s\n", output.Clean(warning))
			}
		}
		return nil
	})
	c.Flags().StringVarP(&file, "file", "f", "", "file with the policies, YAML or JSON; - for standard input")
	c.Flags().BoolVar(&check, "check", false, "check the policies on the server without writing them")
	return c
}

func (a *commands) policyListCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List policies in the order of evaluation", Example: "  ares policy list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Policies(ctx, tenant) },
				func(m proto.Message) *output.Table { return a.policyTable(m.(*apipb.ListPoliciesResponse)) })
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "only policies of this tenant")
	return o.AddList(c)
}

func (a *commands) policyTable(list *apipb.ListPoliciesResponse) *output.Table {
	t := &output.Table{Head: []string{"POLICY", "FOR", "ON", "MODE", "ACTION", "PRIORITY", "ALERT", "RULE"}, Empty: "No policies. Create one with \"ares policy apply -f FILE\".",
		Drop: []string{"ALERT", "PRIORITY", "FOR", "ACTION"}}
	for _, p := range list.GetPolicies() {
		rule := p.GetRule() + p.GetRequire()
		if p.GetBroken() != "" {
			rule = "INVALID: see ares policy get " + p.GetName()
		}
		t.Add(p.GetName(), policyScope(p), p.GetOn(), p.GetMode(), p.GetAction(), strconv.Itoa(int(p.GetPriority())), strings.Join(p.GetAlert(), ","), oneLine(rule))
	}
	return t
}

// policyScope returns the tenant that a policy applies to, or a text for all tenants.
func policyScope(p *apipb.Policy) string {
	if p.GetTenantId() == "" {
		return "all"
	}
	return "tenant " + p.GetTenantId()
}

// oneLine formats an expression for one line of a list.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func (a *commands) policyGetCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := &cobra.Command{
		Use: "get NAME", Short: "Show one policy", Example: "  ares policy get gpu-budget", Args: command.ExactArgs("NAME"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Policy(ctx, tenant, args[0]) },
				func(w io.Writer, m proto.Message) { a.writePolicy(w, m.(*apipb.Policy)) })
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "tenant of the policy (default the platform)")
	return o.Add(c)
}

func (a *commands) writePolicy(w io.Writer, p *apipb.Policy) {
	s := output.NewSheet(w)
	s.Line("Policy", p.GetName())
	s.Line("For", policyScope(p))
	s.Line("On", p.GetOn())
	s.Line("Mode", p.GetMode())
	s.Line("Match", p.GetMatch())
	s.Line("Rule", p.GetRule())
	s.Line("Require", p.GetRequire())
	s.Line("Action", p.GetAction())
	s.Line("Message", p.GetMessage())
	s.Line("Message is", p.GetMessageExpression())
	s.Line("Alert", strings.Join(p.GetAlert(), ", "))
	s.Line("Priority", strconv.Itoa(int(p.GetPriority())))
	s.Line("Why", p.GetWhy())
	s.Line("Invalid", p.GetBroken())
	s.Line("Updated by", p.GetUpdatedBy())
	s.Line("Updated", a.When(p.GetUpdatedAt()))
}

func (a *commands) policyDeleteCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "delete NAME", Short: "Delete a policy", Example: "  ares policy delete gpu-budget", Args: command.ExactArgs("NAME"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeletePolicy(ctx, tenant, args[0]); err != nil {
				return err
			}
			output.Printf(a.Out, "%s deleted\n", output.Clean(args[0]))
			return nil
		}),
	}
	command.TenantFlag(c.Flags(), &tenant, "tenant of the policy (default the platform)")
	return c
}

func (a *commands) policyFieldsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fields", Short: "List the fields that expressions can read", Example: "  ares policy fields", Args: command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			t := output.Table{Head: []string{"FIELD", "TYPE", "ON", "WHAT"}}
			for _, f := range policy.Fields() {
				var on []string
				for _, point := range f.On {
					on = append(on, string(point))
				}
				t.Add(f.Name, f.Type, strings.Join(on, ","), f.Text)
			}
			a.WriteTable(a.Out, &t)
			return nil
		},
	}
}
