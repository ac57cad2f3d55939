// Package robustness tests Ares under random faults, like the robustness suites
// of etcd and Jepsen. Three etcd members, three servers and eight agents are
// real processes in separate network namespaces. Hundreds of short jobs run on
// this cluster while a random generator with a fixed seed injects faults.
// Package trace records the run, and package check checks that record.
//
// The whole suite runs in its own namespaces for network, mounts and process
// IDs. When the suite ends, for whatever reason, the kernel removes everything
// in these namespaces.
package robustness
