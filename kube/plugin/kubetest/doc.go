// Package kubetest runs a real Kubernetes control plane for tests: etcd, kube-apiserver, the controllers that workloads
// need, and KWOK, which plays the kubelets of any number of fake GPU nodes. Everything listens on loopback, has fresh
// certificates and ends with the test.
//
// The programs are built by `make kube-tools`. A test that lacks one fails; it is never skipped.
package kubetest
