package admin

import (
	"cmp"
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) authCommand() *cobra.Command {
	return command.Group("auth", "Show your identity and permissions", "  ares auth whoami", "", a.whoAmICommand(), a.canICommand())
}

func (a *commands) whoAmICommand() *cobra.Command {
	var o output.Flags
	return o.Add(&cobra.Command{
		Use: "whoami", Short: "Show your identity and your roles", Example: "  ares auth whoami", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.WhoAmI(ctx) },
				func(w io.Writer, m proto.Message) { a.writeIdentity(w, m.(*apipb.WhoAmIResponse)) })
		}),
	})
}

func (a *commands) writeIdentity(w io.Writer, m *apipb.WhoAmIResponse) {
	s := output.NewSheet(w)
	s.Line("Name", m.GetName())
	s.Line("Credential", m.GetKind())
	s.Line("Tenant", m.GetTenantId())
	s.Line("Node", m.GetNodeId())
	s.List("Groups", m.GetGroups())
	s.List("Roles", bindingText(m.GetBindings()))
	if m.GetExpiresAt() != nil {
		s.Line("Valid until", a.When(m.GetExpiresAt()))
	}
}

// bindingText describes role bindings, one per line.
func bindingText(list []*apipb.Binding) []string {
	var out []string
	for _, b := range list {
		out = append(out, b.GetRole()+" in "+scopeText(b))
	}
	return out
}

func scopeText(b *apipb.Binding) string {
	switch {
	case b.GetTenantId() == "":
		return "all tenants"
	case b.GetQueue() == "":
		return b.GetTenantId()
	}
	return b.GetTenantId() + "/" + b.GetQueue()
}

func (a *commands) canICommand() *cobra.Command {
	var o output.Flags
	ask := &apipb.CanIRequest{}
	c := &cobra.Command{
		Use: "can-i VERB", Short: "Check whether you have a permission", Args: command.ExactArgs("VERB"),
		Long: `Check whether you have a permission. If you have it, the command prints "yes" and exits with 0. If
not, it prints "no" with the reason and exits with 3. For an unknown verb, it prints the list of
verbs.`,
		Example: "  ares auth can-i job.submit --tenant-id vision --queue training\n  ares auth can-i node.write --tenant-id '*'",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			ask.Verb = args[0]
			got, err := c.CanI(ctx, ask)
			if err != nil {
				return err
			}
			err = a.Print(&o, got, func(w io.Writer, _ proto.Message) {
				if got.GetAllowed() {
					output.Printf(w, "yes\n")
				} else {
					output.Printf(w, "no: %s\n", output.Clean(got.GetReason()))
				}
			})
			if err == nil && !got.GetAllowed() {
				err = &exit.Error{Code: exit.Refused}
			}
			return err
		}),
	}
	c.Flags().StringVar(&ask.TenantId, "tenant-id", "", "tenant of the permission; '*' for all (default your own)")
	c.Flags().StringVar(&ask.Queue, "queue", "", "queue of the role (default all queues of the tenant)")
	o.AddOutput(c)
	return c
}

func (a *commands) tokenCommand() *cobra.Command {
	return command.Group("token", "Manage service tokens", "  ares token list",
		`A service token belongs to a tenant or to the platform. The token's role bindings determine
its permissions. A token is printed only once, by "ares token create", because the server
stores only its hash.`,
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

func (a *commands) tokenCreateCommand() *cobra.Command {
	var o output.Flags
	var roles []string
	var queue, expires string
	ask := &apipb.CreateTokenRequest{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Create a service token and print it once", Args: command.ExactArgs("NAME"),
		Example: "  ares token create ci --tenant-id vision --role submitter --queue training --expires 30d > ci.token\n" +
			"  ares token create metrics --role viewer",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			ask.Name = args[0]
			if len(roles) == 0 {
				return exit.Usagef("--role is missing: use, for example, --role submitter")
			}
			for _, r := range roles {
				ask.Bindings = append(ask.Bindings, &apipb.Binding{Role: r, TenantId: ask.GetTenantId(), Queue: queue})
			}
			life, err := command.ReadDurationWithin("expires", expires, "1m", "366d")
			if err != nil {
				return err
			}
			ask.LifetimeSeconds = int64(life / time.Second)
			made, err := c.CreateToken(ctx, ask)
			if err != nil {
				return err
			}
			if o.Format == "table" {
				output.Printf(a.Err, "token %s is valid until %s; it is not shown again\n", output.Clean(made.GetRecord().GetSubject()), a.When(made.GetRecord().GetExpiresAt()))
			}
			return a.Print(&o, made, func(w io.Writer, _ proto.Message) { output.Printf(w, "%s\n", output.Clean(made.GetToken())) })
		}),
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&ask.TenantId, "tenant-id", "", "tenant of the token (default all tenants)")
	f.StringVar(&queue, "queue", "", "only this queue of the tenant")
	f.StringSliceVar(&roles, "role", nil, "role: platform-admin, tenant-admin, submitter, viewer, auditor or agent; may be repeated")
	f.StringVar(&expires, "expires", "90d", "lifetime, at most 366d")
	o.AddOutput(c)
	return c
}

func (a *commands) tokenListCommand() *cobra.Command {
	var o output.Flags
	var tenant string
	c := o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List service tokens without their secrets", Example: "  ares token list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tokens(ctx, tenant) },
				func(m proto.Message) *output.Table { return a.tokenTable(m.(*apipb.ListTokensResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only tokens of this tenant")
	return c
}

func (a *commands) tokenTable(list *apipb.ListTokensResponse) *output.Table {
	t := &output.Table{Head: []string{"TOKEN", "ROLES", "CREATED BY", "VALID UNTIL"},
		Drop: []string{"CREATED BY", "VALID UNTIL"}, Flex: []string{"ROLES"}, Passing: []string{"VALID UNTIL"}}
	for _, k := range list.GetTokens() {
		until := "-"
		if k.GetExpiresAt() != nil {
			until = a.When(k.GetExpiresAt())
		}
		t.Add(strings.TrimPrefix(k.GetSubject(), "token:"), strings.Join(bindingText(k.GetBindings()), "; "), cmp.Or(k.GetCreatedBy(), "-"), until)
	}
	return t
}

func (a *commands) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "Revoke a service token; its calls are rejected and its open streams end at once", Args: command.ExactArgs("TOKEN"),
		Example: "  ares token revoke vision/ci",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, ok := strings.Cut(args[0], "/")
			if !ok {
				tenant, name = "", args[0]
			}
			if err := c.RevokeToken(ctx, tenant, name); err != nil {
				return err
			}
			output.Printf(a.Out, "%s revoked\n", output.Clean(args[0]))
			return nil
		}),
	}
}
