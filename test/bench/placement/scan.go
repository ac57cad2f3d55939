package placement

import "math"

// Scan is a simple scheduler that checks every node for every job. It picks the node that
// would have the least capacity left (best fit). Scan considers only devices, CPUs and
// memory. Scan has no tenants, links, topology domains or explanations.
type Scan struct{ nodes []bin }

// The type `bin` holds the free capacity of a node.
type bin struct {
	cpus, memory int32
	whole        int32       // free devices
	milli        int32       // free thousandths, summed over all devices
	part         int32       // the most thousandths free on one device
	left         [GPUs]int16 // free thousandths of each device
}

// NewScan returns a Scan over the given number of empty nodes.
func NewScan(nodes int) *Scan {
	s := &Scan{make([]bin, nodes)}
	for i := range s.nodes {
		b := &s.nodes[i]
		*b = bin{cpus: CPUs, memory: MemoryMB, whole: GPUs, milli: 1000 * GPUs, part: 1000}
		for g := range b.left {
			b.left[g] = 1000
		}
	}
	return s
}

// Fill places jobs in order until it has placed the given number of jobs. It returns how
// many jobs it placed.
func (s *Scan) Fill(work []Request, most int) (placed int) {
	for i := range work {
		if s.place(&work[i]) {
			if placed++; placed == most {
				break
			}
		}
	}
	return placed
}

// Request is a job as the Scan sees it.
type Request struct {
	members                   int
	cpus, memory, gpus, milli int32
}

// Requests converts the first jobs of the work into requests for a Scan.
func Requests(jobs int, work Work) []Request {
	out := make([]Request, jobs)
	for i := range out {
		sp := work(i)
		out[i] = Request{max(sp.Members, 1), int32(sp.CPUs), int32(sp.MemoryMB), int32(sp.GPUs), int32(sp.GPUMilli)}
	}
	return out
}

// This method places all members of a job, or none of them.
func (s *Scan) place(r *Request) bool {
	var taken [GPUs]struct {
		at  int
		was bin
	}
	for m := range r.members {
		at := s.best(r)
		if at < 0 {
			for k := m - 1; k >= 0; k-- {
				s.nodes[taken[k].at] = taken[k].was
			}
			return false
		}
		taken[m].at, taken[m].was = at, s.nodes[at]
		s.nodes[at].take(r)
	}
	return true
}

// The method `best` considers all nodes on which one member fits. It returns the node with
// the least free capacity.
func (s *Scan) best(r *Request) int {
	best, least := -1, int64(math.MaxInt64)
	for i := range s.nodes {
		b := &s.nodes[i]
		if b.cpus < r.cpus || b.memory < r.memory || b.whole < r.gpus || b.part < r.milli {
			continue
		}
		if left := int64(b.milli)<<32 + int64(b.cpus); left < least {
			best, least = i, left
		}
	}
	return best
}

// This method allocates the request of one member. The request gets whole
// devices, or a part of the fullest device that still has enough free capacity.
func (b *bin) take(r *Request) {
	b.cpus -= r.cpus
	b.memory -= r.memory
	for range r.gpus {
		b.cut(1000)
	}
	if r.milli > 0 {
		b.cut(int16(r.milli))
	}
	b.whole, b.milli, b.part = 0, 0, 0
	for _, left := range b.left {
		b.milli += int32(left)
		b.part = max(b.part, int32(left))
		if left == 1000 {
			b.whole++
		}
	}
}

// The method `cut` allocates a part of one device, given in thousandths. It uses the
// fullest device that still has enough free capacity.
func (b *bin) cut(milli int16) {
	at := -1
	for g, left := range b.left {
		if left >= milli && (at < 0 || left < b.left[at]) {
			at = g
		}
	}
	b.left[at] -= milli
}
