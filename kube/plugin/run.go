package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// Run runs the Kubernetes scheduler with the plugin until the context ends or the lease is lost.
func Run(ctx context.Context, s *Settings, opts *options.Options) error {
	path, err := configFile(s)
	if err != nil {
		return fmt.Errorf("write the configuration of the scheduler: %w", err)
	}
	opts.ConfigFile = path
	if err = opts.ComponentGlobalsRegistry.Set(); err != nil { // as the framework wants it, after all flags are read
		return err
	}
	// The planner places the pods of a PodGroup together, one cycle of the framework for each pod. The framework's own cycle
	// for groups reserves and gives back each pod to try a group out, which here would mean that the pod cannot be bound.
	if err = utilfeature.DefaultMutableFeatureGate.Set(string(features.GenericWorkload) + "=false"); err != nil {
		return err
	}
	// The flags of leader election would override the file.
	opts.LeaderElection.LeaderElect = s.LeaderElect
	opts.LeaderElection.ResourceName, opts.LeaderElection.ResourceNamespace = s.LeaseName, s.LeaseNamespace
	opts.LeaderElection.LeaseDuration.Duration = s.LeaseDuration
	opts.LeaderElection.RenewDeadline.Duration, opts.LeaderElection.RetryPeriod.Duration = s.renewal()
	if opts.ComponentConfig, err = latest.Default(); err != nil {
		return err
	}
	if problems := opts.Validate(); len(problems) > 0 {
		return errors.Join(problems...)
	}
	config, err := opts.Config(ctx)
	if err != nil {
		return err
	}
	cc := config.Complete()
	if err = adaptToServer(ctx, cc.Client); err != nil {
		return err
	}
	if err := checkVersion(ctx, cc.Client.Discovery()); err != nil {
		return err
	}
	if err := adaptGates(cc.Client.Discovery()); err != nil {
		return err
	}
	var made *Plugin
	var claims *claimsPlugin
	queue := newEventQueue(func() bool { return len(made.binding) > 0 })
	registry := frameworkruntime.Registry{Name: func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		made, err = New(ctx, s, handle)
		return made, err
	}, ClaimsName: func(ctx context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		claims, err = newClaimsPlugin(ctx, handle, func() *Plugin { return made })
		return claims, err
	}}
	c := &cc.ComponentConfig
	scheduler, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory,
		func(name string) events.EventRecorderLogger {
			return queue.recorder(cc.EventBroadcaster.NewRecorder(name))
		},
		scheduler.WithComponentConfigVersion(c.TypeMeta.APIVersion),
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithProfiles(c.Profiles...),
		scheduler.WithPercentageOfNodesToScore(c.PercentageOfNodesToScore),
		scheduler.WithFrameworkOutOfTreeRegistry(registry),
		scheduler.WithPodMaxBackoffSeconds(c.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(c.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		scheduler.WithParallelism(c.Parallelism),
	)
	if err != nil {
		return err
	}
	if made == nil || claims == nil {
		return errors.New("the scheduler did not load the plugins " + Name + " and " + ClaimsName)
	}
	made.claims = claims
	go queue.run(ctx)
	// The scheduler takes its first pod only when it leads.
	next, lead := scheduler.NextEntity, sync.OnceFunc(func() { made.Lead(ctx) })
	scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		lead()
		return next(logger)
	}
	// The framework looks only ten times a second whether its informers know everything, one kind after the other. So they
	// start here, and the framework finds them ready. If the API server is away, the framework waits, because then its
	// health endpoints must answer.
	cc.InformerFactory.Start(ctx.Done())
	awaitSync(ctx, startWait, made.ready)
	return app.Run(ctx, &cc, scheduler)
}

// startWait limits the time that the informers get before the framework starts.
const startWait = 2 * time.Second
