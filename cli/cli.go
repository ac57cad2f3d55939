// Package cli is the ares command: it reads flags and files, calls a server
// through package client and prints what came back.
//
// Exit codes: 0 done, 1 failed, 2 wrong usage, 3 refused by the server.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/server"
)

// Version is set by the linker.
var Version = "dev"

// The exit codes. A followed job may end with others: its own.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitRefused = 3
)

// Main runs one command line, without the program's name, and returns the exit
// code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr, now: time.Now, tty: isTerminal(stdout)}
	a.color = a.tty && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	root := a.root()
	root.SetArgs(args)
	return a.report(root.ExecuteContext(ctx))
}

// app is one invocation: where it reads and writes, and the global flags.
type app struct {
	in    io.Reader
	out   io.Writer
	err   io.Writer
	now   func() time.Time
	tty   bool // out is a terminal
	color bool

	servers   []string
	dataDir   string
	tokenFile string
	tls       bool
	tlsCA     string
}

func (a *app) root() *cobra.Command {
	root := group("ares", "A scheduler for GPU work",
		`Ares schedules GPU work, from one workstation to a fleet.

Start a whole Ares on this machine with "ares up", then, in another terminal:

  ares job submit --name hello -- echo hello
  ares job list`,
		a.jobCommand(), a.tenantCommand(), a.queueCommand(), a.fairnessCommand(), a.preemptionsCommand(), a.consolidateCommand(), a.nodeCommand(), a.reservationCommand(), a.policyCommand(), a.alertCommand(), a.topologyCommand(),
		a.authCommand(), a.tokenCommand(), a.bindingCommand(), a.auditCommand(), a.usageCommand(), a.costCommand(), a.priceCommand(), a.historyCommand(),
		a.simCommand(), a.clusterCommand(), a.configCommand(), a.versionCommand())
	root.AddCommand(a.hostCommands()...)
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() { // cobra's own, as strict as ours
		switch c.Name() {
		case "completion":
			c.Args, c.RunE, c.SuggestionsMinimumDistance = cobra.ArbitraryArgs, runGroup, 1
		case "help":
			c.Run, c.RunE = nil, runHelp
		}
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	flags := root.PersistentFlags()
	flags.SortFlags = false
	flags.StringSliceVar(&a.servers, "server", nil, "gRPC address of the server, several for a cluster (ARES_SERVER; default that of the data directory's server, or "+defaultServer+" where no directory is named)")
	flags.StringVar(&a.dataDir, "data-dir", "", "data directory of the server on this machine (ARES_DATA_DIR; default "+server.DefaultDataDir()+")")
	flags.StringVar(&a.tokenFile, "token-file", "", "file with the bearer token (ARES_TOKEN, ARES_TOKEN_FILE; default admin.token in the data directory)")
	flags.BoolVar(&a.tls, "tls", false, "connect by TLS, trusting the system's certificate authorities (ARES_TLS)")
	flags.StringVar(&a.tlsCA, "tls-ca", "", "connect by TLS, trusting only the certificate authorities in this file (ARES_TLS_CA)")
	return root
}

// group is a command that only has subcommands.
func group(use, short, long string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs, RunE: runGroup,
	}
	c.AddCommand(subs...)
	return c
}

// runGroup shows the help of a group, or says which of its commands was meant.
func runGroup(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	if c.SuggestionsMinimumDistance == 0 {
		c.SuggestionsMinimumDistance = 2
	}
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		return usagef("%s has no command %q: did you mean %q?", c.CommandPath(), args[0], near[0])
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return usagef("%s has no command %q: use one of %s", c.CommandPath(), args[0], strings.Join(names, ", "))
}

// runHelp shows the help of the command that its arguments name.
func runHelp(c *cobra.Command, args []string) error {
	about, rest, err := c.Root().Find(args)
	if err != nil {
		return usagef("%s", err)
	}
	if len(rest) > 0 && about.HasSubCommands() {
		return runGroup(about, rest)
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// usageError is a mistake on the command line.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// exitError ends the program with a code, its message already told.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

func flagError(c *cobra.Command, err error) error {
	message := err.Error()
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		message = fmt.Sprintf("--%s: want %s, got %q", bad.GetFlag().Name, wants(bad), bad.GetValue())
	}
	if name, ok := strings.CutPrefix(message, "unknown flag: --"); ok {
		message = "there is no flag --" + name
		if near := nearestFlag(c, name); near != "" {
			message += ": did you mean --" + near + "?"
		}
	}
	if text := negative(err); text != "" {
		message = fmt.Sprintf("%q is read as a flag, and there is none: for an argument that begins with - write -- before it", text)
	}
	return usagef("%s (see: %s --help)", message, c.CommandPath())
}

// negative is the number below zero that was taken for a flag, "" for none.
func negative(err error) string {
	none, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	text := none.GetSpecifiedShortnames()
	if !strings.ContainsAny(text[:min(1, len(text))], ".0123456789") {
		return ""
	}
	return "-" + text
}

// wants says what a flag takes instead of what it got.
func wants(bad *pflag.InvalidValueError) string {
	far := errors.Is(bad, strconv.ErrRange)
	switch kind := bad.GetFlag().Value.Type(); {
	case far && strings.HasPrefix(bad.GetValue(), "-"):
		return "a greater number"
	case kind == "int32" && far:
		return fmt.Sprintf("a whole number of at most %d", math.MaxInt32)
	case far:
		return "a smaller number"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "duration":
		return "a time such as 90s or 10m"
	default:
		return "another value"
	}
}

func nearestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	for _, n := range names {
		if strings.HasPrefix(n, name) || strings.HasPrefix(name, n+"-") {
			return n
		}
	}
	return apipb.Nearest(name, names)
}

// exactly, atLeastOne and atMostOne name what is missing or too much.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return usagef("%s: %s is missing (usage: %s)", c.CommandPath(), names[len(args)], c.UseLine())
		}
		if len(args) > len(names) && c.HasAvailableSubCommands() {
			return runGroup(c, args[len(names):])
		}
		if len(args) > len(names) {
			return usagef("%s: %q is one argument too many (usage: %s)", c.CommandPath(), args[len(names)], c.UseLine())
		}
		return nil
	}
}

func atLeastOne(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%s: %s is missing (usage: %s)", c.CommandPath(), name, c.UseLine())
		}
		return nil
	}
}

func atMostOne(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s: %q is one argument too many (usage: %s)", c.CommandPath(), args[1], c.UseLine())
	}
	return nil
}

// report tells an error, once, and turns it into an exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	if exit, ok := errors.AsType[*exitError](err); ok {
		return exit.code
	}
	if err == context.Canceled { //nolint:errorlint // said plainly only when there is nothing else to say
		err = errors.New("interrupted")
	}
	say(a.err, "ares: %s\n", clean(strings.ReplaceAll(err.Error(), "\n", "; ")))
	if hint := a.hint(err); hint != "" {
		say(a.err, "  %s\n", hint)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return exitUsage
	}
	switch ares.CodeOf(err) {
	case ares.Invalid, ares.Refused, ares.Conflict, ares.Forbidden, ares.Unauthentic, ares.TooLarge, ares.Fenced:
		return exitRefused
	case ares.NotFound, ares.Exhausted, ares.Unavailable, ares.Internal:
	}
	return exitFailed
}

// hint says what to do about an error whose text cannot know it.
func (a *app) hint(err error) string {
	if errors.Is(err, context.Canceled) || errors.Is(err, agent.ErrNotJoined) {
		return ""
	}
	switch ares.CodeOf(err) {
	case ares.Unavailable:
		return a.whereServer(err)
	case ares.Unauthentic:
		return fmt.Sprintf("give the token with --token-file, ARES_TOKEN or ARES_TOKEN_FILE; a server on this machine puts its own into %s.", a.tokenPath())
	case ares.Invalid, ares.NotFound, ares.Conflict, ares.Fenced, ares.Refused, ares.TooLarge, ares.Exhausted, ares.Forbidden, ares.Internal:
	}
	return ""
}

// whereServer says what to do when no server could do what was asked.
func (a *app) whereServer(err error) string {
	at, start := strings.Join(a.addresses(), ", "), "ares up"
	if a.stopped() {
		return fmt.Sprintf("start one with %q, or name another with --server.", a.self(a.dir())+" up")
	}
	if remedy := connectRemedy(err); remedy != "" {
		return remedy
	}
	if !strings.Contains(err.Error(), apipb.CannotConnect) {
		return fmt.Sprintf("is the server at %s well? See with: %s doctor", at, a.again())
	}
	if !onThisMachine(a.addresses()) {
		return fmt.Sprintf("no server answers at %s: see that it runs there, or name another with --server.", at)
	}
	if len(a.servers) == 0 && os.Getenv("ARES_SERVER") == "" {
		start = a.self(a.dir()) + " up"
		if a.endpoints().GRPC != "" { // left behind by a server that was killed
			at += ", where " + filepath.Join(a.dir(), server.EndpointsFile) + " says it is"
		}
	}
	return fmt.Sprintf("no server answers at %s: start one with %q, or name another with --server.", at, start)
}

// say prints; a terminal that is gone is nobody's to tell.
func say(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}

func (a *app) versionCommand() *cobra.Command {
	var o readFlags
	c := &cobra.Command{
		Use: "version", Short: "Print the version", Args: exactly(),
		RunE: func(*cobra.Command, []string) error {
			return a.printValue(o.output, map[string]string{"version": Version, "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH},
				func(w io.Writer) {
					say(w, "ares %s (%s, %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
				})
		},
	}
	o.addOutput(c)
	return c
}
