package cli

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
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/policy"
)

func (a *app) policyCommand() *cobra.Command {
	return group("policy", "Write rules on what is submitted, where it runs and who may call what",
		`A policy is an expression in CEL that is true of what is allowed, such as

  tenant.gpu_hours < tenant.quota

Try one first with "ares policy test", then with mode: dry-run, where it is only counted,
or mode: warn, where who submits is told. docs/policy.md has the fields and examples.`,
		a.policyApplyCommand(), a.policyListCommand(), a.policyGetCommand(), a.policyDeleteCommand(), a.policyTestCommand(), a.policyFieldsCommand())
}

func (a *app) policyApplyCommand() *cobra.Command {
	var file string
	var check bool
	c := &cobra.Command{
		Use: "apply -f FILE", Short: "Write policies, new or in place of those of the same name",
		Long: `Reads one policy, several documents, or a list under "policies:". Cases in the file
are tried first, and every policy is checked before the first is written.`,
		Example: "  ares policy apply -f budget.yaml\n  ares policy apply --check -f budget.yaml",
		Args:    exactly(),
	}
	c.RunE = a.with(func(ctx context.Context, cl *client.Client, _ []string) error {
		f, err := a.readPolicies(file)
		if err != nil {
			return err
		}
		if len(f.policies) == 0 {
			return in(file, ares.Errorf(ares.Invalid, "there is no policy in it"))
		}
		if len(f.cases) > 0 {
			if err = a.tryCases(f, io.Discard); err != nil {
				return in(file, err)
			}
		}
		for _, p := range f.policies {
			if _, err = cl.ApplyPolicy(ctx, p, true); err != nil {
				return fmt.Errorf("policy %s: %w", p.GetName(), err)
			}
		}
		if check {
			say(a.out, "%s checked, nothing written\n", count(len(f.policies), "policy"))
			return nil
		}
		for _, p := range f.policies {
			got, err := cl.ApplyPolicy(ctx, p, false)
			if err != nil {
				return fmt.Errorf("policy %s: %w", p.GetName(), err)
			}
			say(a.out, "%s %s (%s, %s)\n", clean(got.GetPolicy().GetName()), got.GetStatus(), clean(got.GetPolicy().GetOn()), clean(got.GetPolicy().GetMode()))
			for _, warning := range got.GetWarnings() {
				say(a.err, "ares: warning: %s\n", clean(warning))
			}
		}
		return nil
	})
	c.Flags().StringVarP(&file, "file", "f", "", "file with the policies, YAML or JSON; - for standard input")
	c.Flags().BoolVar(&check, "check", false, "have the server check them, and write nothing")
	return c
}

func (a *app) policyListCommand() *cobra.Command {
	var o readFlags
	var tenant string
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List policies in the order they are asked", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Policies(ctx, tenant) },
				func(w io.Writer, m proto.Message) { a.writePolicies(w, m.(*apipb.ListPoliciesResponse)) })
		}),
	}
	tenantFlag(c.Flags(), &tenant, "only those that are about this tenant")
	return o.add(c)
}

func (a *app) writePolicies(w io.Writer, list *apipb.ListPoliciesResponse) {
	if len(list.GetPolicies()) == 0 {
		say(w, "No policies. \"ares policy apply -f FILE\" writes one.\n")
		return
	}
	t := table{head: []string{"POLICY", "FOR", "ON", "MODE", "ACTION", "PRIORITY", "ALERT", "RULE"}}
	for _, p := range list.GetPolicies() {
		rule := p.GetRule() + p.GetRequire()
		if p.GetBroken() != "" {
			rule = "CANNOT BE READ: see ares policy get " + p.GetName()
		}
		t.add(p.GetName(), whose(p), p.GetOn(), p.GetMode(), p.GetAction(), strconv.Itoa(int(p.GetPriority())), strings.Join(p.GetAlert(), ","), oneLine(rule))
	}
	t.write(w, a.color)
}

// whose says whom a policy is about.
func whose(p *apipb.Policy) string {
	if p.GetTenantId() == "" {
		return "all"
	}
	return "tenant " + p.GetTenantId()
}

// oneLine is an expression as a list shows it.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

func (a *app) policyGetCommand() *cobra.Command {
	var o readFlags
	var tenant string
	c := &cobra.Command{
		Use: "get NAME", Short: "Show one policy", Args: exactly("NAME"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Policy(ctx, tenant, args[0]) },
				func(w io.Writer, m proto.Message) { a.writePolicy(w, m.(*apipb.Policy)) })
		}),
	}
	tenantFlag(c.Flags(), &tenant, "whose it is (default one that is for all)")
	return o.add(c)
}

func (a *app) writePolicy(w io.Writer, p *apipb.Policy) {
	s := sheet{w}
	s.line("Policy", p.GetName())
	s.line("For", whose(p))
	s.line("On", p.GetOn())
	s.line("Mode", p.GetMode())
	s.line("Match", p.GetMatch())
	s.line("Rule", p.GetRule())
	s.line("Require", p.GetRequire())
	s.line("Action", p.GetAction())
	s.line("Message", p.GetMessage())
	s.line("Message is", p.GetMessageExpression())
	s.line("Alert", strings.Join(p.GetAlert(), ", "))
	s.line("Priority", strconv.Itoa(int(p.GetPriority())))
	s.line("Why", p.GetWhy())
	s.line("Cannot be read", p.GetBroken())
	s.line("Updated by", p.GetUpdatedBy())
	s.line("Updated", a.when(p.GetUpdatedAt()))
}

func (a *app) policyDeleteCommand() *cobra.Command {
	var tenant string
	c := &cobra.Command{
		Use: "delete NAME", Short: "Delete a policy", Args: exactly("NAME"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.DeletePolicy(ctx, tenant, args[0]); err != nil {
				return err
			}
			say(a.out, "%s deleted\n", clean(args[0]))
			return nil
		}),
	}
	tenantFlag(c.Flags(), &tenant, "whose it is (default one that is for all)")
	return c
}

func (a *app) policyFieldsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "fields", Short: "List what expressions can read", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			t := table{head: []string{"FIELD", "TYPE", "ON", "WHAT"}}
			for _, f := range policy.Fields() {
				var on []string
				for _, point := range f.On {
					on = append(on, string(point))
				}
				t.add(f.Name, f.Type, strings.Join(on, ","), f.Text)
			}
			t.write(a.out, a.color)
			return nil
		},
	}
}
