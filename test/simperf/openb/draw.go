package openb

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand" //nolint:depguard // the authors drew from this generator
	"path/filepath"
	"slices"

	"github.com/ares-scheduler/ares/sim"
)

// Draw is what the authors' simulator draws from a seed: the order of arrival,
// and that of the nodes, which decides between equal scores.
type Draw struct {
	Seed  int
	Rows  []int
	Fleet *sim.Fleet
}

// Draw draws from a seed. Where the order of arrival is known, it must be that.
func (o *Openb) Draw(seed int) (*Draw, error) {
	from := rand.New(rand.NewSource(int64(seed))) //nolint:gosec // a shuffle
	from.Int()
	d := &Draw{Seed: seed, Rows: o.arrivals(from)}
	// Something draws between the pods and the nodes, presumably the watches of
	// Kubernetes. That it is ten times was found by trying 0 to 39 against what
	// was published of packing on default, seeds 42 and 43; all else followed.
	for range 10 {
		from.Float64()
	}
	fleet := *o.Fleet
	fleet.Machines = slices.Clone(fleet.Machines)
	for i, at := range from.Perm(len(fleet.Machines)) {
		fleet.Machines[i].Name = fmt.Sprintf("%04d-%s", at, fleet.Machines[i].Name)
	}
	d.Fleet = &fleet
	known, err := open(filepath.Join(o.dir, "order", fmt.Sprintf("openb_pod_list_%s.seed%d.order", o.variant, seed)), sim.ReadOrder)
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil && !slices.Equal(known, d.Rows) {
		err = fmt.Errorf("seed %d of %s draws another order of arrival than is known", seed, o.variant)
	}
	return d, err
}

// arrivals is every pod once, shuffled, and then pods at random until one more
// would ask for more than 1.3 times the GPUs; or, where all of them ask for
// more, fewer.
func (o *Openb) arrivals(from *rand.Rand) []int {
	pods := len(o.Trace.Arrivals)
	rows, milli := make([]int, pods), make([]int, pods)
	asked, gpus := 0, 0
	for i := range o.Trace.Arrivals {
		a := &o.Trace.Arrivals[i]
		row := a.Line - 2
		rows[row], milli[row] = row, max(1000*a.Spec.GPUs, a.Spec.GPUMilli)
		asked += milli[row]
	}
	for i := range o.Fleet.Machines {
		gpus += o.Fleet.Machines[i].GPUs
	}
	most := 1300 * gpus
	from.Shuffle(pods, func(i, k int) { rows[i], rows[k] = rows[k], rows[i] })
	if asked >= most {
		for asked > most {
			at := from.Intn(len(rows))
			asked -= milli[rows[at]]
			rows = slices.Delete(rows, at, at+1)
		}
		return rows
	}
	for {
		row := from.Intn(pods)
		if asked+min(milli[row], 1000) > most { // however many GPUs it asks for, as in theirs
			return rows
		}
		asked += milli[row]
		rows = append(rows, row)
	}
}
