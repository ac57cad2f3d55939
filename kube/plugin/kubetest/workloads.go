package kubetest

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// StartWorkloads runs the controllers and webhooks of JobSet and LeaderWorkerSet, and waits until the API server calls the
// webhooks. CreateGroupKinds must come before.
func (c *Cluster) StartWorkloads(ctx context.Context) error {
	program, err := Program(Workloads)
	if err != nil {
		return err
	}
	if err := c.pki.issueServer(Workloads); err != nil {
		return err
	}
	args := []string{"--kubeconfig=" + c.Kubeconfig, "--cert-dir=" + c.pki.dir, "--cert=" + Workloads + ".crt", "--key=" + Workloads + ".key"}
	for _, flag := range []string{"--jobset-port=", "--leaderworkerset-port="} {
		port, err := c.ports.next()
		if err != nil {
			return err
		}
		args = append(args, flag+port)
	}
	process, err := c.StartProcess(Workloads, program, args...)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	template := map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "none"}}}}
	for _, probe := range []struct {
		resource schema.GroupVersionResource
		kind     string
		spec     map[string]any
		field    string // set by the webhook
	}{
		{
			schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}, "JobSet",
			map[string]any{"replicatedJobs": []any{map[string]any{"name": "probe", "template": map[string]any{"spec": map[string]any{"template": template}}}}},
			"successPolicy",
		},
		{
			schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}, "LeaderWorkerSet",
			map[string]any{"leaderWorkerTemplate": map[string]any{"workerTemplate": template}}, "networkConfig",
		},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": probe.resource.GroupVersion().String(), "kind": probe.kind, "metadata": map[string]any{"name": "probe"}, "spec": probe.spec,
		}}
		err := c.awaitReady(ctx, process, "the webhook for the kind "+probe.kind, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			made, err := client.Resource(probe.resource).Namespace(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil {
				if _, found, _ := unstructured.NestedFieldNoCopy(made.Object, "spec", probe.field); !found {
					err = errors.New("the API server does not call it yet")
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
