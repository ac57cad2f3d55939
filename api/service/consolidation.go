package service

import (
	"context"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// PlanConsolidation implements apipb.JobServiceServer.
func (d *jobService) PlanConsolidation(context.Context, *apipb.PlanConsolidationRequest) (*apipb.PlanConsolidationResponse, error) {
	all, enabled, gain := d.Cfg.Engine.Consolidate()
	resp := &apipb.PlanConsolidationResponse{Enabled: enabled, Gain: gpus(int64(gain))}
	for i := range all {
		c := &all[i]
		m := &apipb.Consolidation{
			JobId: string(c.For), TenantId: c.Tenant, Seats: keptSeats(c.Seats), WaitSavedSeconds: c.Wait.Seconds(), Foreseen: c.Foreseen,
			GpuSecondsGained: gpus(c.Gain), GpuSecondsLost: gpus(c.Lost),
		}
		for _, v := range c.Moves {
			m.Moves = append(m.Moves, &apipb.Move{
				JobId: string(v.Job), TenantId: v.Tenant, From: keptSeats(v.From), To: keptSeats(v.To), Gpus: gpus(v.Milli), GpuSecondsLost: gpus(v.Lost),
			})
		}
		resp.Consolidations = append(resp.Consolidations, m)
		resp.GpuSecondsGained += m.GpuSecondsGained
		resp.GpuSecondsLost += m.GpuSecondsLost
	}
	return resp, nil
}

// keptSeats converts seats to the public form that is used for reserved seats.
func keptSeats(seats []ares.Seat) []*apipb.KeptSeat {
	out := make([]*apipb.KeptSeat, 0, len(seats))
	for i := range seats {
		s := newSeat(&seats[i])
		out = append(out, &apipb.KeptSeat{Rank: s.Rank, Node: s.Node, Gpus: s.Gpus})
	}
	return out
}
