package realnode

import (
	"fmt"
	"os"
	"path/filepath"
)

// Addresses inside the node's network namespace.
const (
	// serviceIP is the address of the Service kubernetes, the first of the API server's range. Containers reach the API
	// server there.
	serviceIP = "10.96.0.1"
	nodeIP    = "10.97.0.1"
)

// containerdConfig needs, in this order: the node's directory, the image of the sandbox, the directory of the network
// plugins. Root may lack the capability to lower an OOM score, so containerd must not try it. The default of unpack_config
// needs mkfs.erofs.
const containerdConfig = `version = 3
root = "%[1]s/containerd"
state = "/run/containerd"
[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.ttrpc"
[[plugins."io.containerd.transfer.v1.local".unpack_config]]
  platform = "linux"
  snapshotter = "overlayfs"
  differ = "walking"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "%[2]s"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["%[1]s/cdi"]
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["%[3]s"]
  conf_dir = "%[1]s/cni"
`

// kubeletConfig needs, in this order: the node's directory, the cgroup below which the pods are.
// The disk of a test machine may be nearly full, so nothing is evicted or collected for that.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://%[1]s/containerd.sock
podLogsDir: %[1]s/logs
resolvConf: ""
cgroupDriver: cgroupfs
cgroupRoot: /%[2]s
failCgroupV1: false
failSwapOn: false
localStorageCapacityIsolation: false
makeIPTablesUtilChains: false
enforceNodeAllocatable: []
imageGCHighThresholdPercent: 100
evictionHard: {imagefs.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", memory.available: "0%%"}
nodeStatusUpdateFrequency: 1s
syncFrequency: 5s
`

// network connects the pods by a bridge, without address translation: they reach each other, the node and the API server.
const network = `{
  "cniVersion": "0.4.0", "name": "realnode",
  "plugins": [{
    "type": "bridge", "bridge": "pods0", "isGateway": true,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.98.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
  }]
}
`

// networkPlugins is the directory into which the package containernetworking-plugins installs.
const networkPlugins = "/usr/lib/cni"

// configure writes the files of the node.
func (n *Node) configure() error {
	for _, name := range []string{"kubelet", "cni", "cdi", "logs"} {
		if err := os.MkdirAll(filepath.Join(n.Dir, name), 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"node.sh":           script,
		"containerd.toml":   fmt.Sprintf(containerdConfig, n.Dir, PodImage, networkPlugins),
		"kubelet.yaml":      fmt.Sprintf(kubeletConfig, n.Dir, n.cgroup),
		"cni/pods.conflist": network,
	} {
		if err := os.WriteFile(filepath.Join(n.Dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
