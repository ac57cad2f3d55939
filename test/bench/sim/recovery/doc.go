// Package recovery simulates a cluster of leaves and spines. It measures what
// the loss of a node or of a whole leaf costs the gangs. The package prints how
// many members moved. It also prints the minimum number of members that had to
// move under the same rules. It also prints for how long the members were not
// running.
package recovery
