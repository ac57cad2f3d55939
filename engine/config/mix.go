package config

// Mix is a kind of job that is expected, and how often among a thousand.
type Mix struct {
	GPUs   int // whole devices, or
	Milli  int // a part of one
	CPUs   int // of each device's even share of the machine's CPUs, in percent; of its memory too
	Weight int
}

// DefaultMix is what is expected before anybody has asked for anything: mostly
// small jobs, and room kept for whole machines. It is a guess that was not
// fitted to any trace, and it counts as much as the first few asks: what jobs
// really ask for soon outweighs it.
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
