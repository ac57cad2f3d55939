package job

import (
	"strings"

	"github.com/spf13/cobra"
)

// shortCommands returns the commands for jobs that are used most. They are the commands of "ares job" under a shorter
// name, except that "ares job list" is called "ares ps".
func (a *commands) shortCommands() []*cobra.Command {
	list := a.jobListCommand()
	list.Use, list.Aliases = "ps", nil
	list.Example = "  ares ps --mine\n  ares ps --state pending,running"
	out := []*cobra.Command{a.submitCommand(), a.runCommand(), list, a.jobLogsCommand(), a.jobCancelCommand(), a.jobHoldCommand(), a.jobReleaseCommand(), a.jobUpdateCommand()}
	for _, c := range out {
		c.Example = strings.ReplaceAll(c.Example, "ares job "+c.Name(), "ares "+c.Name())
		c.Example = strings.ReplaceAll(c.Example, "ares job submit", "ares submit")
		c.Example = strings.ReplaceAll(c.Example, "ares job release", "ares release")
		if c.Name() != "run" {
			c.Long = strings.TrimSpace(c.Long + "\n\nThis command is the same as \"ares job " + strings.Replace(c.Name(), "ps", "list", 1) + "\".")
		}
	}
	return out
}
