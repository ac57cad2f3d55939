package admin

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) nodeTokenCommand() *cobra.Command {
	return command.Group("token", "Manage the tokens with which machines join the cluster", "  ares node token list",
		`A join token lets one machine join the cluster once. The token contains the hash of the
servers' certificate authority, so that the machine can verify the servers without a CA file.
In exchange for the token, the machine gets a certificate that is valid only for its own node.`,
		a.nodeTokenCreateCommand(), a.nodeTokenListCommand(), a.nodeTokenRevokeCommand())
}

func (a *commands) nodeTokenCreateCommand() *cobra.Command {
	var o output.Flags
	var node, ttl string
	var grant grantFlags
	c := &cobra.Command{
		Use: "create", Short: "Create a join token and print it once", Args: command.ExactArgs(),
		Long: `Create a join token and print it once. Without --node, any machine with the token can join under
a new name. With --node, only that node can join. This also works if a node with that name
joined before. Keep the token secret, like a password.

With --label, --max-gpus, --gpu-model, --max-cpus and --max-memory-mb, the token says what the node
may be. The node is refused if it offers more. Labels whose names begin with ` + ares.ReservedLabelPrefix + ` can be given to a
node only in this way, or with "ares node label".`,
		Example: `  ares node token create --node gpu-17 --ttl 30m
  ares node token create --label ares.io/pool=prod --max-gpus 8 --gpu-model H100`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			life, err := command.ReadDurationWithin("ttl", ttl, "1m", "7d")
			if err != nil {
				return err
			}
			granted, err := grant.grant()
			if err != nil {
				return err
			}
			made, err := c.CreateJoinTokenWithGrant(ctx, node, life, granted)
			if err != nil {
				return err
			}
			return a.Print(&o, made, func(w io.Writer, _ proto.Message) {
				t := made.GetJoinToken()
				output.Printf(w, "%s\n", made.GetToken())
				output.Printf(a.Err, "valid for one join%s until %s; on the node:\n  ares agent --server %s%s --join TOKEN\n",
					forNode(t.GetNodeId()), a.When(t.GetExpiresAt()), strings.Join(a.Addresses(), ","), nodeFlag(t.GetNodeId()))
			})
		}),
	}
	c.Flags().StringVar(&node, "node", "", "the only node that may use the token (default any new node)")
	c.Flags().StringVar(&ttl, "ttl", "1h", "lifetime: 1m to 7d")
	grant.add(c.Flags())
	o.AddOutput(c)
	return c
}

func forNode(node string) string {
	if node == "" {
		return ""
	}
	return " of " + output.Clean(node)
}

// nodeFlag returns the --node flag for a printed command. The flag is needed because the
// machine's host name may differ from the node's name in the token.
func nodeFlag(node string) string {
	if node == "" {
		return ""
	}
	return " --node " + output.Clean(node)
}

func (a *commands) nodeTokenListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List join tokens that have not expired", Example: "  ares node token list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.JoinTokens(ctx) },
				func(m proto.Message) *output.Table { return a.joinTokenTable(m.(*apipb.ListJoinTokensResponse)) })
		}),
	})
}

func (a *commands) joinTokenTable(list *apipb.ListJoinTokensResponse) *output.Table {
	t := &output.Table{Head: []string{"ID", "FOR NODE", "STATE", "EXPIRES", "CREATED BY", "GRANTS"}, Empty: "No join tokens. Create one with \"ares node token create\".",
		Drop: []string{"CREATED BY", "GRANTS", "FOR NODE"}, Flex: []string{"GRANTS"}, Passing: []string{"EXPIRES"}}
	for _, j := range list.GetJoinTokens() {
		state := "unused"
		if j.GetUsedAt() != nil {
			state = "used by " + j.GetUsedBy()
		}
		t.Add(j.GetId(), cmp.Or(j.GetNodeId(), "any new"), state, a.When(j.GetExpiresAt()), j.GetCreatedBy(), grantText(j.GetGrant()))
	}
	return t
}

func (a *commands) nodeTokenRevokeCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a join token; nodes that already joined stay in the cluster", Example: `  ares node token revoke "$(ares node token list -o json | jq -r '.join_tokens[0].id')"`, Args: command.ExactArgs("ID"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if err := c.RevokeJoinToken(ctx, args[0]); err != nil {
				return err
			}
			return a.PrintValue(o.Format, map[string]any{"id": args[0]}, func(w io.Writer) { output.Printf(w, "join token %s revoked\n", output.Clean(args[0])) })
		}),
	}
	o.AddOutput(c)
	return c
}

func (a *commands) nodeRevokeCommand() *cobra.Command {
	var o output.Flags
	var reason string
	c := &cobra.Command{
		Use: "revoke NODE", Short: "Revoke a node's certificates", Example: "  ares node revoke gpu-9 --reason 'sent back to the vendor'", Args: command.ExactArgs("NODE"),
		Long: `Revoke all certificates and join tokens of a node and end its session. Ares places no more jobs
on a revoked node. Within seconds, every server ends the node's streams and refuses its calls.
Ares handles the node's jobs as if the node were lost. Each job keeps its devices for the time
set by lost_after_seconds.

The machine can join again with a new token: ares node token create --node NODE. An agent that
uses the shared node token can reconnect at once, despite the revocation. By default, a server
accepts this token only from the machine on which the server runs (see pki.allow_node_token).`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			r, err := c.RevokeNode(ctx, args[0], reason)
			if err != nil {
				return err
			}
			if _, bad := c.Node(ctx, args[0]); ares.CodeOf(bad) == ares.NotFound {
				output.Printf(a.Err, "ares: warning: there is no node %s: its name stays revoked for certificates and tokens\n", output.Clean(args[0]))
			}
			return a.Print(&o, r, func(w io.Writer, _ proto.Message) { output.Printf(w, "%s revoked\n", output.Clean(r.GetNodeId())) })
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason that other users see")
	o.AddOutput(c)
	return c
}

func (a *commands) nodeRevocationsCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "revocations", Short: "List revoked nodes", Example: "  ares node revocations", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.Revocations(ctx) },
				func(m proto.Message) *output.Table {
					t := &output.Table{Head: []string{"NODE", "WHEN", "BY", "WHY"}, Empty: "No revoked nodes.", Drop: []string{"BY", "WHEN"}, Passing: []string{"WHEN"}}
					for _, r := range m.(*apipb.ListRevocationsResponse).GetRevocations() {
						t.Add(r.GetNodeId(), a.When(r.GetRevokedAt()), r.GetRevokedBy(), r.GetReason())
					}
					return t
				})
		}),
	})
}
