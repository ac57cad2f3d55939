// Package host contains the commands that work on the local machine: server,
// agent, "ares up", doctor, demos, backup and restore, and the conversion of
// configuration files. Package host must not depend on how other commands print
// jobs or tenants.
package host

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// The type `commands` has a method for each command of this package.
type commands struct{ *command.App }

// Commands returns the top-level commands of this package.
func Commands(a *command.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{
		c.configCommand(), c.upCommand(), c.serverCommand(), c.agentCommand(), c.demoCommand(), c.doctorCommand(), c.debugCommand(),
		c.backupCommand(), c.restoreCommand(), c.imageCommand(),
	}
}
