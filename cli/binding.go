package cli

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) bindingCommand() *cobra.Command {
	return group("binding", "Give people, groups and tokens their roles",
		`A binding gives a subject a role in all tenants, in one, or in one of its queues.
Subjects are oidc:SUBJECT and group:NAME, as the issuer calls them, and token:NAME or
token:TENANT/NAME. Nobody gives more than they have.`,
		a.bindingCreateCommand(), a.bindingListCommand(), a.bindingDeleteCommand())
}

func bindingFlags(c *cobra.Command, b *apipb.Binding) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&b.Role, "role", "", "platform-admin, tenant-admin, submitter, viewer, auditor or agent")
	f.StringVar(&b.TenantId, "tenant-id", "", "in this tenant (default in all)")
	f.StringVar(&b.Queue, "queue", "", "in this queue of the tenant (default in all of them)")
}

func (a *app) bindingCreateCommand() *cobra.Command {
	var o readFlags
	b := &apipb.Binding{}
	c := &cobra.Command{
		Use: "create SUBJECT", Short: "Give somebody a role", Args: exactly("SUBJECT"),
		Example: "  ares binding create group:vision --role submitter --tenant-id vision\n" +
			"  ares binding create oidc:ops@example.org --role platform-admin",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			b.Subject = args[0]
			if b.Role == "" {
				return usagef("say which role: --role submitter, for example")
			}
			made, err := c.CreateBinding(ctx, b)
			if err != nil {
				return err
			}
			return a.print(&o, made, func(w io.Writer, _ proto.Message) {
				say(w, "%s is %s in %s\n", clean(made.GetSubject()), clean(made.GetRole()), clean(scopeWords(made)))
			})
		}),
	}
	bindingFlags(c, b)
	o.addOutput(c)
	return c
}

func (a *app) bindingListCommand() *cobra.Command {
	var o readFlags
	var tenant, subject string
	c := o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List who has which role", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Bindings(ctx, tenant, subject) },
				func(w io.Writer, m proto.Message) {
					t := table{head: []string{"SUBJECT", "ROLE", "IN", "MADE BY", "MADE"}}
					for _, b := range m.(*apipb.ListBindingsResponse).GetBindings() {
						t.add(b.GetSubject(), b.GetRole(), scopeWords(b), b.GetCreatedBy(), a.when(b.GetCreatedAt()))
					}
					t.write(w, a.color)
				})
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only those in this tenant")
	c.Flags().StringVar(&subject, "subject", "", "only those of this subject")
	return c
}

func (a *app) bindingDeleteCommand() *cobra.Command {
	b := &apipb.Binding{}
	c := &cobra.Command{
		Use: "delete SUBJECT", Short: "Take a role away", Args: exactly("SUBJECT"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			b.Subject = args[0]
			if b.Role == "" {
				return usagef("say which role: --role submitter, for example")
			}
			if err := c.DeleteBinding(ctx, b); err != nil {
				return err
			}
			say(a.out, "%s is no longer %s in %s\n", clean(b.GetSubject()), clean(b.GetRole()), clean(scopeWords(b)))
			return nil
		}),
	}
	bindingFlags(c, b)
	return c
}
