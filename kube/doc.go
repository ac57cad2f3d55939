// Package kube contains nothing itself. The packages below it schedule the pods of a Kubernetes cluster with the engine:
//
//   - watch translates Kubernetes objects into records of the engine. No other package knows both sides.
//   - planner owns the engine's state. It decides which pod goes to which node, and with which devices.
//   - annotations and v1alpha1 read what users and administrators write.
//   - plugin is a module of its own. It connects the planner with the framework of the Kubernetes scheduler, and builds
//     the program ares-kube-scheduler.
package kube
