package job

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// toHold is the purpose of the commands that hold and release jobs. An array that has elements to start is running.
var toHold = purpose{unique: true, states: phaseNames(func(p ares.Phase) bool { return p.Waiting() || p == ares.Running })}

func (a *commands) jobHoldCommand() *cobra.Command {
	return a.holdCommand(&cobra.Command{
		Use: "hold JOB... | hold --name PATTERN ...", Short: "Keep waiting jobs from starting", Example: `  job=$(ares job submit --begin now+1h -- echo hello)
  ares job hold "$job"
  ares job release "$job"`,
		Long: `Keep waiting jobs from starting until they are released. A held job keeps its place by
submission. Holding a held job changes nothing. A job that has started cannot be held; of an
array, the elements that have not started are held.

` + addressing + "\n\n" + selecting,
	}, &change{verb: "hold", done: "held", apply: func(ctx context.Context, c *client.Client, id string, _ []string) (proto.Message, string, error) {
		answer, err := c.Hold(ctx, id)
		return answer, answer.GetStatus(), err
	}})
}

func (a *commands) jobReleaseCommand() *cobra.Command {
	return a.holdCommand(&cobra.Command{
		Use: "release JOB... | release --name PATTERN ...", Short: "Let held jobs start", Example: `  job=$(ares job submit --hold -- echo hello)
  ares job release "$job"`,
		Long: "End the hold of jobs. Releasing a job that is not held changes nothing.\n\n" + addressing + "\n\n" + selecting,
	}, &change{verb: "release", done: "released", apply: func(ctx context.Context, c *client.Client, id string, _ []string) (proto.Message, string, error) {
		answer, err := c.Release(ctx, id)
		return answer, answer.GetStatus(), err
	}})
}

// holdCommand completes a command that holds or releases jobs. Of the jobs that are selected by their properties, it
// changes those that wait.
func (a *commands) holdCommand(c *cobra.Command, ch *change) *cobra.Command {
	var o output.Flags
	var s selector
	ch.why, c.Args = toHold, cobra.ArbitraryArgs
	ch.selects = phaseNames(ares.Phase.Waiting)
	c.RunE = ch.run(a, &s, &o)
	o.AddOutput(c)
	s.add(c, ch.verb)
	return c
}
