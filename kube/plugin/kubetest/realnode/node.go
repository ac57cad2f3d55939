package realnode

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

//go:embed node.sh
var script string

// Options describe a node.
type Options struct {
	Name   string
	GPUs   int // of its device plugin; a node without them has no device plugin
	Labels map[string]string
}

// Node is a running kubelet with its containerd and device plugin.
type Node struct {
	Name string
	Dir  string // configuration, logs and data; it exists while the node runs

	cluster *kubetest.Cluster
	cgroup  string
	forward *forwarder
	plugin  *devicePlugin
	pid     int           // of process 1 of the node
	ended   chan struct{} // closed when no process of the node is left
}

// startTimeout is how long a part of the node may take until it is ready, on a busy machine.
const startTimeout = 2 * time.Minute

// Start runs a node of the cluster until the test ends, and waits until it is ready and offers its GPUs. The test fails if
// something is missing or does not start.
func Start(t testing.TB, c *kubetest.Cluster, o Options) *Node {
	t.Helper()
	dir, lock, err := makeDir()
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Name: o.Name, Dir: dir, cluster: c, cgroup: filepath.Base(dir), ended: make(chan struct{})}
	t.Cleanup(func() {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(n.tails())
		}
		if err := errors.Join(os.RemoveAll(dir), lock.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := n.start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *Node) start(ctx context.Context, o Options) error {
	bin, err := programs()
	if err != nil {
		return err
	}
	if err := errors.Join(n.configure(), makeCgroup(n.cgroup)); err != nil {
		return err
	}
	kubeconfig, err := n.cluster.UserKubeconfig("system:node:"+o.Name, "system:nodes")
	if err != nil {
		return err
	}
	if err := n.buildPodProgram(ctx); err != nil {
		return err
	}
	if err := n.run(bin, n.kubeletFlags(o, kubeconfig)); err != nil {
		return err
	}
	if err := n.connect(ctx); err != nil {
		return err
	}
	if err := n.await(ctx, n.importPodImage); err != nil {
		return err
	}
	if o.GPUs > 0 {
		err = n.await(ctx, func(ctx context.Context) error { return n.offer(ctx, o.GPUs) })
	}
	if err != nil {
		return err
	}
	return n.await(ctx, func(ctx context.Context) error { return n.isReady(ctx, o.GPUs) })
}

// offer starts the device plugin as soon as the kubelet listens.
func (n *Node) offer(ctx context.Context, gpus int) error {
	dir := filepath.Join(n.Dir, "kubelet/device-plugins")
	_, err := os.Stat(filepath.Join(dir, "kubelet.sock"))
	if err == nil {
		n.plugin, err = startDevicePlugin(ctx, dir, gpus)
	}
	return err
}

// programs checks that everything is there which the node needs, and returns the directory of the programs that make builds.
func programs() (string, error) {
	if os.Geteuid() != 0 {
		return "", errors.New("a real kubelet needs root: run the test as root")
	}
	var bin string
	for _, name := range []string{kubetest.Kubelet, kubetest.Containerd, kubetest.Shim, kubetest.Ctr} {
		path, err := kubetest.Program(name)
		if err != nil {
			return "", err
		}
		bin = filepath.Dir(path)
	}
	for _, path := range []string{"/usr/sbin/runc", filepath.Join(networkPlugins, "bridge")} {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: run `tools/needs runc cni-bridge` at the root of the repository", err)
		}
	}
	return bin, nil
}

func (n *Node) kubeletFlags(o Options, kubeconfig string) []string {
	flags := []string{
		"--config=" + filepath.Join(n.Dir, "kubelet.yaml"), "--kubeconfig=" + kubeconfig,
		"--hostname-override=" + o.Name, "--node-ip=" + nodeIP,
	}
	var labels []string
	for key, value := range o.Labels {
		labels = append(labels, key+"="+value)
	}
	if len(labels) > 0 {
		flags = append(flags, "--node-labels="+strings.Join(labels, ","))
	}
	return flags
}

// run starts process 1 of the node in new namespaces.
func (n *Node) run(bin string, kubeletFlags []string) error {
	log, err := os.Create(filepath.Join(n.Dir, "node.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command("bash", append([]string{filepath.Join(n.Dir, "node.sh"), n.Dir, serviceIP, nodeIP}, kubeletFlags...)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=" + bin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}
	started := make(chan error, 1)
	go func() {
		// The kernel kills the process when the thread that started it ends, so this goroutine keeps its thread.
		runtime.LockOSThread()
		defer close(n.ended)
		err := cmd.Start()
		if err == nil {
			n.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is in the logs
		}
	}()
	return <-started
}

// connect makes the API server reachable for the kubelet and for the pods.
func (n *Node) connect(ctx context.Context) error {
	api := strings.TrimPrefix(n.cluster.Config.Host, "https://")
	n.forward = newForwarder(api)
	for _, address := range []string{api, serviceIP + ":443"} {
		// The script may not have set up the network yet.
		if err := n.await(ctx, func(context.Context) error { return n.forward.listen(n.pid, address) }); err != nil {
			return err
		}
	}
	return n.cluster.PublishRootCA(ctx, metav1.NamespaceDefault, metav1.NamespaceSystem)
}

func (n *Node) isReady(ctx context.Context, gpus int) error {
	node, err := n.cluster.Client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady && condition.Status != v1.ConditionTrue {
			return fmt.Errorf("the node is not ready: %s", condition.Message)
		}
	}
	if got := node.Status.Allocatable[kubetest.GPUs]; got.Value() != int64(gpus) || len(node.Spec.Taints) > 0 {
		return fmt.Errorf("the node offers %s GPUs and has the taints %v", got.String(), node.Spec.Taints)
	}
	return nil
}

// await calls check until it returns no error. It gives up when the node has ended.
func (n *Node) await(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-n.ended:
			cancel(errors.New("the node ended"))
		case <-ctx.Done():
		}
	}()
	return kubetest.Await(ctx, startTimeout, 50*time.Millisecond, check)
}

// stop ends every process of the node, and removes what the kernel does not. The cluster forgets the node, so that no pod is
// placed there.
func (n *Node) stop() error {
	if n.plugin != nil {
		n.plugin.stop()
	}
	if n.pid != 0 {
		_ = syscall.Kill(n.pid, syscall.SIGKILL) // it may have ended
		<-n.ended
	}
	if n.forward != nil {
		n.forward.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout) // that of the test has ended
	defer cancel()
	err := n.cluster.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil // it never started
	}
	return errors.Join(removeCgroup(n.cgroup), err)
}

// tails returns the ends of the logs of the node and of its containers.
func (n *Node) tails() string {
	const size = 6000
	var out strings.Builder
	for _, pattern := range []string{"*.log", "logs/*/*/*.log"} {
		files, err := filepath.Glob(filepath.Join(n.Dir, pattern))
		if err != nil {
			return err.Error()
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // a container that was removed
			}
			fmt.Fprintf(&out, "end of %s:\n%s\n", strings.TrimPrefix(file, n.Dir+"/"), text[max(0, len(text)-size):])
		}
	}
	return out.String()
}
