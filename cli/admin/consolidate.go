package admin

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

func (a *commands) consolidateCommand() *cobra.Command {
	var o output.Flags
	var dry bool
	c := &cobra.Command{
		Use: "consolidate", Short: "Show the running jobs that Ares would move to make room for waiting jobs", Example: "  ares consolidate --dry-run", Args: command.ExactArgs(),
		Long: `Show the running jobs that Ares would move now to make room for a waiting job. Moving jobs helps
when the cluster has enough free GPUs, but they are on the wrong nodes for the waiting job. The
cost of a move is counted in GPU-seconds. The cost is the work lost since the last checkpoint,
plus the restart. The gain is the waiting time that the moves save, multiplied by the number of
GPUs of the waiting job. Only jobs with checkpoint.enabled are moved, and a moved job starts
again at once. If scheduler.consolidation.enabled is true, the server moves these jobs
automatically.`,
		RunE: a.WithClient(func(ctx context.Context, c *client.Client, _ []string) error {
			if !dry {
				return exit.Usagef("the server moves jobs itself: set scheduler.consolidation.enabled to true on the server, or show the moves with: ares consolidate --dry-run")
			}
			return a.Show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.PlanConsolidation(ctx) },
				func(w io.Writer, m proto.Message) { a.writeConsolidation(w, m.(*apipb.PlanConsolidationResponse)) })
		}),
	}
	o.Add(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "show the moves without making them")
	return c
}

func (a *commands) writeConsolidation(w io.Writer, plan *apipb.PlanConsolidationResponse) {
	if len(plan.GetConsolidations()) == 0 {
		output.Printf(w, "No move is worth its cost.\n")
		return
	}
	t := output.Table{Head: []string{"MOVE", "TENANT", "FROM", "TO", "GPUS", "LOST GPU-S", "FOR", "OF TENANT", "SOONER", "GAINED GPU-S"}}
	moves := 0
	for _, c := range plan.GetConsolidations() {
		sooner := (time.Duration(c.GetWaitSavedSeconds()) * time.Second).String()
		if !c.GetForeseen() {
			sooner += " (assumed)"
		}
		gained := output.Amount(c.GetGpuSecondsGained())
		for _, m := range c.GetMoves() {
			t.Add(m.GetJobId(), m.GetTenantId(), seatText(m.GetFrom()), seatText(m.GetTo()), output.Amount(m.GetGpus()), output.Amount(m.GetGpuSecondsLost()),
				c.GetJobId(), c.GetTenantId(), sooner, gained)
			sooner, gained = "", "" // shown only in the first row of each waiting job
			moves++
		}
	}
	a.WriteTable(w, &t)
	output.Printf(w, "\n%s in total: %s GPU-seconds lost, %s gained\n", output.Count(int32(moves), "move"), output.Amount(plan.GetGpuSecondsLost()), output.Amount(plan.GetGpuSecondsGained()))
	if !plan.GetEnabled() {
		output.Printf(w, "No job moves: scheduler.consolidation.enabled is false.\n")
	}
}

// seatText lists the nodes of an allocation and the devices on each.
func seatText(seats []*apipb.KeptSeat) string {
	var out []string
	for _, s := range seats {
		out = append(out, s.GetNode()+strings.ReplaceAll(fmt.Sprint(s.GetGpus()), " ", ","))
	}
	return strings.Join(out, " ")
}
