package config

// Mix is one kind of job in the expected workload, and the weight of this kind. A Mix sets either GPUs
// or Milli, not both.
type Mix struct {
	GPUs   int // whole devices
	Milli  int // thousandths of one device
	CPUs   int // CPUs, and also memory, per device: percentage of the device's even share of the node
	Weight int
}

// DefaultMix returns the mix that is expected before any job was submitted: mostly small jobs, and some that need
// whole nodes. The default mix is not fitted to any trace. The default mix counts only as much as a few requests,
// so the requests of submitted jobs soon outweigh it. Invariant: the weights sum to 1000.
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
