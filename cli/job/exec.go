package job

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// A session is only possible with a running job.
var toJoin = purpose{unique: true, states: phaseNames(func(p ares.Phase) bool { return p == ares.Running })}

const sessionRights = `Only the user who submitted the job and administrators of its tenant may do this. The start and the
end of each session are recorded in the audit log.
`

const execHelp = `Run a command beside the processes of a running job, on the same node, and exit with the
command's exit code, or 128 plus the number of the signal that ended it. The command has the
user, the environment, the limits, the devices and the isolation of the job, and starts in its
working directory. Variables that the job got from secrets are not set.

The command ends with the job, and when the connection is lost. Processes that it leaves behind
in another process group continue until the job ends.

Without -i, the command's standard input is empty. With -t, it gets a terminal, and Ctrl-C goes
to it; otherwise, the first Ctrl-C is sent to the command, and a second one ends the session.

The exit code is 125 if Ares itself failed: for example, because the job does not run.

` + sessionRights + "\n" + addressing

// execFlags are the flags of the commands that run something beside a job.
type execFlags struct {
	rank            int
	input, terminal bool
}

func (f *execFlags) addRank(c *cobra.Command) {
	c.Flags().SortFlags = false
	c.Flags().IntVar(&f.rank, "rank", 0, "rank of the member, from 0")
}

func (f *execFlags) addInput(c *cobra.Command) {
	c.Flags().BoolVarP(&f.input, "stdin", "i", false, "send standard input to the command")
	c.Flags().BoolVarP(&f.terminal, "tty", "t", false, "give the command a terminal; implies -i")
}

func (f *execFlags) isInteractive() bool { return f.input || f.terminal }

// checkTerminal returns an error if the command should have a terminal, but standard input is none.
func (f *execFlags) checkTerminal(in io.Reader) error {
	if f.terminal && !output.IsTerminal(writerOf(in)) {
		return exit.Usagef("-t needs a terminal, and standard input is none: leave -t out, and use -i to send standard input")
	}
	return nil
}

func (f *execFlags) check() error {
	if f.rank < 0 {
		return exit.Usagef("--rank %d: use 0 or more", f.rank)
	}
	return nil
}

func (a *commands) execCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use: "exec JOB [flags] -- command args...", Short: "Run a command beside a running job",
		Long: execHelp,
		Example: `  ares exec train -- nvidia-smi
  ares exec train --rank 3 -- cat progress.txt
  ares exec train -it -- bash`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			at := cmd.ArgsLenAtDash()
			if at < 0 && len(args) > 1 {
				at = 1
			}
			switch {
			case at != 1:
				return exit.Usagef("write one job, then -- and the command, such as: ares exec JOB -- ls")
			case len(args) < 2:
				return exit.Usagef("there is no command after --: write one, or use: ares shell %s", args[0])
			}
			return a.execute(cmd, args[0], args[1:], f)
		},
	}
	f.addRank(c)
	f.addInput(c)
	return c
}

// shellScript starts the best shell that the machine has.
const shellScript = `command -v bash >/dev/null && exec bash; exec sh`

func (a *commands) shellCommand() *cobra.Command {
	var f execFlags
	c := &cobra.Command{
		Use: "shell JOB", Short: "Open a shell beside a running job", Args: command.ExactArgs("JOB"),
		Long: `Open a shell beside the processes of a running job, on the same node. This is the same as
"ares exec JOB -t -- bash", or with sh where there is no bash.

` + sessionRights + "\n" + addressing,
		Example: "  ares shell train\n  ares shell train --rank 3",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !output.IsTerminal(writerOf(a.In)) {
				return exit.Usagef("ares shell needs a terminal, and standard input is none: send commands with ares exec -i %s -- sh", args[0])
			}
			f.terminal = true
			return a.execute(cmd, args[0], []string{"sh", "-c", shellScript}, f)
		},
	}
	f.addRank(c)
	return c
}

// execute runs a command beside a job, and returns its exit code as an error.
func (a *commands) execute(cmd *cobra.Command, job string, argv []string, f execFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.checkTerminal(a.In); err != nil {
		return err
	}
	return a.asRunError(a.withJobs(toJoin, func(ctx context.Context, c *client.Client, ids []string) error {
		return a.runBeside(ctx, c, ids[0], argv, f)
	})(cmd, []string{job}))
}

// tellRecorded tells the user that administrators can see the session.
func (a *commands) tellRecorded() {
	output.Printf(a.Err, "This session is recorded for administrators.\n")
}

// writerOf lets output.IsTerminal check an input.
func writerOf(in io.Reader) io.Writer {
	f, _ := in.(*os.File)
	return f
}

// maxSignals is the number of interrupts after which the session itself ends.
const maxSignals = 2

func (a *commands) runBeside(ctx context.Context, c *client.Client, id string, argv []string, f execFlags) error {
	if _, err := c.Job(ctx, id); err != nil { // this also finds a server that answers
		return err
	}
	interrupted := ctx
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx)) // the signal that ends ctx may be for the command
	defer leave()
	out, flush := a.logWriter()
	o := client.ExecOptions{Rank: f.rank, Argv: argv, Output: out, Errors: a.Err}
	if output.IsTerminal(a.Err) { // its escape sequences are removed, as those of the output are
		clean := &output.Cleaner{W: a.Err}
		defer clean.Close()
		o.Errors = clean
	}
	o.Recorded = a.tellRecorded
	restore := func() {}
	if f.input || f.terminal {
		o.Input = a.In
	}
	if f.terminal {
		resizes := make(chan client.TerminalSize)
		o.Output, o.Resizes, o.Term = a.Out, resizes, os.Getenv("TERM")
		columns, rows := output.TerminalSize(writerOf(a.In))
		o.Terminal = &client.TerminalSize{Columns: columns, Rows: rows}
		o.Started = func() {
			if set, err := output.MakeRaw(a.In); err == nil {
				restore = set
			}
		}
		go a.watchSize(ctx, resizes)
		stop := context.AfterFunc(interrupted, leave) // Ctrl-C is a key, so this is a signal for ares itself
		defer stop()
	} else {
		signals := make(chan int)
		o.Signals = signals
		stop := forwardSignals(ctx, signals, leave)
		defer stop()
	}
	result, err := c.Exec(ctx, id, o)
	restore()
	return resultOf(ctx, result, err, flush())
}

// resultOf returns how a session ended as an error with the exit code. The error `failed` is that of writing its output. If ctx has ended,
// the user has left the session.
func resultOf(ctx context.Context, result client.ExecResult, err, failed error) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return &exit.Error{Code: exit.Interrupted}
	case err != nil:
		return err
	case failed != nil:
		return failed
	case result.Signal != 0:
		return &exit.Error{Code: 128 + result.Signal}
	case result.ExitCode != 0:
		return &exit.Error{Code: result.ExitCode}
	}
	return nil
}

// watchSize passes on the size of the terminal whenever it changes.
func (a *commands) watchSize(ctx context.Context, to chan<- client.TerminalSize) {
	resized, stop := output.Resized()
	defer stop()
	for {
		select {
		case <-resized:
		case <-ctx.Done():
			return
		}
		columns, rows := output.TerminalSize(writerOf(a.In))
		select {
		case to <- client.TerminalSize{Columns: columns, Rows: rows}:
		case <-ctx.Done():
			return
		}
	}
}

// forwardSignals passes interrupts on to the command. After the second one, it leaves the session.
func forwardSignals(ctx context.Context, to chan<- int, leave func()) (stop func()) {
	c := make(chan os.Signal, maxSignals)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	go func() {
		for n := 1; ; n++ {
			var sig os.Signal
			select {
			case sig = <-c:
			case <-ctx.Done():
				return
			}
			number, ok := sig.(syscall.Signal)
			if n > 1 || !ok {
				leave()
				return
			}
			select {
			case to <- int(number):
			case sig = <-c: // the command does not run yet
				leave()
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { signal.Stop(c) }
}
