package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/host"
	"github.com/ares-scheduler/ares/cli/job"
	"github.com/ares-scheduler/ares/cli/output"
)

// Run runs the program under a name until it ends or is interrupted, and returns the exit code. The name is that of the
// file, because bin/scheduler, bin/worker and bin/gpu-cli are links to bin/ares.
func Run(name string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the program immediately
	}()
	return MainAs(ctx, name, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// MainAs is like Main, for the program under another name. Under a name that it does not know, the program is `ares`.
func MainAs(ctx context.Context, name string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &command.App{In: stdin, Version: Version, Printer: output.Printer{Out: stdout, Err: stderr, Now: time.Now, TTY: output.IsTerminal(stdout)}}
	a.Color = a.TTY && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
	root := rootFor(name, a)
	root.SetArgs(args)
	return a.Report(root.ExecuteContext(ctx))
}

// rootFor returns the root command of the program under a name.
func rootFor(name string, a *command.App) *cobra.Command {
	var root *cobra.Command
	switch name {
	case "scheduler":
		root = host.SchedulerCommand(a)
	case "worker":
		root = host.WorkerCommand(a)
	case "gpu-cli":
		root = command.Group("gpu-cli", "Submit, inspect and stop jobs", "  gpu-cli submit --name hello --gpus 1 -- echo hello\n  gpu-cli list",
			"Submit, inspect and stop jobs. This is the program ares under another name, with the commands of\n\"ares job\".", job.GPUCommands(a)...)
		statusOfCluster(root, a)
		root.CompletionOptions.DisableDefaultCmd = true
	default:
		return newRoot(a)
	}
	prepareRoot(root, a)
	root.SetUsageTemplate(usageTemplate)
	return root
}

// statusOfCluster lets "gpu-cli status" without a job show the cluster.
func statusOfCluster(root *cobra.Command, a *command.App) {
	status, _, err := root.Find([]string{"status"})
	output.Must(err)
	cluster, _, err := newRoot(a).Find([]string{"cluster", "status"})
	output.Must(err)
	of := status.RunE
	status.Use, status.Short, status.Args = "status [JOB]", "Show one job, or the cluster", command.MaxOneArg
	status.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return of(c, args)
		}
		c.Flags().Visit(func(f *pflag.Flag) {
			if g := cluster.Flags().Lookup(f.Name); g != nil {
				output.Must(g.Value.Set(f.Value.String()))
			}
		})
		return cluster.RunE(c, nil)
	}
}
