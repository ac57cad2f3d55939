package main

import (
	"flag"
	"time"
)

// settings are the flags of this program. The periods have the defaults of kube-controller-manager; a test that loses a
// node shortens them, because it would otherwise wait for minutes.
type settings struct {
	kubeconfig string
	qps        float64
	burst      int
	workers    int

	nodeMonitorPeriod      time.Duration
	nodeMonitorGracePeriod time.Duration
	podGCPeriod            time.Duration
	podGCQuarantine        time.Duration
}

func (s *settings) register(flags *flag.FlagSet) {
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "file with the address of the API server and the credentials")
	flags.Float64Var(&s.qps, "kube-api-qps", 1000, "requests per second to the API server")
	flags.IntVar(&s.burst, "kube-api-burst", 2000, "requests to the API server at once")
	flags.IntVar(&s.workers, "workers", 10, "objects of one kind that are reconciled at once")
	flags.DurationVar(&s.nodeMonitorPeriod, "node-monitor-period", 5*time.Second, "how often the leases of nodes are checked")
	flags.DurationVar(&s.nodeMonitorGracePeriod, "node-monitor-grace-period", 50*time.Second,
		"how long a node may be silent before it is marked as not ready")
	flags.DurationVar(&s.podGCPeriod, "pod-gc-period", 20*time.Second, "how often pods of lost nodes are looked for")
	flags.DurationVar(&s.podGCQuarantine, "pod-gc-quarantine", 40*time.Second,
		"how long a node must be absent before its pods are deleted")
}
