package openb

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/ares-scheduler/ares/sim"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// Loads lists the loads for which results are reported. A load is the number of
// requested GPUs in percent of all GPUs.
var Loads = [2]int{100, 130}

// Result is the percentage of allocated GPUs at each load in Loads.
type Result [2]float64

// Openb is one variant of the trace.
type Openb struct {
	dir, variant string
	Fleet        *sim.Fleet
	Trace        *sim.Trace
}

// Read reads the nodes and a variant's pods.
func Read(variant string) (*Openb, error) {
	dir := os.Getenv("ARES_TRACES")
	if dir == "" {
		return nil, errors.New("ARES_TRACES must name the folder that has openb/: the trace of alibaba/clusterdata, v2023")
	}
	o := &Openb{dir: filepath.Join(dir, "openb"), variant: variant}
	var err error
	if o.Fleet, err = open(filepath.Join(o.dir, "openb_node_list_gpu_node.csv"), sim.ReadOpenbNodes); err != nil {
		return nil, err
	}
	o.Trace, err = open(filepath.Join(o.dir, "openb_pod_list_"+variant+".csv"), func(in io.Reader) (*sim.Trace, error) { return sim.Read("openb", in) })
	if err == nil && o.Trace.Bad > 0 {
		err = fmt.Errorf("%d bad rows, the first is %s", o.Trace.Bad, o.Trace.Problems[0])
	}
	return o, err
}

// Replay simulates the arrivals of one seed in a new cluster. It adds the elapsed
// time to the lap.
func (o *Openb) Replay(p sim.Policy, d *Draw, lap *rounds.Lap) (Result, error) {
	w := sim.NewWorld(d.Fleet, p.For(o.Trace, uint64(d.Seed)))
	total := float64(1000 * w.GPUs())
	var sums, counts Result
	read := func(m sim.Moment) {
		// At each moment, the current load is rounded to a whole percentage. The
		// result for a load is the mean over all moments with that rounded load. The
		// authors compute their results in the same way.
		for i, load := range Loads {
			if math.RoundToEven(100*float64(m.Arrived)/total) == float64(load) {
				sums[i] += 100 * float64(m.Held) / total
				counts[i]++
			}
		}
	}
	var err error
	lap.Time(func() { err = w.Load(o.Trace, d.Rows, read) })
	return Result{sums[0] / counts[0], sums[1] / counts[1]}, err
}

// Published holds the authors' results. The keys are the variant, the policy and the
// seed.
type Published map[string]map[string]map[int]Result

// ReadPublished reads the authors' table of results.
func ReadPublished() (Published, error) {
	path := filepath.Join(os.Getenv("ARES_TRACES"), "openb", "published", "analysis_allo_discrete.csv")
	rows, err := open(path, func(in io.Reader) ([][]string, error) { return csv.NewReader(in).ReadAll() })
	if err != nil {
		return nil, err
	}
	out := Published{}
	for _, r := range rows[1:] {
		const first = 5 // column of load 0
		seed, err := strconv.Atoi(r[3])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		var result Result
		for i, load := range Loads {
			if result[i], err = strconv.ParseFloat(r[first+load], 64); err != nil {
				return nil, fmt.Errorf("read %s: %w", path, err)
			}
		}
		variant, policy := r[0][len("openb_pod_list_"):], r[1][len("01-"):]
		if out[variant] == nil {
			out[variant] = map[string]map[int]Result{}
		}
		if out[variant][policy] == nil {
			out[variant][policy] = map[int]Result{}
		}
		out[variant][policy][seed] = result
	}
	return out, nil
}

// The function `open` opens a file and parses it with the function `read`.
func open[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, err
	}
	defer f.Close()
	out, err := read(f)
	if err != nil {
		return none, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}
