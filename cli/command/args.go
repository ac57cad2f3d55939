package command

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/exit"
)

func AssignPairs(m *map[string]string, flag string, assignments []string) error {
	for _, text := range assignments {
		k, v, ok := strings.Cut(text, "=")
		if !ok || k == "" {
			return exit.Usagef("%s %s: use NAME=VALUE", flag, text)
		}
		if *m == nil {
			*m = map[string]string{}
		}
		(*m)[k] = v
	}
	return nil
}

// TenantFlag adds --tenant-id. The flag parser also accepts --tenant, the earlier name of the flag.
func TenantFlag(flags *pflag.FlagSet, to *string, usage string) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "tenant" {
			name = "tenant-id"
		}
		return pflag.NormalizedName(name)
	})
	flags.StringVar(to, "tenant-id", "", usage)
}

// Group creates a command that does nothing itself and only has subcommands.
func Group(use, short, example, long string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Example: example, Long: long, Args: cobra.ArbitraryArgs, RunE: RunGroup,
	}
	c.AddCommand(subs...)
	return c
}

// RunGroup shows the help of a group. For an unknown subcommand, RunGroup returns an error
// with a suggestion.
func RunGroup(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	if near := suggestCommand(c, args[0]); near != "" {
		return exit.Usagef("%s has no command %q: did you mean %q?", c.CommandPath(), args[0], near)
	}
	var names []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return exit.Usagef("%s has no command %q: use one of %s", c.CommandPath(), args[0], strings.Join(names, ", "))
}

func FlagError(c *cobra.Command, err error) error {
	message := err.Error()
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		message = fmt.Sprintf("--%s: %v", bad.GetFlag().Name, bad.Unwrap())
		if want := expectedValue(bad); want != "" {
			message = fmt.Sprintf("--%s: want %s, got %q", bad.GetFlag().Name, want, bad.GetValue())
		}
	}
	if name, ok := strings.CutPrefix(message, "unknown flag: --"); ok {
		message = "unknown flag --" + name
		if near := suggestFlag(c, name); near != "" {
			message += ": did you mean --" + near + "?"
		}
	}
	if text := NegativeNumber(err); text != "" {
		message = fmt.Sprintf("%q is not a flag: put -- before an argument that begins with -", text)
	}
	return exit.Usagef("%s (see: %s --help)", message, c.CommandPath())
}

// NegativeNumber returns the negative number that the flag parser mistook for a flag, or "" if
// there is none.
func NegativeNumber(err error) string {
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

// expectedValue describes the values that a flag accepts. It is empty for a flag whose own error does.
func expectedValue(bad *pflag.InvalidValueError) string {
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
	case strings.HasPrefix(kind, "uint"):
		return "a whole number that is not negative"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "stringToString":
		return "KEY=VALUE"
	case kind == "duration":
		return "a time such as 90s or 10m"
	default:
		return ""
	}
}

// ExactArgs requires one argument for each name. The error of ExactArgs names the missing or the
// extra argument. The errors of MinOneArg and MaxOneArg name the missing or the extra argument too.
func ExactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return exit.Usagef("%s: %s is missing (usage: %s)", c.CommandPath(), names[len(args)], c.UseLine())
		}
		if len(args) > len(names) && c.HasAvailableSubCommands() {
			return RunGroup(c, args[len(names):])
		}
		if len(args) > len(names) {
			return exit.Usagef("%s: unexpected argument %q (usage: %s)", c.CommandPath(), args[len(names)], c.UseLine())
		}
		return nil
	}
}

func MinOneArg(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return exit.Usagef("%s: %s is missing (usage: %s)", c.CommandPath(), name, c.UseLine())
		}
		return nil
	}
}

func MaxOneArg(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return exit.Usagef("%s: unexpected argument %q (usage: %s)", c.CommandPath(), args[1], c.UseLine())
	}
	return nil
}

func PhaseNames() []string {
	var out []string
	for _, p := range ares.Phases() {
		out = append(out, string(p))
	}
	return out
}
