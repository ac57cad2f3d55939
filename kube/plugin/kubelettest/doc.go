// Package kubelettest has tests of ares-kube-scheduler with a real kubelet, containerd, device plugin and DRA driver: pods that the
// scheduler binds run, see the GPUs that they asked for, and end; and the scheduler's own image runs as the chart installs it.
package kubelettest
