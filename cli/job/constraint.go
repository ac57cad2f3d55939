package job

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
)

// The method `constrain` adds the node-selection conditions of --constraint to those in the
// job file.
func (s *specFlags) constrain(spec *apipb.JobSpec) error {
	for _, text := range s.require {
		requirements, err := ares.ParseNodeRequirements(text)
		if err != nil {
			return exit.Usagef("--constraint %s: %s", text, err)
		}
		if spec.Placement == nil {
			spec.Placement = &apipb.Placement{}
		}
		spec.Placement.NodeRequirements = append(spec.Placement.NodeRequirements, apipb.NewRequirements(requirements)...)
	}
	return nil
}

// completeConstraint completes the beginning of a condition on GPUs when the user presses Tab.
// completeConstraint cannot complete labels, because it does not know the nodes' labels.
func completeConstraint(c *cobra.Command) {
	begin := []string{ares.KeyGPUModel + "=", ares.KeyGPUMemory + ">=", ares.KeyGPUMemory + "<=", ares.KeyGPUCount + "=", ares.KeyGPUCount + ">="}
	output.Must(c.RegisterFlagCompletionFunc("constraint", cobra.FixedCompletions(begin, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)))
}
