package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// bindCommand is the argument with which this program starts itself as the bare client.
const bindCommand = "bind"

// bindAll is the bare client: it reads the pods and nodes once, places the largest pods first and posts the bindings.
// It runs as a process of its own, so that its CPU time can be compared.
func bindAll(ctx context.Context) error {
	flags := flag.NewFlagSet(bindCommand, flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "credentials for the API server")
	workers := flags.Int("workers", 64, "bindings posted at once")
	if err := flags.Parse(os.Args[2:]); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 2000, 4000
	config.ContentType = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	bindings, left := place(pods.Items, nodes.Items)
	if left > 0 {
		return fmt.Errorf("%d of %d pods fit on no node: use more nodes or fewer pods", left, len(pods.Items))
	}
	var bound atomic.Int64
	err = kubetest.Each(*workers, len(bindings), func(i int) error {
		bound.Add(1)
		return client.CoreV1().Pods(metav1.NamespaceDefault).Bind(ctx, bindings[i], metav1.CreateOptions{})
	})
	fmt.Printf("posted %d bindings\n", bound.Load())
	return err
}

// place assigns every pod to a node with enough free GPUs, the largest first, so that nothing is left over as long as the
// sum fits. It returns the number of pods that fit nowhere.
func place(pods []v1.Pod, nodes []v1.Node) (bindings []*v1.Binding, left int) {
	bySize := map[int][]*v1.Pod{}
	largest := 0
	for i := range pods {
		gpus := gpusOf(&pods[i])
		bySize[gpus] = append(bySize[gpus], &pods[i])
		largest = max(largest, gpus)
	}
	free := make([]int, len(nodes))
	for i, node := range nodes {
		count := node.Status.Allocatable[kubetest.GPUs]
		free[i] = int(count.Value())
	}
	for gpus := largest; gpus >= 0; gpus-- {
		node := 0 // the first that may have room for this size
		for _, pod := range bySize[gpus] {
			for node < len(nodes) && free[node] < gpus {
				node++
			}
			if node == len(nodes) {
				left++
				continue
			}
			free[node] -= gpus
			bindings = append(bindings, &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
				Target:     v1.ObjectReference{Kind: "Node", Name: nodes[node].Name},
			})
		}
	}
	return bindings, left
}

func gpusOf(pod *v1.Pod) int {
	sum := 0
	for _, container := range pod.Spec.Containers {
		count := container.Resources.Requests[kubetest.GPUs]
		sum += int(count.Value())
	}
	return sum
}
