package main

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/dynamic"
	schedulinginformers "k8s.io/client-go/informers/scheduling/v1beta1"
	"k8s.io/client-go/scale"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/deployment"
	"k8s.io/kubernetes/pkg/controller/disruption"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/job"
	"k8s.io/kubernetes/pkg/controller/namespace"
	"k8s.io/kubernetes/pkg/controller/nodelifecycle"
	"k8s.io/kubernetes/pkg/controller/podgc"
	"k8s.io/kubernetes/pkg/controller/replicaset"
	"k8s.io/kubernetes/pkg/controller/resourceclaim"
	"k8s.io/kubernetes/pkg/controller/scheduling/podgroupprotection"
	"k8s.io/kubernetes/pkg/controller/serviceaccount"
	"k8s.io/kubernetes/pkg/controller/statefulset"
	"k8s.io/kubernetes/pkg/controller/tainteviction"
	"k8s.io/kubernetes/pkg/features"
)

// loop is a controller that is ready to run until its context ends.
type loop func(context.Context)

// controllers is every controller of this program, in the order in which they are started. A controller whose feature gate
// is off has no loop.
var controllers = []struct {
	name  string
	build func(context.Context, *environment) (loop, error)
}{
	{"namespace", newNamespace},
	{"serviceaccount", newServiceAccount},
	{"garbagecollector", newGarbageCollector},
	{"job", newJob},
	{"deployment", newDeployment},
	{"replicaset", newReplicaSet},
	{"statefulset", newStatefulSet},
	{"disruption", newDisruption},
	{"resourceclaim", newResourceClaim},
	{"nodelifecycle", newNodeLifecycle},
	{"tainteviction", newTaintEviction},
	{"podgc", newPodGC},
	{"podgroupprotection", newPodGroupProtection},
}

func newNamespace(ctx context.Context, env *environment) (loop, error) {
	const resync = 5 * time.Minute
	c := namespace.NewNamespaceController(ctx, env.client, env.metadata, env.client.Discovery().ServerPreferredNamespacedResources,
		env.informers.Core().V1().Namespaces(), resync, v1.FinalizerKubernetes)
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newServiceAccount(ctx context.Context, env *environment) (loop, error) {
	c, err := serviceaccount.NewServiceAccountsController(klog.FromContext(ctx), env.informers.Core().V1().ServiceAccounts(),
		env.informers.Core().V1().Namespaces(), env.client, serviceaccount.DefaultServiceAccountsControllerOptions())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}

func newGarbageCollector(ctx context.Context, env *environment) (loop, error) {
	const resync = 30 * time.Second
	c, err := garbagecollector.NewGarbageCollector(ctx, env.client, env.metadata, env.mapper,
		garbagecollector.DefaultIgnoredResources(), informerfactory.NewInformerFactory(env.informers, env.objects), env.started)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		go c.Sync(ctx, env.client.Discovery(), resync)
		c.Run(ctx, env.workers, resync)
	}, nil
}

func newJob(ctx context.Context, env *environment) (loop, error) {
	// The informers of kinds that the API server does not serve must stay nil, or the controller would wait for them.
	var workloads schedulinginformers.WorkloadInformer
	var groups schedulinginformers.PodGroupInformer
	if utilfeature.DefaultFeatureGate.Enabled(features.WorkloadWithJob) {
		workloads = env.informers.Scheduling().V1beta1().Workloads()
		groups = env.informers.Scheduling().V1beta1().PodGroups()
	}
	c, err := job.NewController(ctx, env.client, env.informers.Core().V1().Pods(), env.informers.Batch().V1().Jobs(), workloads, groups)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newDeployment(ctx context.Context, env *environment) (loop, error) {
	c, err := deployment.NewDeploymentController(ctx, env.informers.Apps().V1().Deployments(), env.informers.Apps().V1().ReplicaSets(),
		env.informers.Core().V1().Pods(), env.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newReplicaSet(ctx context.Context, env *environment) (loop, error) {
	c := replicaset.NewReplicaSetController(ctx, env.informers.Apps().V1().ReplicaSets(), env.informers.Core().V1().Pods(),
		env.client, replicaset.BurstReplicas)
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newStatefulSet(ctx context.Context, env *environment) (loop, error) {
	c := statefulset.NewStatefulSetController(ctx, env.informers.Core().V1().Pods(), env.informers.Apps().V1().StatefulSets(),
		env.informers.Core().V1().PersistentVolumeClaims(), env.informers.Apps().V1().ControllerRevisions(), env.client)
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newDisruption(ctx context.Context, env *environment) (loop, error) {
	scales, err := scale.NewForConfig(env.config, env.mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(env.client.Discovery()))
	if err != nil {
		return nil, err
	}
	c := disruption.NewDisruptionController(ctx, env.informers.Core().V1().Pods(), env.informers.Policy().V1().PodDisruptionBudgets(),
		env.informers.Core().V1().ReplicationControllers(), env.informers.Apps().V1().ReplicaSets(),
		env.informers.Apps().V1().Deployments(), env.informers.Apps().V1().StatefulSets(),
		env.client, env.mapper, scales, env.client.Discovery())
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newResourceClaim(ctx context.Context, env *environment) (loop, error) {
	c, err := resourceclaim.NewController(klog.FromContext(ctx), env.client, env.informers.Core().V1().Pods(),
		env.informers.Scheduling().V1beta1().PodGroups(), env.informers.Resource().V1().ResourceClaims(),
		env.informers.Resource().V1().ResourceClaimTemplates())
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, env.workers) }, nil
}

func newNodeLifecycle(ctx context.Context, env *environment) (loop, error) {
	// kube-controller-manager taints one lost node in ten seconds, and fewer when many are lost in a small cluster.
	// The clusters of tests are small and lose many.
	const (
		startupGrace       = time.Minute
		taintsPerSecond    = 100
		largeCluster       = 50
		unhealthyThreshold = 0.55
	)
	c, err := nodelifecycle.NewNodeLifecycleController(ctx, env.informers.Coordination().V1().Leases(), env.informers.Core().V1().Pods(),
		env.informers.Core().V1().Nodes(), env.informers.Apps().V1().DaemonSets(), env.client,
		env.nodeMonitorPeriod, startupGrace, env.nodeMonitorGracePeriod,
		taintsPerSecond, taintsPerSecond, largeCluster, unhealthyThreshold)
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func newTaintEviction(ctx context.Context, env *environment) (loop, error) {
	c, err := tainteviction.New(ctx, env.client, env.informers.Core().V1().Pods(), env.informers.Core().V1().Nodes(),
		"taint-eviction-controller")
	if err != nil {
		return nil, err
	}
	return c.Run, nil
}

func newPodGC(ctx context.Context, env *environment) (loop, error) {
	const terminatedPods = 12500
	c := podgc.NewPodGCInternal(ctx, env.client, env.informers.Core().V1().Pods(), env.informers.Core().V1().Nodes(),
		terminatedPods, env.podGCPeriod, env.podGCQuarantine)
	return c.Run, nil
}

func newPodGroupProtection(ctx context.Context, env *environment) (loop, error) {
	if !utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload) {
		return nil, nil
	}
	c, err := podgroupprotection.NewPodGroupProtectionController(klog.FromContext(ctx), env.informers.Scheduling().V1beta1().PodGroups(),
		env.informers.Core().V1().Pods(), env.client)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { c.Run(ctx, 1) }, nil
}
