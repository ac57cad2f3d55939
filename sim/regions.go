package sim

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Regions describes a federation: a fleet is split into regions, and each region is a cluster of its own. A seed decides
// which node is in which region, which job has data, and where the data is.
type Regions struct {
	Count int
	Seed  uint64
}

// MaxRegions is the largest number of regions in a simulation.
const MaxRegions = 26

// These are the ways to choose a region for a job.
const (
	ChooseBoth    = "both"    // rank by summary, decide by bid: what a hub does
	ChooseSummary = "summary" // bind to the best cluster according to the summaries
	ChooseBid     = "bid"     // ask every cluster when a job arrives, and bind to the best bid
	ChooseRandom  = "random"  // bind to a random cluster when a job arrives
	ChooseNearest = "nearest" // bind to the cluster that is nearest to the job's data when a job arrives
	ChooseOne     = "one"     // one big cluster with all nodes: the bound
)

// RegionChoices returns the names of the ways to choose a region.
func RegionChoices() []string {
	return []string{ChooseOne, ChooseBoth, ChooseSummary, ChooseBid, ChooseRandom, ChooseNearest}
}

// roundTrips are the round trips between the hub and the regions, in turn. prices are those of an hour of one GPU, and
// egressMicros is the price of a GiB that leaves a region, in millionths of the currency.
var (
	roundTrips = []time.Duration{2 * time.Millisecond, 70 * time.Millisecond, 150 * time.Millisecond}
	prices     = []int64{1_000_000, 2_000_000}
)

const egressMicros = 20_000

// region is one region of a federation.
type region struct {
	name      string
	roundTrip time.Duration
	price     int64
	fleet     *Fleet
}

// Check reports a number of regions that cannot be simulated.
func (r Regions) Check() error {
	if r.Count < 2 || r.Count > MaxRegions {
		return ares.Errorf(ares.Invalid, "%d regions cannot be simulated: use 2 to %d", r.Count, MaxRegions).At("regions")
	}
	return nil
}

// split assigns each node of a fleet to a region by a hash of its name. The fleet of the result has all nodes, with
// their region as a label.
func (r Regions) split(f *Fleet) (*Fleet, []region, error) {
	whole := &Fleet{Shares: f.Shares, tenants: f.tenants, queues: f.queues, Topology: f.Topology, Digest: f.Digest, MilliCPU: f.MilliCPU}
	out := make([]region, r.Count)
	for i := range out {
		out[i] = region{
			name: string(rune('a' + i)), roundTrip: roundTrips[i%len(roundTrips)], price: prices[i%len(prices)],
			fleet: &Fleet{Shares: f.Shares, tenants: f.tenants, queues: f.queues, Topology: f.Topology, Digest: f.Digest, MilliCPU: f.MilliCPU},
		}
	}
	for n := range f.Nodes() {
		at := &out[r.draw("node "+n.ID)%uint64(r.Count)]
		placed := *n
		placed.Labels = maps.Clone(n.Labels)
		if placed.Labels == nil {
			placed.Labels = map[string]string{}
		}
		placed.Labels["region"] = at.name
		whole.nodes, at.fleet.nodes = append(whole.nodes, &placed), append(at.fleet.nodes, &placed)
	}
	for i := range out {
		if len(out[i].fleet.nodes) == 0 {
			return nil, nil, ares.Errorf(ares.Invalid, "region %s of %d gets no node: use fewer regions or a larger fleet", out[i].name, r.Count).At("regions")
		}
	}
	return whole, out, nil
}

// draw returns a number that depends only on the seed and a text.
func (r Regions) draw(text string) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %d %s", r.Seed, r.Count, text)
	v := h.Sum64()
	v ^= v >> 33 // the lowest bits of FNV are not random enough
	v *= 0xff51afd7ed558ccd
	return v ^ v>>33
}

// regionData is the data of one job.
type regionData struct {
	home     int // index of the region, -1 for a job without data
	bytes    int64
	resident bool
}

// dataOf draws the data of a job. Half of the jobs have data, of 1 to 256 GiB. A fifth of the data must stay at home.
func (r Regions) dataOf(a *Arrival) regionData {
	d := regionData{home: int(r.draw(fmt.Sprint("home ", a.Line, a.ID)) % uint64(r.Count))} //nolint:gosec // a small number
	u := r.draw(fmt.Sprint("bytes ", a.Line, a.ID))
	if u%2 == 0 {
		d.bytes = int64(math.Exp2(8*float64(u>>11)/(1<<53)) * (1 << 30))
		d.resident = r.draw(fmt.Sprint("resident ", a.Line, a.ID))%5 == 0
	}
	return d
}

// regionJob is a job of the federation.
type regionJob struct {
	arrival  Arrival
	data     regionData
	feasible []bool    // by region
	at       time.Time // arrival
	started  time.Time
	ended    time.Time
	region   int // in which it started
}

// mayRun reports whether a job may run in a region: it fits there, and its resident data is there.
func (j *regionJob) mayRun(at int) bool {
	return j.feasible[at] && (!j.data.resident || j.data.home == at)
}

// RegionsResult is the result of one simulation of a federation.
type RegionsResult struct {
	Choose  string `json:"choose"`
	Regions int    `json:"regions"`
	Seed    uint64 `json:"seed"`
	Jobs    int    `json:"jobs"`
	// Left are the jobs that no region can run. They are left out.
	Left    int           `json:"left_out"`
	Wait    *Distribution `json:"waiting_seconds"`
	Use     float64       `json:"gpu_use_percent"` // of all GPUs until the last arrival
	Compute float64       `json:"compute_cost"`    // units of the currency
	Egress  float64       `json:"egress_cost"`
	MovedGB float64       `json:"moved_gib"` // data that left its home
	// Violations counts jobs that ran outside the home of their resident data.
	Violations int `json:"residency_violations"`
	ByRegion   []struct {
		Name    string  `json:"name"`
		GPUs    int     `json:"gpus"`
		Started int     `json:"started"`
		RTT     float64 `json:"round_trip_ms"`
	} `json:"by_region"`
}

// SimulateRegions replays a trace on a federation.
func SimulateRegions(t *Trace, f *Fleet, p Policy, r Regions, choose string) (*RegionsResult, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if !slices.Contains(RegionChoices(), choose) {
		return nil, ares.Errorf(ares.Invalid, "unknown way to choose a region %q: use one of %s", choose, strings.Join(RegionChoices(), ", ")).At("choose")
	}
	if len(t.Arrivals) == 0 {
		return nil, ares.Errorf(ares.Invalid, "the trace has no jobs")
	}
	t, f = sameCPUUnit(t, f)
	whole, regions, err := r.split(f)
	if err != nil {
		return nil, err
	}
	p = p.For(t, r.Seed)
	s := newFederation(r, choose, p, whole, regions)
	left := s.load(t)
	if len(s.jobs) == 0 {
		return nil, ares.Errorf(ares.Invalid, "no region can run any job of the trace: use fewer regions")
	}
	if err := s.run(); err != nil {
		return nil, err
	}
	return s.result(left), nil
}

// result computes the figures of a finished simulation.
func (s *federation) result(left int) *RegionsResult {
	out := &RegionsResult{Choose: s.choose, Regions: s.spec.Count, Seed: s.spec.Seed, Jobs: len(s.jobs), Left: left}
	out.ByRegion = slices.Grow(out.ByRegion, len(s.regions))[:len(s.regions)]
	for i := range s.regions {
		b := &out.ByRegion[i]
		b.Name, b.RTT = s.regions[i].name, float64(s.regions[i].roundTrip)/float64(time.Millisecond)
		for _, n := range s.regions[i].fleet.nodes {
			b.GPUs += len(n.Devices)
		}
	}
	var waits []float64
	gpus, used, last := 0, 0.0, s.jobs[len(s.jobs)-1].at
	for i := range out.ByRegion {
		gpus += out.ByRegion[i].GPUs
	}
	for i := range s.jobs {
		j := &s.jobs[i]
		milli := max(j.arrival.Spec.Members, 1) * max(1000*j.arrival.Spec.GPUs, j.arrival.Spec.GPUMilli)
		waits = append(waits, j.started.Sub(j.at).Seconds())
		out.ByRegion[j.region].Started++
		hours := float64(milli) / 1000 * j.arrival.Runs.Hours()
		out.Compute += hours * float64(s.regions[j.region].price) / 1e6
		if until := minTime(j.ended, last); until.After(j.started) {
			used += float64(milli) / 1000 * until.Sub(j.started).Seconds()
		}
		if j.region != j.data.home && j.data.bytes > 0 {
			gib := float64(j.data.bytes) / (1 << 30)
			out.MovedGB += gib
			out.Egress += gib * egressMicros / 1e6
			if j.data.resident {
				out.Violations++
			}
		}
	}
	out.Wait = distribution(waits)
	if span := last.Sub(Epoch).Seconds(); gpus > 0 && span > 0 {
		out.Use = rounded(100 * used / span / float64(gpus))
	}
	out.Compute, out.Egress, out.MovedGB = rounded(out.Compute), rounded(out.Egress), rounded(out.MovedGB)
	return out
}

func minTime(a, b time.Time) time.Time {
	if cmp.Compare(a.UnixNano(), b.UnixNano()) < 0 {
		return a
	}
	return b
}
