// Command decisions measures the engine and prints the figures as JSON. Command turns compiles it in the source trees
// of two versions, so it uses only functions that both versions have.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/test/bench/placement"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

func main() {
	waiting := flag.Int("waiting", 100_000, "number of waiting jobs")
	nodes := flag.Int("nodes", 10_000, "number of nodes of the larger cluster; the smaller one has a tenth")
	flag.Parse()
	figures := map[string]float64{}
	if err := measure(figures, *nodes, *waiting); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(figures); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// fills is how often each cluster is filled. The fastest time counts: other programs on the machine can only add time.
const fills = 4

// measure fills clusters of two sizes with two kinds of jobs. Then it measures cycles that place nothing, on the
// larger cluster, when it is full of small jobs. All times are processor time of the thread. No garbage is collected
// while the clock runs, because when the collector runs depends on the size of the heap, which the versions do not share.
func measure(figures map[string]float64, nodes, waiting int) error {
	for _, w := range []struct {
		name string
		work placement.Work
	}{{"openb", placement.Openb}, {"gangs", placement.Gangs}} {
		for _, size := range []int{nodes / 10, nodes} {
			key := fmt.Sprintf("%s, %d nodes: placements/s, decided", w.name, size)
			for range fills {
				f, err := fill(placement.Fleet(size, waiting, w.work), waiting)
				if err != nil {
					return err
				}
				keepLargest(figures, key, float64(f.Placed)/f.Decide.Thread.Seconds())
				keepLargest(figures, key+" and applied", float64(f.Placed)/(f.Decide.Thread+f.Apply.Thread).Seconds())
			}
		}
	}
	s := placement.Fleet(nodes, 2*waiting, placement.Openb)
	if _, err := placement.Fill(s, 2*waiting); err != nil {
		return err
	}
	const cycles = 50
	var lap rounds.Lap
	for i := range cycles {
		lap.Time(func() { engine.Decide(s, placement.Now.Add(time.Duration(i)*time.Second)) })
	}
	figures[fmt.Sprintf("nothing to place, %d full nodes: µs for a cycle", nodes)] = lap.Thread.Seconds() * 1e6 / cycles
	return nil
}

// The function `fill` fills a cluster without collecting garbage meanwhile.
func fill(s *engine.State, waiting int) (placement.Filling, error) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return placement.Fill(s, waiting)
}

func keepLargest(figures map[string]float64, key string, value float64) {
	figures[key] = max(figures[key], value)
}
