package cli

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) authCommand() *cobra.Command {
	return group("auth", "See who you are to the server and what you may do", "", a.whoAmICommand(), a.canICommand())
}

func (a *app) whoAmICommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "whoami", Short: "Show who you are and what you are bound to", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.WhoAmI(ctx) },
				func(w io.Writer, m proto.Message) { a.writeIdentity(w, m.(*apipb.WhoAmIResponse)) })
		}),
	})
}

func (a *app) writeIdentity(w io.Writer, m *apipb.WhoAmIResponse) {
	s := sheet{w}
	s.line("Name", m.GetName())
	s.line("Known by", m.GetKind())
	s.line("Tenant", m.GetTenantId())
	s.line("Node", m.GetNodeId())
	s.list("Groups", m.GetGroups())
	s.list("Roles", bindingWords(m.GetBindings()))
	if m.GetExpiresAt() != nil {
		s.line("Good until", a.when(m.GetExpiresAt()))
	}
}

// bindingWords writes bindings for people.
func bindingWords(list []*apipb.Binding) []string {
	var out []string
	for _, b := range list {
		out = append(out, b.GetRole()+" in "+scopeWords(b))
	}
	return out
}

func scopeWords(b *apipb.Binding) string {
	switch {
	case b.GetTenantId() == "":
		return "all tenants"
	case b.GetQueue() == "":
		return b.GetTenantId()
	}
	return b.GetTenantId() + "/" + b.GetQueue()
}

func (a *app) canICommand() *cobra.Command {
	var o readFlags
	ask := &apipb.CanIRequest{}
	c := &cobra.Command{
		Use: "can-i VERB", Short: "Ask whether you may do something", Args: exactly("VERB"),
		Long:    `Prints yes, or no and why, and ends with 0 or 3. A verb that is not known is answered with the list.`,
		Example: "  ares auth can-i job.submit --tenant-id vision --queue training\n  ares auth can-i node.write --tenant-id '*'",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ask.Verb = args[0]
			got, err := c.CanI(ctx, ask)
			if err != nil {
				return err
			}
			err = a.print(&o, got, func(w io.Writer, _ proto.Message) {
				if got.GetAllowed() {
					say(w, "yes\n")
				} else {
					say(w, "no: %s\n", clean(got.GetReason()))
				}
			})
			if err == nil && !got.GetAllowed() {
				err = &exitError{exitRefused}
			}
			return err
		}),
	}
	c.Flags().StringVar(&ask.TenantId, "tenant-id", "", "in this tenant; '*' for all (default your own)")
	c.Flags().StringVar(&ask.Queue, "queue", "", "in this queue of the tenant (default in all of them)")
	o.addOutput(c)
	return c
}

func (a *app) tokenCommand() *cobra.Command {
	return group("token", "Manage service tokens",
		`A token belongs to a tenant, or to the platform, and may do what it is bound to.
It is shown once, when it is made; the server keeps a hash of it.`,
		a.tokenCreateCommand(), a.tokenListCommand(), a.tokenRevokeCommand())
}

func (a *app) tokenCreateCommand() *cobra.Command {
	var o readFlags
	var roles []string
	var queue, expires string
	ask := &apipb.CreateTokenRequest{}
	c := &cobra.Command{
		Use: "create NAME", Short: "Make a token and print it, once", Args: exactly("NAME"),
		Example: "  ares token create ci --tenant-id vision --role submitter --queue training --expires 30d > ci.token\n" +
			"  ares token create metrics --role viewer",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			ask.Name = args[0]
			if len(roles) == 0 {
				return usagef("say what it may do: --role submitter, for example")
			}
			for _, r := range roles {
				ask.Bindings = append(ask.Bindings, &apipb.Binding{Role: r, TenantId: ask.GetTenantId(), Queue: queue})
			}
			life, err := readSpanWithin("expires", expires, "1m", "366d")
			if err != nil {
				return err
			}
			ask.LifetimeSeconds = int64(life / time.Second)
			made, err := c.CreateToken(ctx, ask)
			if err != nil {
				return err
			}
			if o.output == "table" {
				say(a.err, "token %s is good until %s; it is not shown again\n", clean(made.GetRecord().GetSubject()), a.when(made.GetRecord().GetExpiresAt()))
			}
			return a.print(&o, made, func(w io.Writer, _ proto.Message) { say(w, "%s\n", clean(made.GetToken())) })
		}),
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&ask.TenantId, "tenant-id", "", "tenant it belongs to and acts in (default the platform: all tenants)")
	f.StringVar(&queue, "queue", "", "only this queue of the tenant")
	f.StringSliceVar(&roles, "role", nil, "what it may do: platform-admin, tenant-admin, submitter, viewer, auditor or agent; may be repeated")
	f.StringVar(&expires, "expires", "90d", "how long it is good for, at most 366d")
	o.addOutput(c)
	return c
}

func (a *app) tokenListCommand() *cobra.Command {
	var o readFlags
	var tenant string
	c := o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tokens, without what they are", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Tokens(ctx, tenant) },
				func(w io.Writer, m proto.Message) { a.writeTokens(w, m.(*apipb.ListTokensResponse)) })
		}),
	})
	c.Flags().StringVar(&tenant, "tenant-id", "", "only those of this tenant")
	return c
}

func (a *app) writeTokens(w io.Writer, list *apipb.ListTokensResponse) {
	t := table{head: []string{"TOKEN", "ROLES", "MADE BY", "GOOD UNTIL"}}
	for _, k := range list.GetTokens() {
		until := "-"
		if k.GetExpiresAt() != nil {
			until = a.when(k.GetExpiresAt())
		}
		t.add(strings.TrimPrefix(k.GetSubject(), "token:"), strings.Join(bindingWords(k.GetBindings()), "; "), firstOf(k.GetCreatedBy(), "-"), until)
	}
	t.write(w, a.color)
}

func (a *app) tokenRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN", Short: "End a token at once, and streams it opened within half a minute", Args: exactly("TOKEN"),
		Example: "  ares token revoke vision/ci",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			tenant, name, ok := strings.Cut(args[0], "/")
			if !ok {
				tenant, name = "", args[0]
			}
			if err := c.RevokeToken(ctx, tenant, name); err != nil {
				return err
			}
			say(a.out, "%s revoked\n", clean(args[0]))
			return nil
		}),
	}
}
