// Command ares-kube-scheduler schedules the pods of a Kubernetes cluster that name it in schedulerName. It is the
// Kubernetes scheduler with the Ares engine: the engine decides where pods with GPUs go.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of the client
	_ "k8s.io/component-base/metrics/prometheus/version"  // the metric kubernetes_build_info
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/ares-scheduler/ares/kube/plugin"
)

// gcPercent lets the heap grow to this many percent of what is in use before the garbage collector runs. Most of the memory
// is in informers and changes slowly, and each collection reads all of it. The variable GOGC overrides it.
const gcPercent = 300

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ares-kube-scheduler:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var s plugin.Settings
	flags := pflag.NewFlagSet("ares-kube-scheduler", pflag.ContinueOnError)
	flags.SortFlags = false
	flags.StringVar(&s.Kubeconfig, "kubeconfig", "", "file with the address of the cluster and the credentials; without it, the service account of the pod is used")
	flags.StringVar(&s.SchedulerName, "scheduler-name", "topology-aware-scheduler", "schedule the pods with this schedulerName")
	flags.BoolVar(&s.LeaderElect, "leader-elect", true, "elect a leader among several replicas; only the leader decides")
	flags.StringVar(&s.LeaseNamespace, "lease-namespace", "kube-system", "namespace of the Lease for the election of the leader")
	flags.StringVar(&s.LeaseName, "lease-name", "topology-scheduler", "name of that Lease")
	flags.DurationVar(&s.LeaseDuration, "lease-duration", plugin.DefaultLeaseDuration, "another replica takes over after this time when the leader is gone")
	flags.DurationVar(&s.EvictionRetry, "eviction-retry", plugin.DefaultEvictionRetry, "leave a workload alone for this time after a PodDisruptionBudget refused its eviction")
	flags.DurationVar(&s.SaveEvery, "save-learned-every", plugin.DefaultSaveEvery, "store what was learned about runtimes and nodes this often, in the ConfigMap kube-system/topology-scheduler-learned")
	address := flags.IP("bind-address", nil, "address of /metrics, /livez and /readyz; without it, all addresses")
	port := flags.Int("secure-port", 10259, "port of /metrics, /livez and /readyz (HTTPS); 0 for none")
	certificates := flags.String("cert-dir", "", "directory for a certificate that is made at the start; without it, the certificate is kept in memory")
	verbosity := flags.Uint32P("v", "v", 0, "log level of the framework, 0 to 10")
	flags.Usage = func() {
		fmt.Fprintf(os.Stderr, "Schedules the pods of a Kubernetes cluster that name it in schedulerName.\n\nUsage: ares-kube-scheduler [flags]\n\n%s", flags.FlagUsages())
	}
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	if err := flags.Parse(args); err != nil {
		if err == pflag.ErrHelp {
			return nil
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: this program has only flags, see --help", flags.Arg(0))
	}
	if err := s.Check(); err != nil {
		return err
	}
	opts := options.NewOptions()
	opts.SecureServing.BindPort = *port
	opts.SecureServing.ServerCert.CertDirectory = *certificates
	if *address != nil {
		opts.SecureServing.BindAddress = *address
	}
	opts.Authentication.RemoteKubeConfigFile, opts.Authorization.RemoteKubeConfigFile = s.Kubeconfig, s.Kubeconfig
	opts.Logs.Verbosity = logsapi.VerbosityLevel(*verbosity)
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := logsapi.ValidateAndApply(opts.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return plugin.Run(ctx, &s, opts)
}
