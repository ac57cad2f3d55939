// Package v1alpha1 reads the configuration of the topology-aware scheduler: a document of the kind SchedulerConfig or
// TopologySchedulerConfig, with the apiVersion topology.scheduler/v1alpha1. The two kinds have the same content. The
// document is in a ConfigMap, so the API server does not check it; this package does, as strictly as the API server
// checks its own kinds.
package v1alpha1
