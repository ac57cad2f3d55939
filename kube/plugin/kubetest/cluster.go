package kubetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is a running Kubernetes control plane with fake kubelets.
type Cluster struct {
	Dir        string // logs, certificates and kubeconfigs
	Kubeconfig string // of an administrator
	Config     *rest.Config
	Client     *kubernetes.Clientset

	Etcd, APIServer, Controllers, KWOK *Process

	options Options
	pki     *authority
	url     string
	ports   ports
	started []*Process // in the order of their first start
}

// Start runs a cluster until the test ends. The test fails if a program is missing or does not become ready.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	c, err := Launch(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if t.Failed() {
			for _, p := range c.started {
				t.Logf("end of %s:\n%s", filepath.Base(p.Log), p.Tail())
			}
		}
	})
	return c
}

// startTimeout is how long a program may take until it is ready. On a busy machine the API server needs most of it.
const startTimeout = 2 * time.Minute

// Launch runs a cluster outside of a test, until Stop. It leaves nothing running if it fails.
func Launch(ctx context.Context, o Options) (*Cluster, error) {
	if o.Dir == "" {
		return nil, errors.New("Options.Dir is empty: name the directory for the logs of the cluster")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, options: o}
	if err := c.launch(ctx); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) launch(ctx context.Context) error {
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return err
	}
	if err := c.describe(); err != nil {
		return err
	}
	for _, p := range []*Process{c.Etcd, c.APIServer} {
		if err := c.start(p); err != nil {
			return err
		}
	}
	if err := c.awaitReady(ctx, c.APIServer, "the API server's /readyz", c.isAPIReady); err != nil {
		return err
	}
	for _, p := range []*Process{c.Controllers, c.KWOK} {
		if err := c.start(p); err != nil {
			return err
		}
	}
	// A pod cannot be created before its namespace has a service account.
	return c.awaitReady(ctx, c.Controllers, "the default service account", c.hasServiceAccount)
}

// start starts a process and remembers it, so that Stop ends it.
func (c *Cluster) start(p *Process) error {
	if !slices.Contains(c.started, p) {
		c.started = append(c.started, p)
	}
	return p.Start()
}

// Stop ends every process of the cluster. It may be called twice.
func (c *Cluster) Stop() {
	for _, p := range slices.Backward(c.started) {
		p.Kill()
	}
	c.ports.release()
}

// RestartAPIServer kills the API server, starts it again with the same data and waits until it is ready.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	c.APIServer.Kill()
	return c.StartAPIServer(ctx)
}

// StartAPIServer starts an API server that was killed and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	if err := c.start(c.APIServer); err != nil {
		return err
	}
	return c.awaitReady(ctx, c.APIServer, "the API server's /readyz", c.isAPIReady)
}

// awaitReady waits until the process is ready. If it ends before, or is not ready in time, the error has the end of its log.
func (c *Cluster) awaitReady(ctx context.Context, p *Process, what string, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.Ended():
			return fmt.Errorf("%s ended before %s was there: the end of %s:\n%s", p.Name, what, p.Log, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w; the end of %s:\n%s", what, err, p.Log, p.Tail())
		}
	}
}
