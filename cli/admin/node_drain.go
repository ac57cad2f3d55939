package admin

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
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// drainEvery is the interval at which --wait reads the state of a drain.
const drainEvery = 500 * time.Millisecond

func (a *commands) nodeDrainCommand() *cobra.Command {
	var o output.Flags
	var reason string
	var force, wait bool
	var timeout time.Duration
	c := &cobra.Command{
		Use: "drain NODE", Short: "Move a node's jobs to other nodes and place no new jobs on it", Args: command.ExactArgs("NODE"),
		Long: `Cordon a node and stop its jobs. Each job gets its grace period to exit. The stopped jobs return
to the queue. A drain does not use up a job's retries. The drain continues until you run
"ares node uncordon", even if the servers restart. "ares node cordon" ends the drain, but the
node stays cordoned.

If an at_most_once job is running, the drain does not stop it, because the job cannot run again.
The output lists the at_most_once jobs that still run. With --force, the drain also stops
at_most_once jobs, and their state becomes "lost".`,
		Example: "  ares node drain gpu-1 --reason 'new fans' --wait --timeout 10m",
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, args []string) error {
			if timeout != 0 && !wait {
				return exit.Usagef("--timeout needs --wait: add it")
			}
			node, err := c.Drain(ctx, args[0], reason, force)
			if err == nil && wait {
				node, err = a.awaitEmpty(ctx, c, node, timeout)
			}
			if err != nil {
				return err
			}
			return a.Print(&o, node, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s %s\n", output.Clean(node.GetNodeId()), nodeState(node))
				for _, job := range node.GetDrain().GetLeftRunning() {
					output.Printf(w, "  %s is at_most_once and runs to its end; --force stops it\n", output.Clean(job))
				}
			})
		}),
	}
	c.Flags().StringVar(&reason, "reason", "", "reason that other users see")
	c.Flags().BoolVar(&force, "force", false, "also stop at_most_once jobs; they end as lost")
	c.Flags().BoolVar(&wait, "wait", false, "wait until the node is empty")
	c.Flags().DurationVar(&timeout, "timeout", 0, "maximum time to wait, such as 10m; the drain continues (default no limit)")
	o.AddOutput(c)
	return c
}

// awaitEmpty waits until no job runs on a drained node, and prints the
// progress.
func (a *commands) awaitEmpty(ctx context.Context, c *client.Client, node *apipb.Node, timeout time.Duration) (*apipb.Node, error) {
	id := node.GetNodeId()
	var end <-chan time.Time // stays nil, and so never fires, without a timeout
	if timeout > 0 {
		end = time.After(timeout)
	}
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	told := ""
	for {
		d := node.GetDrain()
		if d == nil {
			return nil, ares.Errorf(ares.Conflict, "another user ended the drain of %s", id)
		}
		if d.GetSeatsLeft() == 0 {
			return node, nil
		}
		if now := drainLeft(node); now != told {
			told = now
			output.Printf(a.Err, "ares: %s: %s\n", output.Clean(id), output.Clean(now))
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-end:
			return nil, fmt.Errorf("the drain of node %s is not complete after %s, but continues: %s", id, timeout, told)
		case <-tick.C:
		}
		var err error
		if node, err = c.Node(ctx, id); err != nil {
			return nil, err
		}
	}
}

// drainLeft lists the ranks that still run on a drained node.
func drainLeft(n *apipb.Node) string {
	left := fmt.Sprintf("%d ranks left", n.GetDrain().GetSeatsLeft())
	if n.GetDrain().GetSeatsLeft() == 1 {
		left = "1 rank left"
	}
	if jobs := n.GetDrain().GetLeftRunning(); len(jobs) > 0 && !n.GetDrain().GetForce() {
		left += ", at_most_once: " + strings.Join(jobs, ", ")
	}
	return left
}

// nodeState describes the state of a node. If the node is being drained, the
// text includes the progress.
func nodeState(n *apipb.Node) string {
	if n.GetDrain() == nil {
		return output.Clean(n.GetState())
	}
	word := "drained"
	if left := n.GetDrain().GetSeatsLeft(); left > 0 {
		word = fmt.Sprintf("draining (%d left)", left)
	}
	if n.GetState() != string(ares.Cordoned) {
		word = n.GetState() + ", " + word
	}
	return output.Clean(word)
}
