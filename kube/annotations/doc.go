// Package annotations reads the annotations with the prefix topology.scheduler/, in which users say where Kubernetes
// should place a workload. The package knows strings only, so the scheduler and the tests of the admission policies
// use the same rules.
package annotations
