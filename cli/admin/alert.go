package admin

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) alertCommand() *cobra.Command {
	return command.Group("alert", "Show and test alert channels", "  ares alert list",
		`Each server's configuration defines its alert channels, under alerts.channels. A policy names
the channels for its alerts. See docs/guide/policy.md.`,
		a.alertListCommand(), a.alertTestCommand())
}

func (a *commands) alertListCommand() *cobra.Command {
	var o output.Flags
	return o.AddList(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List a server's alert channels with delivery counts", Example: "  ares alert list", Args: command.ExactArgs(),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.List(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.AlertChannels(ctx) },
				func(m proto.Message) *output.Table { return a.channelTable(m.(*apipb.ListAlertChannelsResponse)) })
		}),
	})
}

func (a *commands) channelTable(list *apipb.ListAlertChannelsResponse) *output.Table {
	t := &output.Table{Head: []string{"CHANNEL", "KIND", "SENT", "REPEATED", "FAILED", "DROPPED", "WAITING", "LAST ERROR"}, Empty: "No alert channels. Add them to alerts.channels in the server's configuration.",
		Drop: []string{"REPEATED", "DROPPED", "WAITING", "KIND"}}
	for _, c := range list.GetChannels() {
		t.Add(c.GetName(), c.GetKind(), number(c.GetSent()), number(c.GetRepeated()), number(c.GetFailed()), number(c.GetDropped()),
			strconv.Itoa(int(c.GetWaiting())), c.GetLastError())
	}
	return t
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (a *commands) alertTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test CHANNEL", Short: "Send a test alert through a channel", Example: "  ares alert test ops", Args: command.ExactArgs("CHANNEL"),
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			got, err := c.TestAlertChannel(ctx, args[0])
			if err != nil {
				return err
			}
			output.Printf(a.Out, "%s\n", output.Clean(got.GetMessage()))
			return nil
		}),
	}
}
