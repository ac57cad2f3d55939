// Package metrics measures a scheduler that owns an engine.State. The server and the Kubernetes scheduler export the same
// metrics with it, under the names that earlier schedulers used: topology_* is from the topology-aware scheduler, and
// gpu_scheduler_* is from gpu-scheduler. The dashboards of those schedulers therefore keep working.
//
// A Scheduler has three sources:
//
//   - Measure reads numbers from an engine.State at each scrape. The owner of the state calls it while it has exclusive
//     access to the state.
//   - Follow reads the batches that the state applies. It counts the phases that jobs enter, and it measures how long jobs
//     need to recover from the loss of a node.
//   - ObserveDecision and ObservePlan are called after each decision.
//
// Package metrics reads no clock. Callers pass the time, so tests need not wait.
package metrics
