package job

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

const copyHelp = `Copy a file, or a directory with everything in it, from a running job to this machine, or from
this machine to a running job. One of the two paths is in the job: write the job, a colon and the
path. A relative path in the job is below its working directory. For a local file whose name has a
colon, write ./ before it.

If the target is a directory, the copy is created in it. Otherwise, it gets the name of the
target. A source that ends with /. stands for everything in the directory. Files that exist are
replaced. Owners, times and set-user-ID bits are not kept.

The files are read and written by the program tar, as the job's user: on the node, or in the job's
image if it has one. Nothing on this machine is written except the target. Devices, pipes, and
links in the job that lead out of the copy are skipped with a note, and the exit code is then 1.

` + sessionRights + "\n" + addressing

func (a *commands) copyCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use: "cp SOURCE TARGET", Short: "Copy files from or to a running job", Args: command.ExactArgs("SOURCE", "TARGET"),
		Long: copyHelp,
		Example: `  ares cp train:checkpoints/last.pt .
  ares cp train:/run/ares/work/plots plots --rank 3
  ares cp config.yaml train:`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			from, to := splitJobPath(args[0]), splitJobPath(args[1])
			job := from.job + to.job
			if (from.job == "") == (to.job == "") {
				return exit.Usagef("write one path in the job and one path of this machine, such as: ares cp JOB:checkpoint.pt .")
			}
			return a.withJobs(toJoin, func(ctx context.Context, c *client.Client, ids []string) error {
				if _, err := c.Job(ctx, ids[0]); err != nil { // this also finds a server that answers
					return err
				}
				return a.copyFiles(ctx, c, ids[0], from, to, f.rank)
			})(cmd, []string{job})
		},
	}
	f.addRank(c)
	return c
}

// A jobPath is a path in a job, or of this machine if job is "".
type jobPath struct{ job, path string }

func splitJobPath(text string) jobPath {
	job, path, isRemote := strings.Cut(text, ":")
	if !isRemote || job == "" || strings.Contains(job, "/") {
		return jobPath{path: text}
	}
	if path == "" {
		path = "."
	}
	return jobPath{job, path}
}

func (a *commands) copyFiles(ctx context.Context, c *client.Client, id string, from, to jobPath, rank int) error {
	var copied atomic.Int64
	skips := 0
	o := client.CopyOptions{Rank: rank, Copied: &copied, Recorded: sync.OnceFunc(a.tellRecorded), Skipped: func(name, why string) {
		skips++
		output.Printf(a.Err, "skipped %s: %s\n", output.Clean(name), output.Clean(why))
	}}
	stop := a.showCopied(&copied)
	var err error
	if from.job != "" {
		err = c.CopyFrom(ctx, id, from.path, to.path, o)
	} else {
		err = c.CopyTo(ctx, id, from.path, to.path, o)
	}
	stop()
	switch {
	case err != nil && ctx.Err() != nil:
		return &exit.Error{Code: exit.Interrupted}
	case err == nil && skips > 0:
		return &exit.Error{Code: 1}
	}
	return err
}

// showCopied shows on a terminal, every second, how much was copied.
func (a *commands) showCopied(copied *atomic.Int64) (stop func()) {
	if !output.IsTerminal(a.Err) {
		return func() {}
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		began, isShown := time.Now(), false
		for {
			select {
			case <-ticker.C:
				output.Printf(a.Err, "\r%s  ", describeCopied(copied.Load(), time.Since(began)))
				isShown = true
			case <-over:
				if isShown {
					output.Printf(a.Err, "\r%s  \n", describeCopied(copied.Load(), time.Since(began)))
				}
				return
			}
		}
	}()
	return func() {
		close(over)
		<-done
	}
}

func describeCopied(n int64, took time.Duration) string {
	const mega = 1e6
	return fmt.Sprintf("%.1f MB copied, %.1f MB/s", float64(n)/mega, float64(n)/mega/max(took.Seconds(), 0.001))
}
