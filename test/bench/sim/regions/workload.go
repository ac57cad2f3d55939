package regions

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/sim"
)

// openb has the nodes and the pods of the trace.
type openb struct {
	fleet *sim.Fleet
	pods  []sim.Arrival
	gpus  int
}

// read reads the trace and keeps every n-th node.
func read(every int) (*openb, error) {
	dir := os.Getenv("ARES_TRACES")
	if dir == "" {
		return nil, errors.New("ARES_TRACES does not say where the traces are: see docs/guide/simulator.md")
	}
	fleet, err := open(filepath.Join(dir, "openb", "openb_node_list_gpu_node.csv"), sim.ReadOpenbNodes)
	if err != nil {
		return nil, err
	}
	trace, err := open(filepath.Join(dir, "openb", "openb_pod_list_default.csv"), func(in io.Reader) (*sim.Trace, error) { return sim.Read("openb", in) })
	if err != nil {
		return nil, err
	}
	o := &openb{fleet: fleet}
	var machines []sim.Machine
	for i := range fleet.Machines {
		if i%every == 0 {
			machines = append(machines, fleet.Machines[i])
			o.gpus += fleet.Machines[i].GPUs
		}
	}
	fleet.Machines = machines
	for i := range trace.Arrivals {
		if s := &trace.Arrivals[i].Spec; s.GPUs+s.GPUMilli > 0 {
			o.pods = append(o.pods, trace.Arrivals[i])
		}
	}
	return o, nil
}

func open[T any](path string, parse func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer func() { _ = f.Close() }() // it was only read
	out, err := parse(f)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

// Runtimes are log-normal, as those of most traces. The pods of openb are services, whose runtimes say nothing about
// jobs.
const (
	medianRuntime = 20 * time.Minute
	sigmaRuntime  = 1.2
	longestRun    = 8 * time.Hour
	// A burst has burst jobs of one pod on average, submitted within a few seconds.
	burst = 25
)

// draw draws jobs that request the given share of the fleet's GPU time while they arrive.
func (o *openb) draw(jobs int, load float64, seed uint64) *sim.Trace {
	r := rand.New(rand.NewPCG(seed, 0x0b)) //nolint:gosec // the same jobs for each policy
	t := &sim.Trace{MilliCPU: true, Format: "openb"}
	work, at := 0.0, 0.0
	for len(t.Arrivals) < jobs {
		pod := o.pods[r.IntN(len(o.pods))]
		mean := math.Log(medianRuntime.Seconds()) + 0.7*r.NormFloat64()
		at += r.ExpFloat64() * burst
		for range min(1+int(r.ExpFloat64()*burst), jobs-len(t.Arrivals)) {
			took := min(math.Exp(mean+sigmaRuntime*0.7*r.NormFloat64()), longestRun.Seconds())
			a := sim.Arrival{Runs: time.Duration(math.Ceil(took)) * time.Second, Spec: pod.Spec, Line: len(t.Arrivals) + 2, ID: fmt.Sprint("job-", len(t.Arrivals)), Owner: pod.ID}
			work += float64(max(1000*a.Spec.GPUs, a.Spec.GPUMilli)) / 1000 * a.Runs.Seconds()
			t.Arrivals = append(t.Arrivals, a)
			a.At = time.Duration((at + r.Float64()*3) * float64(time.Second))
			t.Arrivals[len(t.Arrivals)-1].At = a.At
		}
	}
	slices.SortStableFunc(t.Arrivals, func(a, b sim.Arrival) int { return cmp.Compare(a.At, b.At) })
	first, last := t.Arrivals[0].At, t.Arrivals[len(t.Arrivals)-1].At
	scale := work / load / float64(o.gpus) / (last - first).Seconds()
	for i := range t.Arrivals {
		t.Arrivals[i].At = time.Duration(float64(t.Arrivals[i].At-first) * scale)
	}
	return t
}
