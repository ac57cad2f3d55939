package admin

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) bindingCommand() *cobra.Command {
	return command.Group("binding", "Manage role bindings of users, groups and tokens", "  ares binding list",
		`A binding gives a subject a role in all tenants, in one tenant, or in one queue.
A subject is a user (oidc:SUBJECT), a group (group:NAME) or a service token (token:NAME
or token:TENANT/NAME). You can grant only permissions that you have yourself. A binding
to a subject of another tenant takes effect when an administrator of that tenant or of
the platform has accepted it. For a user without bindings, and for the first binding of
a group in a tenant, only a platform administrator can do so.`,
		a.bindingCreateCommand(), a.bindingListCommand(), a.bindingAcceptCommand(), a.bindingDeleteCommand())
}

func bindingFlags(c *cobra.Command, b *apipb.Binding) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&b.Role, "role", "", "platform-admin, tenant-admin, submitter, viewer, auditor or agent")
	f.StringVar(&b.TenantId, "tenant-id", "", "tenant of the role (default all)")
	f.StringVar(&b.Queue, "queue", "", "queue of the role (default all queues of the tenant)")
}

func (a *commands) bindingCreateCommand() *cobra.Command {
	var o output.Flags
	b := &apipb.Binding{}
	c := &cobra.Command{
		Use: "create SUBJECT", Short: "Grant a role to a user, group or token", Args: command.ExactArgs("SUBJECT"),
		Example: "  ares binding create group:vision --role submitter --tenant-id vision\n" +
			"  ares binding create oidc:ops@example.org --role platform-admin",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			b.Subject = args[0]
			if b.Role == "" {
				return exit.Usagef("--role is missing: use, for example, --role submitter")
			}
			made, err := c.CreateBinding(ctx, b)
			if err != nil {
				return err
			}
			return a.Print(&o, made, func(w io.Writer, _ proto.Message) {
				if made.GetPending() {
					output.Printf(w, "%s becomes %s in %s when an administrator of its tenant or of the platform runs `ares binding accept`\n",
						output.Clean(made.GetSubject()), output.Clean(made.GetRole()), output.Clean(scopeText(made)))
					return
				}
				output.Printf(w, "%s is %s in %s\n", output.Clean(made.GetSubject()), output.Clean(made.GetRole()), output.Clean(scopeText(made)))
			})
		}),
	}
	bindingFlags(c, b)
	o.AddOutput(c)
	return c
}

func (a *commands) bindingAcceptCommand() *cobra.Command {
	var o output.Flags
	b := &apipb.Binding{}
	c := &cobra.Command{
		Use: "accept SUBJECT", Short: "Accept a role that another tenant grants to a subject of your tenant", Args: command.ExactArgs("SUBJECT"),
		Example: "  ares binding list --subject group:vision\n" +
			"  ares binding accept group:vision --role submitter --tenant-id vision",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			b.Subject = args[0]
			if b.Role == "" {
				return exit.Usagef("--role is missing: use, for example, --role submitter")
			}
			now, err := c.AcceptBinding(ctx, b)
			if err != nil {
				return err
			}
			return a.Print(&o, now, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s is %s in %s\n", output.Clean(now.GetSubject()), output.Clean(now.GetRole()), output.Clean(scopeText(now)))
			})
		}),
	}
	bindingFlags(c, b)
	o.AddOutput(c)
	return c
}

func (a *commands) bindingListCommand() *cobra.Command {
	var o output.Flags
	var tenant, subject string
	c := o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List role bindings", Example: "  ares binding list --tenant-id vision", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Bindings(ctx, tenant, subject) },
				func(m proto.Message) *output.Table {
					t := &output.Table{
						Head: []string{"SUBJECT", "ROLE", "IN", "STATE", "CREATED BY", "CREATED"},
						Drop: []string{"CREATED", "CREATED BY", "STATE"}, Flex: []string{"SUBJECT"}, Passing: []string{"CREATED"},
					}
					for _, b := range m.(*apipb.ListBindingsResponse).GetBindings() {
						state := "active"
						if b.GetPending() {
							state = "pending"
						}
						t.Add(b.GetSubject(), b.GetRole(), scopeText(b), state, b.GetCreatedBy(), a.When(b.GetCreatedAt()))
					}
					return t
				})
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only bindings in this tenant")
	c.Flags().StringVar(&subject, "subject", "", "only bindings of this subject")
	return c
}

func (a *commands) bindingDeleteCommand() *cobra.Command {
	b := &apipb.Binding{}
	c := &cobra.Command{
		Use: "delete SUBJECT", Short: "Revoke a role", Example: "  ares binding delete group:vision --role submitter --tenant-id vision", Args: command.ExactArgs("SUBJECT"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			b.Subject = args[0]
			if b.Role == "" {
				return exit.Usagef("--role is missing: use, for example, --role submitter")
			}
			if err := c.DeleteBinding(ctx, b); err != nil {
				return err
			}
			output.Printf(a.Out, "%s is no longer %s in %s\n", output.Clean(b.GetSubject()), output.Clean(b.GetRole()), output.Clean(scopeText(b)))
			return nil
		}),
	}
	bindingFlags(c, b)
	return c
}
