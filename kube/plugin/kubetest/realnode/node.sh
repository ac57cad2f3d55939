#!/usr/bin/env bash
# Process 1 of a node: containerd and the kubelet in mount, process and network namespaces of their own. When this script
# is killed, the kernel ends every process of the node and removes its mounts and network devices.
# Usage: node.sh DIR SERVICE_IP NODE_IP KUBELET_FLAG...
set -euo pipefail
dir=$1 service=$2 address=$3
shift 3

mount --make-rprivate /
mount -t proc proc /proc
# The kubelet and the network plugins have fixed paths below these. The node must not share them with the machine.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
mkdir /var/lib/kubelet /run/sysctl
mount --bind "$dir/kubelet" /var/lib/kubelet

# The kubelet changes these settings of the whole machine. It gets copies that it may change.
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
	copy=/run/sysctl/${name//\//.}
	cat "/proc/sys/$name" >"$copy"
	mount --bind "$copy" "/proc/sys/$name"
done

ip link set lo up
ip address add "$service/32" dev lo
ip address add "$address/32" dev lo

containerd --config "$dir/containerd.toml" >>"$dir/containerd.log" 2>&1 &
kubelet "$@" >>"$dir/kubelet.log" 2>&1 &
wait -n # the node ends with the first of the two that ends
