package choose

import (
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/summary"
)

// request is what each member of a job needs of a slot.
type request struct {
	members  int
	gpus     int
	milli    int
	cpus     int
	memory   int
	deviceMB int    // memory of each device
	model    string // as the job names it
	oneModel bool
}

func requestOf(j *ares.Job) request {
	r := request{
		members: max(j.MinMembers, 1), gpus: j.GPUs, milli: j.GPUMilli, cpus: ares.RoundUpCPUs(j.MilliCPUs()), memory: j.MemoryMB,
		model: j.GPUModel, oneModel: j.NeedsOneModel(),
	}
	if j.MinMembers == 0 {
		r.members = max(j.Members, 1)
	}
	if n := max(j.GPUs, 1); j.GPUMemoryMB > 0 {
		r.deviceMB = (j.GPUMemoryMB + n - 1) / n
	}
	return r
}

// milliGPUs returns the devices of the whole job, in thousandths.
func (r *request) milliGPUs() int64 { return int64(r.members) * int64(1000*r.gpus+r.milli) }

// wantsModel reports whether a device of the model is good for the job.
func (r *request) wantsModel(model string) bool {
	if r.gpus+r.milli == 0 {
		return true
	}
	if model == "" {
		return false
	}
	if r.model == "" {
		return true
	}
	lower := strings.ToLower(model)
	for one := range strings.SplitSeq(r.model, "|") {
		if strings.Contains(lower, strings.ToLower(one)) {
			return true
		}
	}
	return false
}

// fits returns how much of a slot one member takes, and whether it fits.
func (r *request) fits(s *slot, room summary.Free) (summary.Free, bool) {
	take := summary.Free{Devices: r.gpus, CPUs: r.cpus, MemoryMB: r.memory}
	if r.milli > 0 {
		if room.PartMilli >= r.milli {
			take.PartMilli = r.milli
		} else {
			take.Devices = 1 // a whole device is opened; what the job leaves of it is in the next summary
		}
	}
	ok := room.Devices >= take.Devices && room.CPUs >= take.CPUs && room.MemoryMB >= take.MemoryMB && s.typ.DeviceMemoryMB >= r.deviceMB
	return take, ok
}

// hasNodeFor reports whether one member of a job could have a node of the given model, if nothing else ran there. The empty
// model stands for any node.
func (f *fleet) hasNodeFor(r *request, model string) bool {
	for i := range f.Summary.Shapes {
		t := &f.Summary.Shapes[i].Type
		devices := r.gpus
		if r.milli > 0 {
			devices = 1
		}
		if (model == "" || t.Model == model) && t.Devices >= devices && t.CPUs >= r.cpus && t.MemoryMB >= r.memory && t.DeviceMemoryMB >= r.deviceMB {
			return true
		}
	}
	return false
}

// taken is a part of a slot that a job gets.
type taken struct {
	slot   *slot
	amount summary.Free
}

// plus adds one amount to another `sign` times.
func plus(a, b summary.Free, sign int) summary.Free {
	return summary.Free{
		Devices: a.Devices + sign*b.Devices, PartMilli: a.PartMilli + sign*b.PartMilli, CPUs: a.CPUs + sign*b.CPUs, MemoryMB: a.MemoryMB + sign*b.MemoryMB,
	}
}

// place finds slots of a model for all members of a job, or nil. The empty model stands for any. One member goes to the
// slot that has the fewest devices left, so that whole nodes stay free.
func (f *fleet) place(r *request, model string) []taken {
	if r.members == 1 {
		best, left := taken{}, 1<<30
		for _, s := range f.slots {
			if model != "" && s.typ.Model != model {
				continue
			}
			room := s.room()
			if amount, ok := r.fits(s, room); ok && room.Devices-amount.Devices < left {
				best, left = taken{s, amount}, room.Devices-amount.Devices
			}
		}
		if best.slot == nil {
			return nil
		}
		return []taken{best}
	}
	var out []taken
	for _, s := range f.slots {
		if model != "" && s.typ.Model != model || model == "" && !r.wantsModel(s.typ.Model) {
			continue
		}
		room := s.room()
		for len(out) < r.members {
			amount, ok := r.fits(s, room)
			if !ok {
				break
			}
			out = append(out, taken{s, amount})
			room = plus(room, amount, -1)
		}
	}
	if len(out) < r.members {
		return nil
	}
	return out
}

// placeAny finds slots for a job on the first model that has them.
func (f *fleet) placeAny(r *request) []taken {
	if r.gpus+r.milli == 0 {
		return f.place(r, "")
	}
	if f.Summary != nil {
		for i := range f.Summary.Models {
			if m := f.Summary.Models[i].Name; r.wantsModel(m) {
				if parts := f.place(r, m); parts != nil {
					return parts
				}
			}
		}
	}
	return nil
}

// seats returns the seats that stand for what a granted job will take. Whole devices are taken from the end of a slot,
// where the free ones are.
func (*fleet) seats(parts []taken, milli int) []ares.Seat {
	out := make([]ares.Seat, 0, len(parts))
	opened := map[*slot]int{}
	for rank, p := range parts {
		s := p.slot
		before := s.held.Devices + opened[s]
		opened[s] += p.amount.Devices
		seat := ares.Seat{Node: s.node.ID, Rank: rank, CPUs: p.amount.CPUs, Memory: p.amount.MemoryMB, NUMA: -1}
		for k := range p.amount.Devices {
			if at := s.typ.Devices - 1 - before - k; at >= 0 {
				share := ares.Share{Device: s.node.Devices[at].ID, Index: at, Milli: 1000}
				if milli > 0 {
					share.Milli = milli
				}
				seat.Shares = append(seat.Shares, share)
			}
		}
		if at := s.typ.Devices - s.free.Devices - 1; p.amount.PartMilli > 0 && at >= 0 {
			seat.Shares = append(seat.Shares, ares.Share{Device: s.node.Devices[at].ID, Index: at, Milli: p.amount.PartMilli})
		}
		out = append(out, seat)
	}
	return out
}

// elsewhere is a node that does not exist. All seats are there that count for a tenant, and are on no synthetic node. If each had
// a node of its own, every one of these nodes would rebuild the indexes of the engine.
const elsewhere = "-elsewhere"

// seatsElsewhere returns the seats of a granted job for which no slot is known.
func (r *request) seatsElsewhere() []ares.Seat {
	out := make([]ares.Seat, r.members)
	for rank := range out {
		out[rank] = ares.Seat{Node: elsewhere, Rank: rank, CPUs: r.cpus, Memory: r.memory, NUMA: -1}
		if milli := 1000*r.gpus + r.milli; milli > 0 {
			out[rank].Shares = []ares.Share{{Device: fmt.Sprint(rank), Milli: milli}}
		}
	}
	return out
}

// runElsewhere is the copied run of a job that a cluster owns. Its seats are on nodes of that cluster, which the engine does not
// have.
func runElsewhere(run *ares.Run) ares.Run {
	out := *run
	out.Attempts = slices.Clone(run.Attempts)
	for i := range out.Attempts {
		out.Attempts[i].Seats = slices.Clone(out.Attempts[i].Seats)
		for k := range out.Attempts[i].Seats {
			out.Attempts[i].Seats[k].Node = elsewhere
		}
	}
	return out
}
