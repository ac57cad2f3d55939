// Package cli implements the ares command. Package cli reads flags and files, calls a server through package client and prints
// the answer.
//
// The exit codes are 0 for success, 1 for failure, 2 for wrong usage, and 3 for a request that the server refused.
package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/account"
	"github.com/ares-scheduler/ares/cli/admin"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/host"
	"github.com/ares-scheduler/ares/cli/job"
	"github.com/ares-scheduler/ares/cli/man"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/cli/sim"
	"github.com/ares-scheduler/ares/cli/top"
	"github.com/ares-scheduler/ares/server"
)

// Version is set by the linker.
var Version = "dev"

// Main runs a command and returns its exit code. The argument `args` is the command line
// without the program's name.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return MainAs(ctx, "ares", args, stdin, stdout, stderr)
}

func newRoot(a *command.App) *cobra.Command {
	root := command.Group("ares", "Schedule GPU jobs", "  ares job submit --name hello -- echo hello\n  ares job list",
		`Ares schedules GPU jobs, from one workstation to a large cluster.

Start a server and a node on this machine with "ares up", then run the examples in
another terminal.`,
		versionCommand(a), manCommand(a), sim.Command(a), top.Command(a))
	root.AddCommand(job.Commands(a)...)
	root.AddCommand(admin.Commands(a)...)
	root.AddCommand(account.Commands(a)...)
	root.AddCommand(host.Commands(a)...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() { // cobra's own commands must check arguments as strictly as ours
		switch c.Name() {
		case "completion":
			c.Args, c.RunE = cobra.ArbitraryArgs, command.RunGroup
			c.Short, c.Example = "Generate a completion script for a shell", "  source <(ares completion bash)"
			for _, sub := range c.Commands() {
				sub.Example = "  ares completion " + sub.Name()
			}
		case "help":
			c.Run, c.RunE = nil, runHelp
			c.Short, c.Example = "Show the help of a command", "  ares help job submit\n  ares help flags"
		}
	}
	prepareRoot(root, a)
	root.Version = versionText()
	root.SetVersionTemplate("{{.Version}}\n")
	addHelp(root)
	addCompletion(root, a)
	return root
}

// prepareRoot connects a root command to the input and output, and adds the global flags.
func prepareRoot(root *cobra.Command, a *command.App) {
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(command.FlagError)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringVar(&a.ContextName, "context", "", "context of the configuration file (ARES_CONTEXT; default the one of \"ares context use\")")
	flags.StringSliceVar(&a.Servers, "server", nil, "gRPC address of the server; several for a cluster (ARES_SERVER; default the servers of the context, else the server of the data directory, else "+command.DefaultServer+")")
	flags.StringVar(&a.DataDir, "data-dir", "", "data directory of the server on this machine (ARES_DATA_DIR; default "+server.DefaultDataDir()+")")
	flags.StringVar(&a.TokenFile, "token-file", "", "file with the bearer token (ARES_TOKEN, ARES_TOKEN_FILE; default admin.token in the data directory)")
	flags.BoolVar(&a.TLS, "tls", false, "connect with TLS and trust the system's certificate authorities (ARES_TLS)")
	flags.StringVar(&a.TLSCA, "tls-ca", "", "connect with TLS and trust only the certificate authorities in this file (ARES_TLS_CA)")
}

// runHelp shows the help of the command that its arguments name.
func runHelp(c *cobra.Command, args []string) error {
	about, rest, err := c.Root().Find(args)
	if err != nil {
		return exit.Usagef("%s", err)
	}
	if len(rest) > 0 && about.HasSubCommands() {
		return command.RunGroup(about, rest)
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

func versionCommand(a *command.App) *cobra.Command {
	var o output.Flags
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  ares version", Args: command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			return a.PrintValue(o.Format, map[string]string{"version": Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH},
				func(w io.Writer) {
					output.Printf(w, "%s\n", versionText())
				})
		},
	}
	o.AddOutput(c)
	return c
}

// versionText is the output of "ares version" and of "ares --version".
func versionText() string {
	return fmt.Sprintf("ares %s (%s, %s/%s)", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func manCommand(a *command.App) *cobra.Command {
	return &cobra.Command{
		Use: "man DIRECTORY", Short: "Write the manual pages of all commands into a directory", Example: "  ares man man1",
		Args: command.ExactArgs("DIRECTORY"),
		Long: `Write one manual page for each command, such as ares-job-submit.1. The directory is created. The
directory of a user's own manual pages is ~/.local/share/man/man1. "make install" installs the
pages together with the program and the completion of shells.`,
		RunE: func(c *cobra.Command, args []string) error {
			n, err := man.Write(c.Root(), args[0], Version)
			if err != nil {
				return fmt.Errorf("write the manual pages: %w", err)
			}
			output.Printf(a.Out, "%s in %s\n", output.Count(n, "page"), output.Clean(args[0]))
			return nil
		},
	}
}
