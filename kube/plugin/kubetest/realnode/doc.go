// Package realnode runs a real kubelet, containerd and device plugin as a node of a kubetest cluster. The containers of
// its pods are real processes.
//
// The node has mount, process and network namespaces of its own, so it leaves nothing behind, even if the test is killed,
// and several nodes can run on one machine. Only its cgroups are those of the machine. It needs root, runc and the network
// plugins of containernetworking-plugins; a test that lacks something fails and is never skipped.
package realnode
