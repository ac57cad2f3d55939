package cli

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) nodeTokenCommand() *cobra.Command {
	return group("token", "Let machines join: tokens that are good for one join each",
		`A join token lets one machine join the fleet, once. It carries the hash of the servers'
authority, so the machine knows the right servers without any file. What it is given
for the token is a certificate for its own node alone.`,
		a.nodeTokenCreateCommand(), a.nodeTokenListCommand(), a.nodeTokenRevokeCommand())
}

func (a *app) nodeTokenCreateCommand() *cobra.Command {
	var o readFlags
	var node, ttl string
	c := &cobra.Command{
		Use: "create", Short: "Make a join token; it is shown once", Args: exactly(),
		Long: `Makes a join token and shows it: nobody can show it again. Without --node any machine
that has it may join, under a name that is not known yet; with --node only that node,
which may be known already. Hand it over as you would a password.`,
		Example: "  ares node token create --node gpu-17 --ttl 30m",
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			life, err := readSpanWithin("ttl", ttl, "1m", "7d")
			if err != nil {
				return err
			}
			made, err := c.CreateJoinToken(ctx, node, life)
			if err != nil {
				return err
			}
			return a.print(&o, made, func(w io.Writer, _ proto.Message) {
				t := made.GetJoinToken()
				say(w, "%s\n", made.GetToken())
				say(a.err, "good for one join%s until %s; on the node:\n  ares agent --server %s%s --join TOKEN\n",
					forNode(t.GetNodeId()), a.when(t.GetExpiresAt()), strings.Join(a.addresses(), ","), nodeFlag(t.GetNodeId()))
			})
		}),
	}
	c.Flags().StringVar(&node, "node", "", "the one node that may use it (default any that is not known yet)")
	c.Flags().StringVar(&ttl, "ttl", "1h", "how long it is good: 1m to 7d")
	o.addOutput(c)
	return c
}

func forNode(node string) string {
	if node == "" {
		return ""
	}
	return " of " + clean(node)
}

// nodeFlag names the node that a token is for: a machine's own name may be another.
func nodeFlag(node string) string {
	if node == "" {
		return ""
	}
	return " --node " + clean(node)
}

func (a *app) nodeTokenListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the join tokens that have not expired", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.JoinTokens(ctx) },
				func(w io.Writer, m proto.Message) { a.writeJoinTokens(w, m.(*apipb.ListJoinTokensResponse)) })
		}),
	})
}

func (a *app) writeJoinTokens(w io.Writer, list *apipb.ListJoinTokensResponse) {
	if len(list.GetJoinTokens()) == 0 {
		say(w, "No join tokens. Make one with \"ares node token create\".\n")
		return
	}
	t := table{head: []string{"ID", "FOR NODE", "STATE", "EXPIRES", "MADE BY"}}
	for _, j := range list.GetJoinTokens() {
		state := "unused"
		if j.GetUsedAt() != nil {
			state = "used by " + j.GetUsedBy()
		}
		t.add(j.GetId(), firstOf(j.GetNodeId(), "any new"), state, a.when(j.GetExpiresAt()), j.GetCreatedBy())
	}
	t.write(w, a.color)
}

func (a *app) nodeTokenRevokeCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "revoke ID", Short: "End a join token; a node that has joined by it stays", Args: exactly("ID"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RevokeJoinToken(ctx, args[0]); err != nil {
				return err
			}
			return a.printValue(o.output, map[string]any{"id": args[0]}, func(w io.Writer) { say(w, "join token %s revoked\n", clean(args[0])) })
		}),
	}
	o.addOutput(c)
	return c
}

func (a *app) nodeRevokeCommand() *cobra.Command {
	var o readFlags
	var reason string
	c := &cobra.Command{
		Use: "revoke NODE", Short: "End a node's certificates: it is not trusted any more", Args: exactly("NODE"),
		Long: `Ends every certificate that a node was given so far, the join tokens for it and its
session: nothing more is placed there. Its open streams end and its calls are refused,
at every server within seconds. Its jobs are taken back as those of a node that is lost:
each keeps its seat for its lost_after.

The machine may come back by a new token: ares node token create --node NODE. An agent
that uses the node token comes back by that at once: see pki.allow_node_token.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.RevokeNode(ctx, args[0], reason)
			if err != nil {
				return err
			}
			if _, bad := c.Node(ctx, args[0]); ares.CodeOf(bad) == ares.NotFound {
				say(a.err, "ares: warning: no node is called %s: what is revoked are certificates and tokens of that name\n", clean(args[0]))
			}
			return a.print(&o, r, func(w io.Writer, _ proto.Message) { say(w, "%s revoked\n", clean(r.GetNodeId())) })
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for others to read")
	o.addOutput(c)
	return c
}

func (a *app) nodeRevocationsCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "revocations", Short: "List the nodes whose certificates were ended", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Revocations(ctx) },
				func(w io.Writer, m proto.Message) {
					t := table{head: []string{"NODE", "WHEN", "BY", "WHY"}}
					for _, r := range m.(*apipb.ListRevocationsResponse).GetRevocations() {
						t.add(r.GetNodeId(), a.when(r.GetRevokedAt()), r.GetRevokedBy(), r.GetReason())
					}
					if len(t.rows) == 0 {
						say(w, "No node was revoked.\n")
						return
					}
					t.write(w, a.color)
				})
		}),
	})
}
