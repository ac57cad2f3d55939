package engine

// Mix is a kind of job that is expected, and how often among a thousand. How
// much of a node's free capacity the expected kinds could not use is what a
// placement tries to keep low: the fragmentation gradient of Weng and others
// (USENIX ATC 2023), with CPUs and memory counted as well, so that devices are
// not left beside too few of either.
type Mix struct {
	GPUs   int // whole devices, or
	Milli  int // a part of one
	CPUs   int // of each device's even share of the machine's CPUs, in percent
	Weight int
}

// DefaultMix leans on what clusters report: most jobs are small, most capacity
// goes to large ones.
func DefaultMix() []Mix {
	return []Mix{
		{Milli: 250, CPUs: 50, Weight: 100}, {Milli: 500, CPUs: 50, Weight: 150}, {GPUs: 1, CPUs: 80, Weight: 350},
		{GPUs: 2, CPUs: 80, Weight: 120}, {GPUs: 4, CPUs: 80, Weight: 120}, {GPUs: 8, CPUs: 80, Weight: 160},
	}
}

// warmCost is what using a device near the limit of heat costs: more than any
// fragmentation.
const warmCost = 1 << 40

// cost is what placing one member of the want would strand on a node with this
// stock: lower is better. noFit when no node with it can have room.
func (s *State) cost(w *want, k *stock) int64 {
	h := s.shelfOf(k)
	if h.mostCPUs < w.cpus || h.mostMemory < w.memory {
		return noFit
	}
	before := s.stranded(&h)
	after, ok := h, true
	var buf [maxParts + 1]uint16
	after.parts = buf[:copy(buf[:], h.parts)]
	after.cpus, after.memory = max(h.cpus-w.cpus, 0), max(h.memory-w.memory, 0)
	if w.devices() {
		ok = after.take(w, s.slack())
	}
	if !ok {
		return noFit
	}
	// Then the tightest: fewest free devices left over.
	left := 0
	for _, n := range after.whole {
		left += n
	}
	cost := (s.stranded(&after)-before)*1024 + int64(left)
	if cool := after.cool(); w.devices() && cool < 0 {
		cost += warmCost
	}
	return cost
}

// cool is the free devices that are not warm; below zero when warm ones were
// needed.
func (h *shelf) cool() int {
	n := -h.warm
	for _, whole := range h.whole {
		n += whole
	}
	return n
}

// take removes what the want asks for, and says whether that may be there.
func (h *shelf) take(w *want, slack int) bool {
	mask := w.mask(h.profile)
	if w.milli > 0 {
		best := -1
		for i, p := range h.parts { // largest first: the last that fits is the tightest
			if g, milli := partOf(p); milli+slack >= w.milli && mask&h.profile.groups[g] != 0 {
				best = i
			}
		}
		if best >= 0 {
			g, milli := partOf(h.parts[best])
			h.parts[best] = part(g, max(milli-w.milli, 0))
			return true
		}
	}
	need := max(w.gpus, 1)
	for g := range h.whole {
		if mask&h.profile.groups[g] == 0 {
			continue
		}
		n := min(need, h.whole[g])
		h.whole[g] -= n
		if need -= n; need == 0 {
			if w.milli > 0 && w.milli < wholeMilli {
				h.parts = append(h.parts, part(g, wholeMilli-w.milli))
			}
			return true
		}
	}
	return false
}

// stranded is how much of what is free the expected mix could not use, in
// thousandths of a device by thousandths of the mix.
func (s *State) stranded(h *shelf) int64 {
	devices := len(h.profile.devices)
	if devices == 0 {
		return 0
	}
	whole, parts := 0, 0
	for _, n := range h.whole {
		whole += n
	}
	for _, p := range h.parts {
		_, milli := partOf(p)
		parts += milli
	}
	free := whole*wholeMilli + parts
	if free == 0 {
		return 0
	}
	var sum int64
	for i := range s.cfg.Mix {
		m := &s.cfg.Mix[i]
		usable := whole * wholeMilli
		if m.GPUs > 0 {
			usable = whole / m.GPUs * m.GPUs * wholeMilli
			if m.GPUs > devices {
				continue // never for this machine: nothing is lost on it
			}
		} else {
			for _, p := range h.parts {
				if _, milli := partOf(p); milli >= m.Milli {
					usable += milli
				}
			}
		}
		// CPUs and memory for so many devices, and no more.
		usable = min(usable, carried(h.cpus, h.profile.cpus, devices, m.CPUs), carried(h.memory, h.profile.memory, devices, m.CPUs))
		sum += int64(free-usable) * int64(m.Weight)
	}
	return sum
}

// carried is how many thousandths of devices what is left can serve, when each
// device takes a percentage of its even share of the machine's whole.
func carried(left, of, devices, percent int) int {
	if of == 0 || percent == 0 {
		return devices * wholeMilli
	}
	return left * devices * wholeMilli / of * 100 / percent
}
