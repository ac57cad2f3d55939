package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

// drainEvery is how often a drain is looked at while it is waited for.
const drainEvery = 500 * time.Millisecond

func (a *app) nodeDrainCommand() *cobra.Command {
	var o readFlags
	var reason string
	var force, wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "drain NODE", Short: "Move what runs on a node to others, and keep new work off it", Args: exactly("NODE"),
		Long: `Cordons a node and stops every job there, each with its grace; they wait for another
place, and no retry is used up. The drain goes on, also over a restart of the servers,
until "ares node uncordon" ends it; "ares node cordon" ends it too and keeps the cordon.

An at_most_once job that runs is left to its end, and named, because it would not be run
again. With --force it is stopped too and ends as lost.`,
		Example: "  ares node drain rack-7 --reason 'new fans' --wait --timeout 10m",
		RunE: a.with(func(ctx context.Context, c *client.Client, args []string) error {
			if timeout != 0 && !wait {
				return usagef("--timeout bounds --wait: give both")
			}
			node, err := c.Drain(ctx, args[0], reason, force)
			if err == nil && wait {
				node, err = a.awaitEmpty(ctx, c, node, timeout)
			}
			if err != nil {
				return err
			}
			return a.print(&o, node, func(w io.Writer, _ proto.Message) {
				say(w, "%s %s\n", clean(node.GetNodeId()), nodeState(node))
				for _, job := range node.GetDrain().GetLeftRunning() {
					say(w, "  %s is at_most_once and left to its end; --force stops it for good\n", clean(job))
				}
			})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for others to read")
	c.Flags().BoolVar(&force, "force", false, "stop at_most_once jobs too; they end as lost")
	c.Flags().BoolVar(&wait, "wait", false, "return when the node is empty")
	c.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait at most, such as 10m; the drain itself goes on (default no limit)")
	o.addOutput(c)
	return c
}

// awaitEmpty follows a drain until the node is empty, telling how it fares.
func (a *app) awaitEmpty(ctx context.Context, c *client.Client, node *apipb.Node, timeout time.Duration) (*apipb.Node, error) {
	id := node.GetNodeId()
	var end <-chan time.Time // never, without a timeout
	if timeout > 0 {
		end = time.After(timeout)
	}
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	told := ""
	for {
		d := node.GetDrain()
		if d == nil {
			return nil, ares.Errorf(ares.Conflict, "somebody ended the drain of %s", id)
		}
		if d.GetSeatsLeft() == 0 {
			return node, nil
		}
		if now := drainLeft(node); now != told {
			told = now
			say(a.err, "ares: %s: %s\n", clean(id), clean(now))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end:
			return nil, fmt.Errorf("%s is not empty after %s: %s; the drain goes on", id, timeout, told)
		case <-tick.C:
		}
		var err error
		if node, err = c.Node(ctx, id); err != nil {
			return nil, err
		}
	}
}

// drainLeft says what a drained node still holds.
func drainLeft(n *apipb.Node) string {
	left := fmt.Sprintf("%d seats left", n.GetDrain().GetSeatsLeft())
	if n.GetDrain().GetSeatsLeft() == 1 {
		left = "1 seat left"
	}
	if jobs := n.GetDrain().GetLeftRunning(); len(jobs) > 0 && !n.GetDrain().GetForce() {
		left += ", at_most_once: " + strings.Join(jobs, ", ")
	}
	return left
}

// nodeState is the state of a node with how far its drain has come.
func nodeState(n *apipb.Node) string {
	if n.GetDrain() == nil {
		return clean(n.GetState())
	}
	word := "drained"
	if left := n.GetDrain().GetSeatsLeft(); left > 0 {
		word = fmt.Sprintf("draining (%d left)", left)
	}
	if n.GetState() != string(ares.Cordoned) {
		word = n.GetState() + ", " + word
	}
	return clean(word)
}
