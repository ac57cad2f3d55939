package job

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// toHold is the purpose of the commands that hold and release jobs. An array that has elements to start is running.
var toHold = purpose{unique: true, states: phaseNames(func(p ares.Phase) bool { return p.Waiting() || p == ares.Running })}

// answered is what the answers to a hold and to a release have in common.
type answered interface {
	proto.Message
	GetJobId() string
	GetStatus() string
}

func (a *commands) jobHoldCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use: "hold JOB...", Short: "Keep waiting jobs from starting", Example: `  job=$(ares job submit --begin now+1h -- echo hello)
  ares job hold "$job"
  ares job release "$job"`,
		Long: `Keep waiting jobs from starting until they are released. A held job keeps its place by
submission. Holding a held job changes nothing. A job that has started cannot be held; of an
array, the elements that have not started are held.

` + addressing,
	}, func(ctx context.Context, c *client.Client, id string) (answered, error) { return c.Hold(ctx, id) })
}

func (a *commands) jobReleaseCommand() *cobra.Command {
	return a.changeCommand(&cobra.Command{
		Use: "release JOB...", Short: "Let held jobs start", Example: `  job=$(ares job submit --hold -- echo hello)
  ares job release "$job"`,
		Long: "End the hold of jobs. Releasing a job that is not held changes nothing.\n\n" + addressing,
	}, func(ctx context.Context, c *client.Client, id string) (answered, error) { return c.Release(ctx, id) })
}

// changeCommand completes a command that changes each of the jobs that it is given, and prints each answer.
func (a *commands) changeCommand(c *cobra.Command, change func(context.Context, *client.Client, string) (answered, error)) *cobra.Command {
	var o output.Flags
	c.Args = command.MinOneArg("JOB")
	c.RunE = a.withJobs(toHold, func(ctx context.Context, c *client.Client, args []string) error {
		for _, id := range args {
			answer, err := change(ctx, c, id)
			if err != nil {
				return err
			}
			err = a.Print(&o, answer, func(w io.Writer, _ proto.Message) {
				output.Printf(w, "%s %s\n", output.Clean(answer.GetJobId()), output.Clean(answer.GetStatus()))
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	o.AddOutput(c)
	return c
}
