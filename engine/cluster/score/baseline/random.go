package baseline

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// The policy `random` chooses a node and a device at random. The draws depend only on the seed, the job and
// the node, so that a replay repeats them.
type random struct {
	baseline
	draw uint64 // random number of the current job
}

// BeginJob draws a random number for a job, or for one element of a job array.
func (p *random) BeginJob(id ares.JobID, element int) {
	p.draw = mixBits(p.hashWithSeed(string(id)) + uint64(element))
}

// Score draws a random number for the job and the node.
func (p *random) Score(_ *cluster.Request, n *cluster.Node) int {
	return int(mixBits(p.draw^p.hashWithSeed(n.ID)) >> 1)
}

// Device draws one of the devices that have enough free capacity for the share.
func (p *random) Device(r *cluster.Request, n *cluster.Node) (set uint64) {
	nodeDraw, highest := p.hashWithSeed(n.ID), uint64(0)
	for m := r.DeviceMask(n.Type) & n.Usable; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		if v := mixBits(p.draw ^ nodeDraw + uint64(i) + 1); n.FreeMilliOf(i) >= r.Milli && (set == 0 || v > highest) {
			set, highest = 1<<i, v
		}
	}
	return set
}

// hashWithSeed returns a pseudorandom number that depends only on the name and the seed.
func (p *random) hashWithSeed(name string) uint64 {
	h := mixBits(uint64(p.cfg.Seed))
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return mixBits(h)
}

// mixBits makes every bit of the result depend on every bit of the input. It consists of the last steps of
// Vigna's splitmix64 generator.
func mixBits(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
