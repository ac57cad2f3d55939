// Package federation tests a federation under random faults. A hub of three servers and three etcd members, and three clusters of
// two servers, one etcd member and three agents each, are real processes on machines of their own (package machines). Clients submit
// jobs to the hub and to the clusters while faults are made by a seed: lost and slow links between hub and clusters, killed and stopped
// processes, stores that are lost and restored, rolled back or copied, clusters that are declared dead, that leave and join, and wrong clocks.
//
// The record of a run has a directory for each store, in the format of package trace. Package verdict judges it: what the robustness
// suite demands of one cluster must hold for each store (O1 to O6), and some things for all clusters together (O7 to O9).
//
//	go test ./test/chaos/federation -seed 7 -length 3m
package federation
