package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// mapperPeriod is how often the kinds that the API server knows are read again, so that the garbage collector learns of
// new custom resources.
const mapperPeriod = 30 * time.Second

// environment is what the controllers share: clients, informers and the kinds of the API server.
type environment struct {
	settings

	config    *rest.Config
	client    *kubernetes.Clientset
	metadata  metadata.Interface
	mapper    *restmapper.DeferredDiscoveryRESTMapper
	informers informers.SharedInformerFactory
	objects   metadatainformer.SharedInformerFactory
	// started is closed when the informers run: the garbage collector starts its own only after that.
	started chan struct{}
}

func newEnvironment(s settings) (*environment, error) {
	if s.kubeconfig == "" {
		return nil, errors.New("--kubeconfig is missing: name the file with the credentials for the API server")
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig %s: %w", s.kubeconfig, err)
	}
	config.QPS, config.Burst, config.UserAgent = float32(s.qps), s.burst, "controllers"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	objects, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &environment{
		settings:  s,
		config:    config,
		client:    client,
		metadata:  objects,
		mapper:    restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client.Discovery())),
		informers: informers.NewSharedInformerFactory(client, 0),
		objects:   metadatainformer.NewSharedInformerFactory(objects, 0),
		started:   make(chan struct{}),
	}, nil
}

// run builds all controllers, so that every informer they need is registered, then starts the informers and the
// controllers. It returns when ctx ends and every controller has stopped.
func run(ctx context.Context, s settings) error {
	env, err := newEnvironment(s)
	if err != nil {
		return err
	}
	loops := make([]loop, 0, len(controllers))
	for _, c := range controllers {
		l, err := c.build(ctx, env)
		if err != nil {
			return fmt.Errorf("%s controller: %w", c.name, err)
		}
		if l != nil {
			loops = append(loops, l)
		}
	}
	env.informers.Start(ctx.Done())
	env.objects.Start(ctx.Done())
	close(env.started)

	var running sync.WaitGroup
	for _, l := range loops {
		running.Go(func() { l(ctx) })
	}
	running.Go(func() {
		tick := time.NewTicker(mapperPeriod)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				env.mapper.Reset()
			case <-ctx.Done():
				return
			}
		}
	})
	running.Wait()
	return nil
}
