// Package sim contains the commands of the simulator: run, compare, record, replay and
// what-if. This package reads flags and prints reports; the package sim at the module's
// root does the simulation.
package sim

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares/cli/command"
)

// The type `commands` has a method for each command of this package.
type commands struct{ *command.App }

// Command returns the command of the simulator.
func Command(a *command.App) *cobra.Command { return (&commands{a}).simCommand() }
