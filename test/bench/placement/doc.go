// Package placement defines the workload on which schedulers are compared. It
// has nodes with 8 GPUs, the job mix of a production cluster, and gangs. The
// package's benchmarks print the cost of one scheduling decision, for the engine
// and for a linear scan. They also print how that cost grows with the number of
// nodes.
package placement
