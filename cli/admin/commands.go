// Package admin contains the commands for cluster administrators: nodes,
// reservations, topology, tenants, queues, prices, access, policies, secrets and the
// audit log. Package admin must not depend on how jobs are submitted.
package admin

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
		c.clusterCommand(), c.joinCommand(), c.nodeCommand(), c.reservationCommand(), c.topologyCommand(), c.consolidateCommand(), c.alertCommand(),
		c.tenantCommand(), c.queueCommand(), c.fairnessCommand(), c.usageCommand(), c.costCommand(), c.priceCommand(),
		c.authCommand(), c.tokenCommand(), c.bindingCommand(), c.auditCommand(), c.sessionCommand(), c.policyCommand(), c.secretCommand(),
	}
}
