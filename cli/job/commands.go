// Package job contains the commands for jobs: submit, list, explain, predict, stop,
// and the history of finished jobs. Package job must not depend on the commands for
// nodes, tenants or this machine.
package job

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// The type `commands` has a method for each command of this package.
type commands struct{ *command.App }

// Commands returns the top-level commands of this package.
func Commands(a *command.App) []*cobra.Command {
	c := &commands{a}
	return append([]*cobra.Command{c.jobCommand(), c.preemptionsCommand(), c.historyCommand(), c.execCommand(), c.rankCommand(), c.shellCommand(), c.attachCommand(), c.copyCommand(), c.forwardCommand()}, c.shortCommands()...)
}
