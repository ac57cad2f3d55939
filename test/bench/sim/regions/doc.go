// Package regions compares ways to choose a region for each job of a federation. The nodes of Alibaba's openb trace are
// split into 3 and 6 regions by a hash of their names. Each region is a cluster with its own round trip to the hub (2, 70
// or 150 ms) and its own price. Half of the jobs have data in some region, and a fifth of this data must not leave it.
// The bound is one big cluster with all nodes, which keeps data in its region too, decides at once and has no hub.
//
// The jobs are drawn from the pods of the trace with their sizes. They arrive in bursts, and their number is
// such that they request a given share of all GPU time. To keep the run short, every sixteenth node takes part. The
// variable ARES_TRACES names the directory of the traces, ARES_REGIONS_SEEDS the number of seeds, and
// ARES_REGIONS_NODES says which nodes take part: every n-th.
package regions
