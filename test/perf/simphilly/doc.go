// Package simphilly prints how long jobs of a production trace take to complete
// under the orders that a queue may have, each as a policy of the same engine.
//
// The trace is Microsoft's Philly of 2017, October and November: 68,503 jobs of
// eleven virtual clusters. Each virtual cluster is a pool of its own, machines
// of eight GPUs: as many as the preparation of this trace in the artifact of
// "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
// Datacenters" (SC'21) gives it, times 0.3125, rounded up, so that there is
// contention. A job of up to eight GPUs is on one machine; a larger one takes
// equal members, as few as will do, of up to eight.
package simphilly
