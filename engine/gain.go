package engine

import (
	"math/bits"

	ares "github.com/ares-scheduler/ares"
)

// bandwidth is what the slowest link between two devices of the seats carries
// by the model, MB/s: inside each node by its links, between nodes by the
// switches. It is 0 with fewer than two devices.
func (s *State) bandwidth(seats []ares.Seat) int {
	least, devices := 0, 0
	note := func(v int) {
		if least == 0 || v < least {
			least = v
		}
	}
	var last *node
	for i := 0; i < len(seats); {
		n := s.byID[seats[i].Node]
		var set uint64
		for ; i < len(seats) && seats[i].Node == n.id; i++ {
			for _, sh := range seats[i].Shares {
				set |= n.bit(sh.Device)
			}
		}
		if count := bits.OnesCount64(set); count > 1 {
			note(n.profile.links.Bandwidth(set))
		}
		devices += bits.OnesCount64(set)
		if last != nil {
			note(s.between(last, n))
		}
		last = n
	}
	if devices < 2 {
		return 0
	}
	return least
}

// bit is the device's place in the sets of the node.
func (n *node) bit(id string) uint64 {
	for i := range n.devices {
		if n.devices[i].id == id {
			return 1 << i
		}
	}
	return 0
}

// unknownMBps is what is taken for a network that nobody has described:
// 10 Gb/s.
const unknownMBps = 1250

// between is what the network between two nodes carries, MB/s.
func (s *State) between(a, b *node) int {
	if gbps := s.places.Gbps(a.at, b.at); gbps > 0 {
		return gbps * 125
	}
	return unknownMBps
}

// lookedAt is how many nodes are looked at to find what a first fit would have
// taken: enough for the comparison, and no more on a busy fleet.
const lookedAt = 256

// naive is the bandwidth of what a first fit over the nodes' names would have
// taken, 0 when that was not found among the first nodes.
func (s *State) naive(w *want, allowed *set, members int) int {
	if w.gpus == 0 || w.gpus*members < 2 {
		return 0
	}
	least := 0
	var last *node
	for i, n := range s.byName {
		if i == lookedAt || members == 0 {
			break
		}
		if !n.open() || !allowed.has(n.at) {
			continue
		}
		take := min(n.room(w), members)
		if take == 0 {
			continue
		}
		members -= take
		m := n.profile.links
		inside := m.Bandwidth(m.FirstFit(w.mask(n.profile)&n.free, take*w.gpus))
		if take*w.gpus > 1 && (least == 0 || inside < least) {
			least = inside
		}
		if last != nil {
			if v := s.between(last, n); least == 0 || v < least {
				least = v
			}
		}
		last = n
	}
	if members > 0 {
		return 0
	}
	return least
}
