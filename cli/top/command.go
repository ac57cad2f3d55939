package top

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
)

// These are the limits of the flag --interval.
const (
	defaultInterval = 2 * time.Second
	minInterval     = 500 * time.Millisecond
	maxInterval     = time.Hour
)

// Command returns the command "ares top".
func Command(a *command.App) *cobra.Command {
	interval, view := defaultInterval, views[Nodes].name
	c := &cobra.Command{
		Use: "top", Short: "Show nodes, devices, your jobs and the queue on the whole terminal", Args: command.ExactArgs(),
		Example: "  ares top\n  ares top --view queue --interval 5s",
		Long: `Show the nodes, the devices, your jobs or the waiting jobs on the whole terminal, with the totals
of the cluster, and read them again at an interval. The last line of the screen lists the keys.
If the server does not answer, the screen says since when, keeps the last answer, and continues
when the server answers again.

The queue is ordered by priority, and then by age. The scheduler also considers fair shares and
quotas: "ares job explain JOB" shows the exact position of one job. Ares does not measure the
utilization, the memory use and the power of devices yet, so they are not shown.

If the input or the output is not a terminal, the command prints the view once, as text. For
scripts, use "ares node list -o json" or "ares ps -o json".`,
		RunE: func(c *cobra.Command, _ []string) error {
			i := slices.Index(viewNames(), view)
			if i < 0 {
				return exit.Usagef("--view %s: use %s", view, strings.Join(viewNames(), ", "))
			}
			if interval < minInterval || interval > maxInterval {
				return exit.Usagef("--interval %s: use a time from %s to %s", interval, minInterval, maxInterval)
			}
			s := &source{connect: a.Connect}
			return errors.Join(start(c.Context(), a, s.fetch, View(i), interval), s.close())
		},
	}
	c.Flags().DurationVar(&interval, "interval", interval, "time between two requests, from 500ms to 1h")
	c.Flags().StringVar(&view, "view", view, "first view: "+strings.Join(viewNames(), ", "))
	output.Must(c.RegisterFlagCompletionFunc("view", cobra.FixedCompletions(viewNames(), cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// The function `start` shows a view on the terminal, or prints it once if there is no terminal.
func start(ctx context.Context, a *command.App, fetch Fetch, v View, interval time.Duration) error {
	in, readable := a.In.(*os.File)
	out, writable := a.Out.(*os.File)
	if term := os.Getenv("TERM"); !readable || !writable || !a.TTY || !output.IsTerminal(in) || term == "" || term == "dumb" {
		s, err := fetch(ctx, v)
		if err != nil {
			return err
		}
		s.At = a.Now()
		return a.Buffered(func(w io.Writer) { writeText(w, v, s, a.Color) })
	}
	return Run(ctx, Options{In: in, Out: out, Err: a.Err, Fetch: fetch, Interval: interval, View: v, Now: a.Now})
}
