// Package scale prints what a simulation costs, and how that grows with the
// fleet and with the queue.
package scale
