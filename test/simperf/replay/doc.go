// Package replay prints whether the recording of a live server, decided again
// in the simulator, gives the same plans, and what a recording costs.
package replay
