package kubetest

import (
	"fmt"
	"os"
	"path/filepath"
)

// StartProcess runs any program until the cluster stops, for example a scheduler. Its log is NAME.log in the cluster's
// directory. The name must be new.
func (c *Cluster) StartProcess(name, program string, args ...string) (*Process, error) {
	for _, p := range c.started {
		if p.Name == name {
			return nil, fmt.Errorf("a process %s exists already: start it again with its method Start, or choose another name", name)
		}
	}
	p := newProcess(c.Dir, name, append([]string{program}, args...)...)
	return p, c.start(p)
}

// StartKubeScheduler runs upstream's kube-scheduler as the given user, with a client limit of 2,000 requests per second, so
// that the client is not what limits it. The process is called kube-scheduler.
func (c *Cluster) StartKubeScheduler(kubeconfig string, args ...string) (*Process, error) {
	program, err := Program(KubeScheduler)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(c.Dir, "kube-scheduler.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, schedulerConfig, kubeconfig), 0o600); err != nil {
		return nil, err
	}
	return c.StartProcess(KubeScheduler, program, append([]string{"--config=" + config, "--secure-port=0"}, args...)...)
}

// AresSchedulerName is the schedulerName of the pods that ares-kube-scheduler schedules.
const AresSchedulerName = "topology-aware-scheduler"

// StartAresScheduler runs bin/ares-kube-scheduler as the given user, without leader election and without a port. Further
// flags come last, so they override these.
func (c *Cluster) StartAresScheduler(name, kubeconfig string, args ...string) (*Process, error) {
	program, err := AresScheduler()
	if err != nil {
		return nil, err
	}
	flags := []string{"--kubeconfig=" + kubeconfig, "--scheduler-name=" + AresSchedulerName, "--leader-elect=false", "--secure-port=0"}
	return c.StartProcess(name, program, append(flags, args...)...)
}

// FreePort reserves a free loopback port until the cluster stops.
func (c *Cluster) FreePort() (string, error) { return c.ports.next() }

// schedulerConfig is upstream's default profile with another client limit.
const schedulerConfig = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 2000, burst: 4000}
leaderElection: {leaderElect: false}
`
