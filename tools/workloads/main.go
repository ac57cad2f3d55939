// Command workloads runs the controllers and webhooks of JobSet and LeaderWorkerSet, which tests of a scheduler need, as one
// user and without leader election. It creates the webhook configurations itself, and it is ready when they exist.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// A project is one of the two projects. Each has a manager of its own, because both have a webhook for pods at the same path.
type project struct {
	name     string
	port     int
	register func(*runtime.Scheme) error
	setup    func(context.Context, ctrl.Manager) error
	kind     kind
}

func main() {
	flags := flag.NewFlagSet("workloads", flag.ExitOnError) // a library has a flag of the same name in the other set
	var files struct{ kubeconfig, directory, certificate, key, authority string }
	flags.StringVar(&files.kubeconfig, "kubeconfig", "", "file with the address of the API server and the credentials")
	flags.StringVar(&files.directory, "cert-dir", "", "directory of the webhooks' certificate, its key and the authority's certificate")
	flags.StringVar(&files.certificate, "cert", "tls.crt", "name of the certificate's file, valid for 127.0.0.1")
	flags.StringVar(&files.key, "key", "tls.key", "name of the key's file")
	flags.StringVar(&files.authority, "ca", "ca.crt", "name of the file with the authority's certificate")
	flags.IntVar(&jobSet.port, "jobset-port", 9443, "port of the webhooks for JobSets")
	flags.IntVar(&leaderWorkerSet.port, "leaderworkerset-port", 9444, "port of the webhooks for LeaderWorkerSets")
	klog.InitFlags(flags)
	_ = flags.Parse(os.Args[1:]) // ends the program by itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctrl.SetLogger(klog.Background())
	err := func() error {
		client, err := clientcmd.BuildConfigFromFlags("", files.kubeconfig)
		if err != nil {
			return err
		}
		client.QPS, client.Burst = 1000, 2000
		authority, err := os.ReadFile(files.directory + "/" + files.authority)
		if err != nil {
			return err
		}
		return run(ctx, client, authority, webhook.Options{Host: "127.0.0.1", CertDir: files.directory, CertName: files.certificate, KeyName: files.key})
	}()
	if err != nil {
		fmt.Fprintf(os.Stderr, "workloads: %v\n", err)
		os.Exit(1)
	}
}

// run runs both projects until the context ends or one of them fails.
func run(ctx context.Context, client *rest.Config, authority []byte, hooks webhook.Options) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wait sync.WaitGroup
	failures := make([]error, 2)
	for i, p := range []*project{&jobSet, &leaderWorkerSet} {
		options := hooks
		options.Port = p.port
		wait.Go(func() {
			defer cancel()
			if err := p.run(ctx, client, authority, options); err != nil {
				failures[i] = fmt.Errorf("%s: %w", p.name, err)
			}
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}

func (p *project) run(ctx context.Context, client *rest.Config, authority []byte, hooks webhook.Options) error {
	scheme := runtime.NewScheme()
	for _, register := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, p.register} {
		if err := register(scheme); err != nil {
			return err
		}
	}
	m, err := ctrl.NewManager(client, manager.Options{
		Scheme:        scheme,
		Metrics:       server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(hooks),
		Controller:    config.Controller{SkipNameValidation: new(true)}, // both projects have a controller for pods
	})
	if err != nil {
		return err
	}
	if err := p.setup(ctx, m); err != nil {
		return err
	}
	// A pod could not be created while the API server knows the webhooks but nobody answers.
	ready := manager.RunnableFunc(func(ctx context.Context) error { return p.configure(ctx, m, authority) })
	if err := m.Add(ready); err != nil {
		return err
	}
	return m.Start(ctx)
}
