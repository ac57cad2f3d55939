package store

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store/storepb"
)

func preemptionRecord(y *ares.Preemption) *storepb.Yield {
	if y == nil {
		return nil
	}
	return &storepb.Yield{
		To: string(y.To), Tenant: y.Tenant, Why: string(y.Why), Milli: y.Milli, LostMilli: y.Lost, AskedMilli: y.Asked,
		RestartMilli: y.Restart,
	}
}

func preemptionOf(m *storepb.Yield) *ares.Preemption {
	if m == nil {
		return nil
	}
	return &ares.Preemption{
		To: ares.JobID(m.To), Tenant: m.Tenant, Why: ares.PreemptionBasis(m.Why), Milli: m.Milli, Lost: m.LostMilli, Asked: m.AskedMilli,
		Restart: m.RestartMilli,
	}
}

func nominationRecord(n *ares.Nomination) *storepb.Nomination {
	if n == nil {
		return nil
	}
	m := &storepb.Nomination{Why: string(n.Why), At: micros(n.At), Until: micros(n.Until)}
	for i := range n.Seats {
		m.Seats = append(m.Seats, seatRecord(&n.Seats[i]))
	}
	for i := range n.Victims {
		v := &n.Victims[i]
		m.Victims = append(m.Victims, &storepb.Victim{Job: string(v.Job), Fence: int64(v.Fence), Yield: preemptionRecord(&v.Preemption)})
	}
	return m
}

func nominationOf(m *storepb.Nomination) *ares.Nomination {
	if m == nil {
		return nil
	}
	n := &ares.Nomination{Why: ares.PreemptionBasis(m.Why), At: fromMicros(m.At), Until: fromMicros(m.Until)}
	for _, s := range m.Seats {
		n.Seats = append(n.Seats, seatOf(s))
	}
	for _, v := range m.Victims {
		victim := ares.Victim{Job: ares.JobID(v.Job), Fence: ares.Fence(v.Fence)}
		if y := preemptionOf(v.Yield); y != nil {
			victim.Preemption = *y
		}
		n.Victims = append(n.Victims, victim)
	}
	return n
}

func seatRecord(seat *ares.Seat) *storepb.Seat {
	m := &storepb.Seat{
		Node: seat.Node, Rank: int32(seat.Rank), CpuCores: int32(seat.CPUs), CpuMilli: int32(seat.CPUMilli), MemoryMb: int32(seat.Memory), Numa: int32(seat.NUMA),
	}
	for _, sh := range seat.Shares {
		m.Shares = append(m.Shares, &apipb.DeviceShare{DeviceId: sh.Device, Index: int32(sh.Index), Milli: int32(sh.Milli)})
	}
	return m
}

func seatOf(m *storepb.Seat) ares.Seat {
	seat := ares.Seat{Node: m.Node, Rank: int(m.Rank), CPUs: int(m.CpuCores), CPUMilli: int(m.CpuMilli), Memory: int(m.MemoryMb), NUMA: int(m.Numa)}
	for _, sh := range m.Shares {
		seat.Shares = append(seat.Shares, ares.Share{Device: sh.DeviceId, Index: int(sh.Index), Milli: int(sh.Milli)})
	}
	return seat
}
