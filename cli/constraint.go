package cli

import (
	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// constrain adds the conditions of --constraint to those of the job's file.
func (s *specFlags) constrain(spec *apipb.JobSpec) error {
	for _, text := range s.require {
		requirements, err := ares.ParseNodeRequirements(text)
		if err != nil {
			return usagef("--constraint %s: %s", text, err)
		}
		if spec.Placement == nil {
			spec.Placement = &apipb.Placement{}
		}
		spec.Placement.NodeRequirements = append(spec.Placement.NodeRequirements, apipb.NewRequirements(requirements)...)
	}
	return nil
}

// completeConstraint offers the beginnings of conditions on GPUs; labels are not
// known here.
func completeConstraint(c *cobra.Command) {
	begin := []string{ares.KeyGPUModel + "=", ares.KeyGPUMemory + ">=", ares.KeyGPUMemory + "<=", ares.KeyGPUCount + "=", ares.KeyGPUCount + ">="}
	must(c.RegisterFlagCompletionFunc("constraint", cobra.FixedCompletions(begin, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)))
}
