// Package e2e has the tests of ares-kube-scheduler against a real Kubernetes control plane (package kubetest).
//
// All tests share one cluster. Each has a namespace and nodes of its own, which its pods select, so that no test takes the
// GPUs of another. The scheduler runs as the service account of the chart, with exactly the rights of deploy/rbac.yaml.
package e2e
