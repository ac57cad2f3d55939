// Package perf measures what the documents claim: durable submissions beside
// raw etcd writing the same bytes, and the steps of a job's path. Run it with
// `make bench`; both sides of a comparison alternate within one run.
package perf
