// Command kubecluster starts a Kubernetes control plane with fake GPU nodes on this machine, prints the path of an
// administrator's kubeconfig and waits for an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(os.Stderr, "kubecluster: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	nodes := flag.Int("nodes", 10, "fake nodes with 8 GPUs each")
	dir := flag.String("dir", "", "directory for logs, certificates and kubeconfigs; it is kept (default: a temporary one, removed at the end)")
	scheduler := flag.Bool("kube-scheduler", false, "start upstream's kube-scheduler too")
	lease := flag.Duration("node-lease", 40*time.Second, "how long after a node is lost it becomes NotReady")
	toleration := flag.Duration("toleration", 0, "how long pods stay on such a node (default: 5m, as in Kubernetes)")
	flag.Parse()
	if *dir == "" {
		temporary, err := os.MkdirTemp("", "kubecluster")
		if err != nil {
			return err
		}
		defer os.RemoveAll(temporary)
		*dir = temporary
	}
	started := time.Now()
	c, err := kubetest.Launch(ctx, kubetest.Options{Dir: *dir, NodeLease: *lease, Toleration: *toleration})
	if err != nil {
		return err
	}
	defer c.Stop()
	if *scheduler {
		if _, err := c.StartKubeScheduler(c.Kubeconfig); err != nil {
			return err
		}
	}
	if _, err := c.CreateNodes(ctx, *nodes, kubetest.NodeShape{}); err != nil {
		return err
	}
	fmt.Printf("ready after %s, logs in %s\nexport KUBECONFIG=%s\n", time.Since(started).Round(time.Millisecond), c.Dir, c.Kubeconfig)
	select {
	case <-ctx.Done():
		return nil
	case <-c.APIServer.Ended():
		return fmt.Errorf("the API server ended: the end of %s:\n%s", c.APIServer.Log, c.APIServer.Tail())
	}
}
