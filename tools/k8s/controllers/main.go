// Command controllers runs those controllers of kube-controller-manager that tests of a scheduler need, as one user and
// without leader election: workloads (Job, Deployment, ReplicaSet, StatefulSet), namespaces and their default service
// accounts, garbage collection, disruption budgets, resource claims, and what follows from the loss of a node.
//
// The whole kube-controller-manager links the volume plugins and cloud providers, which take ten minutes to compile and
// which no test uses.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

func main() {
	klog.InitFlags(nil)
	var s settings
	s.register(flag.CommandLine)
	gates := flag.String("feature-gates", "", "feature gates, as given to kube-apiserver: Name=true,Other=false")
	flag.Parse()
	if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
		fmt.Fprintf(os.Stderr, "controllers: --feature-gates: %v\n", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintf(os.Stderr, "controllers: %v\n", err)
		os.Exit(1)
	}
}
