package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/framework"
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
	// The flags of leader election would override the file.
	opts.LeaderElection.LeaderElect = s.LeaderElect
	opts.LeaderElection.ResourceName, opts.LeaderElection.ResourceNamespace = s.LeaseName, s.LeaseNamespace
	var made *Plugin
	factory := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		p, err := New(ctx, args, handle)
		made = p
		return p, err
	}
	cc, scheduler, err := app.Setup(ctx, opts, app.WithPlugin(Name, factory))
	if err != nil {
		return err
	}
	if made == nil {
		return errors.New("the scheduler did not load the plugin " + Name)
	}
	// The scheduler takes its first pod only when it leads.
	next, lead := scheduler.NextEntity, sync.OnceFunc(func() { made.Lead(ctx) })
	scheduler.NextEntity = func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		lead()
		return next(logger)
	}
	return app.Run(ctx, cc, scheduler)
}
