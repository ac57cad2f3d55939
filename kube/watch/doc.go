// Package watch translates Kubernetes objects into the records that the planner and the engine use. It is the only
// package that knows both sides. Its functions depend only on their arguments; the informers are in kube/plugin.
package watch
