// Command decisions measures the engine and prints the figures as JSON. Command turns compiles it in the source trees
// of two versions, so it uses only functions that both versions have.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
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

// measure fills clusters of two sizes with two kinds of jobs. Then it measures cycles that place nothing, on the
// larger cluster, when it is full of small jobs. All times are processor time of the thread.
func measure(figures map[string]float64, nodes, waiting int) error {
	for _, w := range []struct {
		name string
		work placement.Work
	}{{"openb", placement.Openb}, {"gangs", placement.Gangs}} {
		for _, size := range []int{nodes / 10, nodes} {
			s := placement.Fleet(size, waiting, w.work)
			f, err := placement.Fill(s, waiting)
			if err != nil {
				return err
			}
			key := fmt.Sprintf("%s, %d nodes: ", w.name, size)
			figures[key+"placements/s, decided"] = float64(f.Placed) / f.Decide.Thread.Seconds()
			figures[key+"placements/s, decided and applied"] = float64(f.Placed) / (f.Decide.Thread + f.Apply.Thread).Seconds()
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
