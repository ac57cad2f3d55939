// Package plugin connects the planner with the scheduling framework of Kubernetes. The program ares-kube-scheduler
// (cmd/ares-kube-scheduler) is the Kubernetes scheduler with this plugin.
//
// The engine decides in batches, outside the framework's cycle: PreEnqueue holds a pod back until the planner has an
// assignment for it. PreFilter then restricts the pod to the planned node, so that the framework's own filters (volumes,
// ports, taints, affinity to pods) check only that node. Permit lets the pods of a gang wait for each other, and Bind
// writes the devices of each pod together with its node.
//
// The package is in a module of its own, because the framework needs k8s.io/kubernetes with its replace directives.
package plugin
