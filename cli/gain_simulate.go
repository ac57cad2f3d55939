package cli

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// duel has the engine and a first fit place the same jobs on machines of their
// own. Each lives with the gaps that its own choices left.
type duel struct {
	profile  string
	machines int
	arrivals int
	seed     uint64

	state    *engine.State
	revision int64
	matrix   *links.Matrix
	devices  int
	free     []uint64 // of each machine, to the first fit
	live     []guest
}

// guest is a job that both have placed.
type guest struct {
	id   ares.JobID
	at   int // machine
	held uint64
}

// simulation is what came of a duel.
type simulation struct {
	Profile  string       `json:"profile"`
	Machines int          `json:"machines"`
	Seed     uint64       `json:"seed"`
	Arrivals int          `json:"arrivals"`
	Refused  int          `json:"refused"` // for lack of room on either side
	Sizes    []sizeFigure `json:"sizes"`
	Overall  gain         `json:"overall"`
}

// sizeFigure is the comparison for jobs of one size.
type sizeFigure struct {
	GPUs     int     `json:"gpus"`
	Engine   float64 `json:"bandwidth_mbps"` // geometric means
	FirstFit float64 `json:"first_fit_mbps"`
	Gain     gain    `json:"gain"`
}

// simulated are the sizes of jobs, as often as they are listed.
var simulated = []int{1, 1, 2, 2, 4, 8}

func (a *app) simulateGain(ctx context.Context, o *readFlags, d *duel) error {
	if d.machines < 1 || d.machines > 64 {
		return usagef("--machines %d: use 1 to 64", d.machines)
	}
	if d.arrivals < 1 || d.arrivals > 1_000_000 {
		return usagef("--arrivals %d: use 1 to 1000000", d.arrivals)
	}
	if !slices.Contains(gpu.Profiles(), d.profile) {
		_, err := gpu.Mock(d.profile, "machine")
		return usagef("--profile: %s", err)
	}
	if err := d.begin(ctx); err != nil {
		return err
	}
	s, err := d.run(ctx)
	if err != nil {
		return err
	}
	return a.printValue(o.output, s, func(w io.Writer) { a.writeSimulation(w, s) })
}

// begin sets up the machines, all free.
func (d *duel) begin(ctx context.Context) error {
	d.state = engine.New()
	d.put(ares.Event{Tenant: &ares.Tenant{ID: ares.DefaultTenant, Limits: ares.NoLimits()}})
	for i := range d.machines {
		name := fmt.Sprintf("machine-%02d", i+1)
		source, err := gpu.Mock(d.profile, name)
		if err != nil {
			return err
		}
		m, err := source.Detect(ctx)
		if err != nil {
			return err
		}
		numa := make([]int, len(m.Devices))
		for k := range m.Devices {
			numa[k] = m.Devices[k].NUMA
		}
		d.matrix, d.devices = links.NewMatrix(m.Links, numa), len(m.Devices)
		d.free = append(d.free, 1<<d.devices-1)
		d.put(ares.Event{Node: &ares.Node{ID: name, Devices: m.Devices, Links: m.Links, CPUs: m.CPUs, MemoryMB: m.MemoryMB, NUMA: m.NUMA}},
			ares.Event{Session: &ares.Session{Node: name, Instance: "simulated", Revision: d.revision + 1}})
	}
	return nil
}

func (d *duel) put(events ...ares.Event) {
	d.revision++
	for i := range events {
		events[i].Revision = d.revision
	}
	d.state.Apply(ares.Batch{Revision: d.revision, Events: events})
}

// run lets jobs come and go, one as likely as the other, so that the machines
// are seen from empty to full.
func (d *duel) run(ctx context.Context) (*simulation, error) {
	s := &simulation{Profile: d.profile, Machines: d.machines, Seed: d.seed, Arrivals: d.arrivals}
	random := rand.New(rand.NewPCG(d.seed, 0)) //nolint:gosec // a workload that can be had again
	var engineLogs, firstLogs [9]float64
	sizes := map[int]*sizeFigure{}
	for come := 0; come < d.arrivals; {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if len(d.live) > 0 && random.IntN(2) == 0 {
			d.leave(random.IntN(len(d.live)))
			continue
		}
		come++
		n := simulated[random.IntN(len(simulated))]
		mbps, first, ok := d.arrive(ares.JobID(fmt.Sprintf("job-%07d", come)), n)
		if !ok {
			s.Refused++
		}
		if !ok || n == 1 {
			continue
		}
		if sizes[n] == nil {
			sizes[n] = &sizeFigure{GPUs: n}
		}
		sizes[n].Gain.count(mbps, first)
		s.Overall.count(mbps, first)
		engineLogs[n] += math.Log(float64(mbps))
		firstLogs[n] += math.Log(float64(first))
	}
	for n := range engineLogs {
		if f := sizes[n]; f != nil {
			f.Engine, f.FirstFit = math.Exp(engineLogs[n]/float64(f.Gain.known())), math.Exp(firstLogs[n]/float64(f.Gain.known()))
			s.Sizes = append(s.Sizes, *f)
		}
	}
	return s, nil
}

// arrive has both place a job of n devices, and answers with the bandwidth of
// each. Where one of them has no room, the job goes away.
func (d *duel) arrive(id ares.JobID, n int) (mbps, first int, ok bool) {
	at := slices.IndexFunc(d.free, func(free uint64) bool { return bits.OnesCount64(free) >= n })
	if at < 0 {
		return 0, 0, false
	}
	now := time.Unix(d.revision, 0).UTC()
	d.put(ares.Event{Job: &ares.Job{Spec: ares.Spec{GPUs: n}.WithDefaults(), ID: id, AcceptedAt: now, Revision: d.revision + 1}})
	plan := engine.Decide(d.state, now)
	if len(plan.Place) == 0 {
		d.put(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}})
		return 0, 0, false
	}
	run := ares.NewRun(now)
	must(plan.Place[0].Apply(&run, now))
	d.put(ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	held := d.matrix.FirstFit(d.free[at], n)
	d.free[at] &^= held
	d.live = append(d.live, guest{id, at, held})
	return plan.Place[0].Merit.Bandwidth, d.matrix.BottleneckMBps(held), true
}

// leave ends a job on both sides.
func (d *duel) leave(i int) {
	g := d.live[i]
	d.live = slices.Delete(d.live, i, i+1)
	d.free[g.at] |= g.held
	d.put(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(g.id)}})
}

func (a *app) writeSimulation(w io.Writer, s *simulation) {
	say(w, "%s of %s, %d jobs of 1, 2, 4 and 8 GPUs come and go (seed %d); %d found no room.\n\n",
		count(s.Machines, "machine"), s.Profile, s.Arrivals, s.Seed, s.Refused)
	t := table{head: []string{"GPUS", "JOBS", "MB/S", "FIRST FIT", "RATIO", "LEAST", "MOST", "BETTER", "EQUAL", "WORSE"}}
	for _, f := range s.Sizes {
		g := f.Gain
		t.add(strconv.Itoa(f.GPUs), strconv.Itoa(g.known()), fmt.Sprintf("%.0f", f.Engine), fmt.Sprintf("%.0f", f.FirstFit), fmt.Sprintf("%.2f", g.Ratio),
			fmt.Sprintf("%.2f", g.Least), fmt.Sprintf("%.2f", g.Most), strconv.Itoa(g.Better), strconv.Itoa(g.Equal), strconv.Itoa(g.Worse))
	}
	t.write(w, a.color)
	say(w, "\n%s\n", s.Overall.summary())
}
