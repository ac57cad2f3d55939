package cli

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/output"
)

// The variable `groups` lists the sections of "ares help" with their commands,
// in the order of the output.
var groups = []struct {
	id, title string
	commands  []string
}{
	{"jobs", "Jobs:", []string{"run", "submit", "ps", "logs", "exec", "shell", "attach", "cp", "forward", "rank", "cancel", "hold", "release", "update", "job", "preemptions", "history"}},
	{"cluster", "Cluster:", []string{"top", "cluster", "join", "node", "reservation", "topology", "consolidate", "sim"}},
	{"tenants", "Tenants:", []string{"tenant", "queue", "fairness", "usage", "cost", "price", "secret"}},
	{"account", "Your account:", []string{"login", "logout", "whoami", "context"}},
	{"admin", "Administration:", []string{
		"up", "server", "agent", "config", "doctor", "backup", "restore", "debug", "image", "auth", "token", "binding", "policy", "audit", "session", "alert",
		"demo", "version", "man", "completion", "help",
	}},
}

// usageTemplate prints the help of a command. Only "ares help flags" lists the global flags.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if gt (len .Aliases) 0}}

Aliases:
  {{.NameAndAliases}}{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if and (eq .GroupID $group.ID) .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{end}}{{if and .HasParent .HasAvailableLocalFlags}}

Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if not (or .HasParent .HasAvailableSubCommands)}}

Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}{{if .HasAvailableSubCommands}}

Help on a command: {{.CommandPath}} [command] --help{{end}}
Global flags: ares help flags
`

// addHelp adds the groups, the help template and the help topic "flags" to the root command.
func addHelp(root *cobra.Command) {
	root.SetUsageTemplate(usageTemplate)
	in := map[string]string{}
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, name := range g.commands {
			in[name] = g.id
		}
	}
	for _, c := range root.Commands() {
		c.GroupID = in[c.Name()]
	}
	root.AddCommand(flagsPage(root))
}

// flagsPage returns the help topic "flags", which lists the flags that every command accepts.
func flagsPage(root *cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: "flags", Short: "Show the flags that every command takes", Hidden: true,
	}
	c.SetHelpFunc(func(c *cobra.Command, _ []string) {
		output.Printf(c.OutOrStdout(), "Every command takes these flags. A flag has precedence over its environment variable, and\n"+
			"the variable over the default.\n\nGlobal flags:\n%s", root.PersistentFlags().FlagUsages())
	})
	return c
}
