package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (a *app) consolidateCommand() *cobra.Command {
	var o readFlags
	var dry bool
	c := &cobra.Command{
		Use: "consolidate", Short: "Show which running jobs would be moved to make room for waiting ones", Args: exactly(),
		Long: `Shows which running jobs would be moved now, from where to where, because there is room
for a waiting job in all, but in no one place: what each move costs in GPU-seconds since
its last checkpoint and for its restart, and what the waiting job gains, in GPU-seconds
of waiting. Only jobs with checkpoint.enabled are moved, each to another place at once.
The server does it by itself where scheduler.consolidation.enabled is true.`,
		RunE: a.with(func(ctx context.Context, c *client.Client, _ []string) error {
			if !dry {
				return usagef("jobs are moved by the server itself: set scheduler.consolidation.enabled to true there; ares consolidate --dry-run shows what would be moved now")
			}
			return a.show(ctx, &o, func(ctx context.Context) (proto.Message, error) { return c.PlanConsolidation(ctx) },
				func(w io.Writer, m proto.Message) { a.writeConsolidation(w, m.(*apipb.PlanConsolidationResponse)) })
		}),
	}
	o.add(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "show what would be moved, and move nothing")
	return c
}

func (a *app) writeConsolidation(w io.Writer, plan *apipb.PlanConsolidationResponse) {
	if len(plan.GetConsolidations()) == 0 {
		say(w, "Nothing is worth moving.\n")
		return
	}
	t := table{head: []string{"MOVE", "TENANT", "FROM", "TO", "GPUS", "LOST GPU-S", "FOR", "OF TENANT", "SOONER", "GAINED GPU-S"}}
	moves := 0
	for _, c := range plan.GetConsolidations() {
		sooner := (time.Duration(c.GetWaitSavedSeconds()) * time.Second).String()
		if !c.GetForeseen() {
			sooner += " (assumed)"
		}
		gained := amount(c.GetGpuSecondsGained())
		for _, m := range c.GetMoves() {
			t.add(m.GetJobId(), m.GetTenantId(), seatWords(m.GetFrom()), seatWords(m.GetTo()), amount(m.GetGpus()), amount(m.GetGpuSecondsLost()),
				c.GetJobId(), c.GetTenantId(), sooner, gained)
			sooner, gained = "", "" // once for each job that waits
			moves++
		}
	}
	t.write(w, a.color)
	say(w, "\n%s in all: %s GPU-seconds lost, %s gained\n", count(int32(moves), "move"), amount(plan.GetGpuSecondsLost()), amount(plan.GetGpuSecondsGained()))
	if !plan.GetEnabled() {
		say(w, "Nothing is moved: scheduler.consolidation.enabled is false.\n")
	}
}

// seatWords names the nodes of seats, and the devices there.
func seatWords(seats []*apipb.KeptSeat) string {
	var out []string
	for _, s := range seats {
		out = append(out, s.GetNode()+strings.ReplaceAll(fmt.Sprint(s.GetGpus()), " ", ","))
	}
	return strings.Join(out, " ")
}
