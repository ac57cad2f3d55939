package placing

import "math"

// Scan is a scheduler that looks at every node for every job and takes the one
// that the job leaves fullest. It knows nothing but devices, CPUs and memory:
// no tenants, no links, no domains, no reasons.
type Scan struct{ nodes []bin }

// bin is what a node has left.
type bin struct {
	cpus, memory int32
	whole        int32       // free devices
	milli        int32       // thousandths of all devices
	part         int32       // most thousandths left of a device
	left         [GPUs]int16 // thousandths of each
}

// NewScan is a scan over so many empty nodes.
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

// Fill places the first jobs of the work until so many are placed, and says how
// many were.
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

// Request is a job as the scan knows it.
type Request struct {
	members                   int
	cpus, memory, gpus, milli int32
}

// Requests are the first jobs of the work for a scan.
func Requests(jobs int, work Work) []Request {
	out := make([]Request, jobs)
	for i := range out {
		sp := work(i)
		out[i] = Request{max(sp.Members, 1), int32(sp.CPUs), int32(sp.MemoryMB), int32(sp.GPUs), int32(sp.GPUMilli)}
	}
	return out
}

// place places every member or none.
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

// best is the node with the least left that has room for a member.
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

// take gives a member what it asks for: whole devices, or a part of the one
// with the least left.
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

// cut takes thousandths off the device with the least left that has them.
func (b *bin) cut(milli int16) {
	at := -1
	for g, left := range b.left {
		if left >= milli && (at < 0 || left < b.left[at]) {
			at = g
		}
	}
	b.left[at] -= milli
}
