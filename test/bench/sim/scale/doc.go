// Package scale prints what a simulation costs. It also prints how the cost
// grows with the size of the cluster and the length of the queue.
package scale
