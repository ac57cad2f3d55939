// Package placing is the work that schedulers are compared on: the nodes of 8
// GPUs, the jobs of a production cluster's mix and gangs, and how the engine
// and a linear scan get through them. The benchmarks print what a decision
// costs and how that grows with the fleet.
package placing
