// Package summary describes the capacity of a cluster in a few kilobytes. A member makes a summary from the state of its
// engine and sends it to the hub, which ranks clusters by it (package choose).
//
// A summary has at most 64 shapes of nodes with their counts. Free amounts are rounded down, so a hub that relies on a
// summary never counts on capacity that is not there. Rounding keeps an empty node exact; otherwise a job that needs a
// whole node would be offered to nobody. A summary does not show topology inside a cluster beyond the best leaf of each
// model, nor NUMA nodes, taints or affinity to other jobs: a member checks these before it claims a job.
//
// The package is pure: Of depends only on its arguments.
package summary
