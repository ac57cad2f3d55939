package config

// Mix is a kind of job that is expected, and its weight. Set either GPUs or Milli.
type Mix struct {
	GPUs   int // whole devices
	Milli  int // thousandths of one device
	CPUs   int // percent of each device's even share of the node's CPUs, and of its memory
	Weight int
}

// DefaultMix returns the mix that is expected before any job was submitted: mostly
// small jobs, and some that need whole nodes. It is not fitted to any trace. It weighs
// as much as the first few requests, so what jobs really request soon outweighs it.
// Invariant: the weights sum to 1000.
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
