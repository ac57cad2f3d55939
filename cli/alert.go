package cli

import (
	"context"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) alertCommand() *cobra.Command {
	return group("alert", "See and try the channels that alerts go to",
		`Channels are set in the configuration of each server, under alerts.channels; policies name
them. See docs/policy.md.`,
		a.alertListCommand(), a.alertTestCommand())
}

func (a *app) alertListCommand() *cobra.Command {
	var o readFlags
	return o.add(&cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List a server's channels with what became of their alerts", Args: exactly(),
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.AlertChannels(ctx) },
				func(w io.Writer, m proto.Message) { a.writeChannels(w, m.(*apipb.ListAlertChannelsResponse)) })
		}),
	})
}

func (a *app) writeChannels(w io.Writer, list *apipb.ListAlertChannelsResponse) {
	if len(list.GetChannels()) == 0 {
		say(w, "No channels. Add some to alerts.channels in the server's configuration.\n")
		return
	}
	t := table{head: []string{"CHANNEL", "KIND", "SENT", "REPEATED", "FAILED", "DROPPED", "WAITING", "LAST ERROR"}}
	for _, c := range list.GetChannels() {
		t.add(c.GetName(), c.GetKind(), number(c.GetSent()), number(c.GetRepeated()), number(c.GetFailed()), number(c.GetDropped()),
			strconv.Itoa(int(c.GetWaiting())), c.GetLastError())
	}
	t.write(w, a.color)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func (a *app) alertTestCommand() *cobra.Command {
	return &cobra.Command{
		Use: "test CHANNEL", Short: "Send an alert through a channel, and say whether it was delivered", Args: exactly("CHANNEL"),
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			got, err := c.TestAlertChannel(ctx, args[0])
			if err != nil {
				return err
			}
			say(a.out, "%s\n", clean(got.GetMessage()))
			return nil
		}),
	}
}
