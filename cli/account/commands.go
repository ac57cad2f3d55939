// Package account contains the commands for the user's own configuration: contexts, login and whoami. Package account
// must not depend on the commands for jobs, nodes or this machine.
package account

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// The type `commands` has a method for each command of this package.
type commands struct{ *command.App }

// Commands returns the top-level commands of this package.
func Commands(a *command.App) []*cobra.Command {
	c := &commands{a}
	return []*cobra.Command{c.contextCommand(), c.loginCommand(), c.logoutCommand(), c.whoAmICommand()}
}
