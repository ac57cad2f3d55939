// Package robustness does to Ares what etcd's and Jepsen's suites do to
// databases: three etcd members, three servers and eight agents, real
// processes in network namespaces of their own, run hundreds of short jobs
// while faults are made by a seed. The run is recorded (package trace) and
// judged from the record (package check).
//
// The whole suite lives in namespaces: network, mounts and process IDs. When
// it ends, however it ends, the kernel takes everything of it away.
package robustness
