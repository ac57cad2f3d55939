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

// DefaultMix is a guess: mostly small jobs, and room kept for whole machines. It
// was not fitted to any trace.
func DefaultMix() []Mix {
	return []Mix{
		{Milli: 250, CPUs: 50, Weight: 100},
		{Milli: 500, CPUs: 50, Weight: 150},
		{GPUs: 1, CPUs: 80, Weight: 350},
		{GPUs: 2, CPUs: 80, Weight: 120},
		{GPUs: 4, CPUs: 80, Weight: 120},
		{GPUs: 8, CPUs: 80, Weight: 160},
	}
}

// warmCost is what using a device near the limit of heat costs: more than any
// fragmentation.
const warmCost = 1 << 40

// unsureCost puts flocks of which only some nodes have the CPUs and the memory
// behind those of which all have: looking for them costs time.
const unsureCost = 1 << 38

// cost is what placing one member of the want would strand on a node with this
// stock: lower is better. noFit when no node with it can have room.
func (s *State) cost(w *want, k *stock) int64 {
	p := s.profiles.all[k.profile]
	if cpus, memory := k.most(p); cpus < w.cpus || memory < w.memory {
		return noFit
	}
	s.shelf.fill(p, k)
	cost := s.shelf.cost(w, s.cfg.Mix)
	if cpus, memory := k.least(p); cost != noFit && (cpus < w.cpus || memory < w.memory) {
		cost += unsureCost
	}
	return cost
}

// costOn is what placing one member of the want would strand on the node.
func (s *State) costOn(w *want, n *node) int64 {
	s.shelf.fillFrom(n)
	return s.shelf.cost(w, s.cfg.Mix)
}

// cost takes the want off the shelf and says what that strands.
func (h *shelf) cost(w *want, mix []Mix) int64 {
	before := h.stranded(mix)
	h.cpus, h.memory = max(h.cpus-w.cpus, 0), max(h.memory-w.memory, 0)
	if w.devices() && !h.take(w) {
		return noFit
	}
	cost := (h.stranded(mix) - before) * 1024
	// Then the tightest: fewest free devices left over.
	left := 0
	for _, n := range h.whole {
		left += n
	}
	cost += int64(left)
	if w.devices() && left < h.warm {
		cost += warmCost
	}
	return cost
}

// take removes what the want asks for, and says whether that may be there.
func (h *shelf) take(w *want) bool {
	mask := w.mask(h.profile)
	if w.milli > 0 {
		best := -1
		for i, left := range h.parts[:h.count] {
			if left >= w.milli && (best < 0 || left < h.parts[best]) {
				best = i
			}
		}
		if best >= 0 && mask != 0 {
			h.parts[best] = max(h.parts[best]-w.milli, 0)
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
			if w.milli > 0 && w.milli < wholeMilli && h.count < len(h.parts) {
				h.parts[h.count] = wholeMilli - w.milli
				h.count++
			}
			return true
		}
	}
	return false
}

// stranded is how much of what is free the expected mix could not use, in
// thousandths of a device by thousandths of the mix.
func (h *shelf) stranded(mix []Mix) int64 {
	devices := len(h.profile.devices)
	if devices == 0 {
		return 0
	}
	whole, parts := 0, 0
	for _, n := range h.whole {
		whole += n
	}
	for _, left := range h.parts[:h.count] {
		parts += left
	}
	free := whole*wholeMilli + parts
	if free == 0 {
		return 0
	}
	carried := min(carries(h.cpus, h.profile.cpus, devices), carries(h.memory, h.profile.memory, devices))
	var sum int64
	for i := range mix {
		m := &mix[i]
		usable := whole * wholeMilli
		switch {
		case m.GPUs > devices:
			continue // never for this machine: nothing is lost on it
		case m.GPUs > 1:
			usable = whole / m.GPUs * m.GPUs * wholeMilli
		case m.Milli > 0:
			for _, left := range h.parts[:h.count] {
				if left >= m.Milli {
					usable += left
				}
			}
		}
		// CPUs and memory for so many devices, and no more.
		if m.CPUs > 0 {
			usable = min(usable, carried*100/m.CPUs)
		}
		sum += int64(free-usable) * int64(m.Weight)
	}
	return sum
}

// carries is how many thousandths of devices what is left can serve, when each
// device takes its even share of the machine's whole.
func carries(left, of, devices int) int {
	if of == 0 {
		return devices * wholeMilli
	}
	return left * devices * wholeMilli / of
}
