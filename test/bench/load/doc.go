// Package load measures the performance figures that the documentation states.
// The package compares durable submissions with raw etcd writes of the same
// bytes. It also measures the latency of each step of a job's path. Run the
// benchmarks with `make bench`. When two programs are compared, their
// measurements alternate within one run.
package load
