package admin

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
	"github.com/ares-scheduler/ares/cli/exit"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/topology/links"
)

// firstFitComparison places the same jobs with the engine and with first fit. The engine and first fit each use their own copy of the
// nodes. Each has to cope with the fragmentation that it caused itself.
type firstFitComparison struct {
	profile  string
	machines int
	arrivals int
	seed     uint64

	state    *engine.State
	revision int64
	matrix   *links.Matrix
	devices  int
	free     []uint64 // free devices of each machine, as first fit sees them
	live     []placedPair
}

// placedPair is a job that both the engine and first fit have placed. A placedPair stores the
// first-fit placement, and the engine's state stores the engine's placement.
type placedPair struct {
	id   ares.JobID
	at   int // index of the machine
	held uint64
}

// The type `simulation` is the result of a firstFitComparison.
type simulation struct {
	Profile  string       `json:"profile"`
	Machines int          `json:"machines"`
	Seed     uint64       `json:"seed"`
	Arrivals int          `json:"arrivals"`
	Refused  int          `json:"refused"` // jobs that did not fit on one of the two copies
	Sizes    []sizeFigure `json:"sizes"`
	Overall  gain         `json:"overall"`
}

// sizeFigure is the comparison for all jobs with the same number of GPUs.
type sizeFigure struct {
	GPUs     int     `json:"gpus"`
	Engine   float64 `json:"bandwidth_mbps"` // a geometric mean, like first_fit_mbps
	FirstFit float64 `json:"first_fit_mbps"`
	Gain     gain    `json:"gain"`
}

// The variable `simulated` lists the numbers of GPUs from which the simulation draws the size of
// each job. A size that is listed several times is drawn more often.
var simulated = []int{1, 1, 2, 2, 4, 8}

func (a *commands) simulateGain(ctx context.Context, o *output.Flags, d *firstFitComparison) error {
	if d.machines < 1 || d.machines > 64 {
		return exit.Usagef("--machines %d: use 1 to 64", d.machines)
	}
	if d.arrivals < 1 || d.arrivals > 1_000_000 {
		return exit.Usagef("--arrivals %d: use 1 to 1000000", d.arrivals)
	}
	if !slices.Contains(gpu.Profiles(), d.profile) {
		_, err := gpu.Mock(d.profile, "machine")
		return exit.Usagef("--profile: %s", err)
	}
	if err := d.begin(ctx); err != nil {
		return err
	}
	s, err := d.run(ctx)
	if err != nil {
		return err
	}
	return a.PrintValue(o.Format, s, func(w io.Writer) { a.writeSimulation(w, s) })
}

// The method `begin` creates the machines with all devices free.
func (d *firstFitComparison) begin(ctx context.Context) error {
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

func (d *firstFitComparison) put(events ...ares.Event) {
	d.revision++
	for i := range events {
		events[i].Revision = d.revision
	}
	d.state.Apply(ares.Batch{Revision: d.revision, Events: events})
}

// The method `run` starts and ends jobs at random with equal probability. The load of the machines therefore varies from empty to
// full.
func (d *firstFitComparison) run(ctx context.Context) (*simulation, error) {
	s := &simulation{Profile: d.profile, Machines: d.machines, Seed: d.seed, Arrivals: d.arrivals}
	random := rand.New(rand.NewPCG(d.seed, 0)) //nolint:gosec // the same seed must give the same workload
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

// The method `arrive` places a job with n devices on both copies of the nodes, and returns the job's bandwidth on each copy. If the
// job does not fit on one of the two copies of the nodes, it is dropped.
func (d *firstFitComparison) arrive(id ares.JobID, n int) (mbps, first int, ok bool) {
	at := slices.IndexFunc(d.free, func(free uint64) bool { return bits.OnesCount64(free) >= n })
	if at < 0 {
		return 0, 0, false
	}
	now := time.Unix(d.revision, 0).UTC()
	d.put(ares.Event{Job: &ares.Job{Spec: ares.Spec{GPUs: n}.WithDefaults(), ID: id, AcceptedAt: now, Revision: d.revision + 1, Trusted: true}})
	plan := engine.Decide(d.state, now)
	if len(plan.Place) == 0 {
		d.put(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}})
		return 0, 0, false
	}
	run := ares.NewRun(now)
	output.Must(plan.Place[0].Apply(&run, now))
	d.put(ares.Event{Run: &ares.RunEvent{Job: id, Run: run}})
	held := d.matrix.FirstFit(d.free[at], n)
	d.free[at] &^= held
	d.live = append(d.live, placedPair{id, at, held})
	return plan.Place[0].PlacementScore.Bandwidth, d.matrix.BottleneckMBps(held), true
}

// The method `leave` ends a job on both copies of the nodes.
func (d *firstFitComparison) leave(i int) {
	g := d.live[i]
	d.live = slices.Delete(d.live, i, i+1)
	d.free[g.at] |= g.held
	d.put(ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(g.id)}})
}

func (a *commands) writeSimulation(w io.Writer, s *simulation) {
	output.Printf(w, "%s of %s, %d jobs of 1, 2, 4 and 8 GPUs start and end (seed %d); %d did not fit.\n\n",
		output.Count(s.Machines, "machine"), s.Profile, s.Arrivals, s.Seed, s.Refused)
	t := output.Table{Head: []string{"GPUS", "JOBS", "MB/S", "FIRST FIT", "RATIO", "LEAST", "MOST", "BETTER", "EQUAL", "WORSE"}}
	for _, f := range s.Sizes {
		g := f.Gain
		t.Add(strconv.Itoa(f.GPUs), strconv.Itoa(g.known()), fmt.Sprintf("%.0f", f.Engine), fmt.Sprintf("%.0f", f.FirstFit), fmt.Sprintf("%.2f", g.Ratio),
			fmt.Sprintf("%.2f", g.Least), fmt.Sprintf("%.2f", g.Most), strconv.Itoa(g.Better), strconv.Itoa(g.Equal), strconv.Itoa(g.Worse))
	}
	a.WriteTable(w, &t)
	output.Printf(w, "\n%s\n", s.Overall.summary())
}
