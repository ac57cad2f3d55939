package job

import (
	"context"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

const rankHelp = `List the ranks of a job, and run commands in them, from within the job itself. These commands
need no token and no address of a server: they use the socket that $ARES_JOB_SOCKET names. Only
processes of the job can use it, and they reach only the ranks of their own attempt.

From outside of a job, use "ares exec JOB --rank N -- command".`

func (a *commands) rankCommand() *cobra.Command {
	return command.Group("rank", "List the ranks of the job that runs this command, and run commands in them",
		"  ares rank list\n  ares rank exec --rank 3 -- hostname", rankHelp, a.rankListCommand(), a.rankExecCommand(), a.rankRshCommand())
}

// openJobSocket connects to the agent of this node, as a process of a job.
func openJobSocket() (*client.Client, error) {
	path := os.Getenv(client.JobSocketEnv)
	if path == "" {
		return nil, ares.Errorf(ares.FeatureDisabled, "%s is not set: run this command in a job, on a node with Linux 6.5 or later and cgroups for jobs; from outside of a job, use `ares exec`", client.JobSocketEnv)
	}
	return client.JobSocket(path)
}

func (a *commands) rankListCommand() *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the ranks of the job that runs this command", Args: command.ExactArgs(),
		Example: "  ares rank list\n  ares rank list -o csv --columns address",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := openJobSocket()
			if err != nil {
				return err
			}
			defer c.Close()
			list, err := c.Ranks(cmd.Context())
			if err != nil {
				return err
			}
			return a.PrintList(&o, list, func(proto.Message) *output.Table { return rankTable(list.GetRanks()) })
		},
	}
	return o.AddRows(c)
}

func rankTable(list []*apipb.RankInfo) *output.Table {
	t := &output.Table{Head: []string{"RANK", "NODE", "ADDRESS", "STATE"}, Empty: "No ranks.", Drop: []string{"STATE"}}
	for _, r := range list {
		t.Add(strconv.Itoa(int(r.GetRank())), r.GetNodeId(), r.GetAddress(), r.GetState())
	}
	return t
}

func (a *commands) rankExecCommand() *cobra.Command {
	var rank int
	var noInput bool
	c := &cobra.Command{
		Use: "exec --rank N [flags] -- command args...", Short: "Run a command in a rank of the job that runs this command",
		Long: `Run a command in another rank of the job, beside its processes, and exit with the command's exit
code, or 128 plus the number of the signal that ended it. The command has the user, the
environment, the limits, the devices and the isolation of that rank, and starts in its working
directory. Standard input is sent to it.

The command ends with this one, with the rank, and with the attempt. Processes that it leaves
behind in another process group continue until the rank ends. The first Ctrl-C or SIGTERM is
sent to the command, and a second one ends it. The exit code is 125 if Ares itself failed.`,
		Example: "  ares rank exec --rank 3 -- hostname\n  ares rank exec -n --rank 1 -- python worker.py",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rank < 0 {
				return exit.Usagef("--rank: write the number of a rank, such as 0; `ares rank list` shows all")
			}
			return a.inRank(cmd.Context(), args, !noInput, func(context.Context, *client.Client) (int, error) { return rank, nil })
		},
	}
	c.Flags().SortFlags = false
	c.Flags().SetInterspersed(false)
	c.Flags().IntVar(&rank, "rank", -1, "number of the rank, from 0")
	c.Flags().BoolVarP(&noInput, "no-stdin", "n", false, "give the command an empty standard input")
	return c
}

func (a *commands) rankRshCommand() *cobra.Command {
	var noInput bool
	c := &cobra.Command{
		Use: "rsh HOST command...", Short: "Run a shell command in the rank on a node, as rsh and ssh do",
		Long: `Run a shell command in the rank of the job that is on a node, for launchers that start their
daemons with rsh or ssh. HOST is a name or an address of "ares rank list"; if several ranks are
there, the command runs in the first of them. As with ssh, the arguments are joined with blanks,
and a shell (sh) reads the result. Everything else is as for "ares rank exec".`,
		Example: `  ares rank rsh node-7 'cd /data && ls'
  mpirun --mca plm_rsh_agent "ares rank rsh" --host node-6,node-7 ./simulate`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inRank(cmd.Context(), []string{"sh", "-c", strings.Join(args[1:], " ")}, !noInput, func(ctx context.Context, c *client.Client) (int, error) {
				return rankOn(ctx, c, args[0])
			})
		},
	}
	c.Flags().SetInterspersed(false) // flags after the host belong to the command
	c.Flags().BoolVarP(&noInput, "no-stdin", "n", false, "give the command an empty standard input")
	return c
}

// rankOn returns the first rank on a node.
func rankOn(ctx context.Context, c *client.Client, host string) (int, error) {
	list, err := c.Ranks(ctx)
	if err != nil {
		return 0, err
	}
	for _, r := range list.GetRanks() {
		if r.GetNodeId() == host || r.GetAddress() == host {
			return int(r.GetRank()), nil
		}
	}
	return 0, ares.Errorf(ares.NotFound, "no rank of this job is on a node with the name or address %q: `ares rank list` shows them", host)
}

// inRank runs a command in a rank of the job that runs this process, and returns its exit code as an error.
func (a *commands) inRank(ctx context.Context, argv []string, withInput bool, find func(context.Context, *client.Client) (int, error)) error {
	c, err := openJobSocket()
	if err != nil {
		return a.asRunError(err)
	}
	defer c.Close()
	rank, err := find(ctx, c)
	if err != nil {
		return a.asRunError(err)
	}
	ctx, leave := context.WithCancel(context.WithoutCancel(ctx)) // the signal that ends ctx is for the command
	defer leave()
	out, flush := a.logWriter()
	signals := make(chan int)
	o := client.ExecOptions{Rank: rank, Argv: argv, Output: out, Errors: a.Err, Signals: signals}
	if withInput {
		o.Input = a.In
	}
	stop := forwardSignals(ctx, signals, leave)
	defer stop()
	result, err := c.Exec(ctx, "", o)
	return a.asRunError(resultOf(ctx, result, err, flush()))
}
