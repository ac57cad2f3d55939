package e2e

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// patience is how long a test waits for something that takes less than a second on an idle machine.
const patience = time.Minute

// A scene is a test's namespace with nodes of its own.
type scene struct {
	t         testing.TB
	namespace string
	scheduler string            // the schedulerName of its pods
	process   *kubetest.Process // the scheduler of its pods
	nodes     []string
	leaves    map[string]string // node → leaf
}

// scenes numbers the scenes, so that none shares a domain with another.
var scenes atomic.Int64

// nodesPerLeaf is the number of nodes below one leaf switch in a scene.
const nodesPerLeaf = 4

// newScene makes a namespace and nodes with 8 GPUs each. Both go when the test ends.
func newScene(t testing.TB, name string, nodes int) *scene {
	t.Helper()
	number := int(scenes.Add(1))
	s := &scene{t: t, namespace: name, scheduler: schedulerName, process: ares, leaves: map[string]string{}}
	ctx := t.Context()
	_, err := cluster.Client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	shape := kubetest.NodeShape{
		Prefix: name, First: number * 256, NodesPerLeaf: nodesPerLeaf, LeavesPerSpine: 4,
		Labels: map[string]string{sceneLabel: name},
	}
	if s.nodes, err = cluster.CreateNodes(ctx, nodes, shape); err != nil {
		t.Fatal(err)
	}
	for i, node := range s.nodes {
		s.leaves[node] = shape.Node(shape.First + i).Labels[kubetest.LeafLabel]
	}
	err = kubetest.Await(ctx, patience, 20*time.Millisecond, func(ctx context.Context) error {
		_, err := cluster.Client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sceneLabel is the label of a scene's nodes, by which its pods select them.
const sceneLabel = "e2e.ares.dev/scene"

// close removes the namespace and the nodes, and prints the scheduler's log if the test failed.
func (s *scene) close() {
	if s.t.Failed() {
		s.t.Logf("end of %s:\n%s", s.process.Log, s.process.Tail())
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	// The workloads go first: the namespace alone would take seconds.
	for _, kind := range []string{"jobset.x-k8s.io/v1alpha2 JobSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"} {
		if err := s.deleteObjects(ctx, kind); err != nil {
			s.t.Error(err)
		}
	}
	background := metav1.DeletePropagationBackground
	options, all := metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}
	for _, client := range []interface {
		DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
	}{
		cluster.Client.BatchV1().Jobs(s.namespace), cluster.Client.AppsV1().Deployments(s.namespace), cluster.Client.AppsV1().ReplicaSets(s.namespace),
		cluster.Client.AppsV1().StatefulSets(s.namespace), cluster.Client.CoreV1().Pods(s.namespace),
	} {
		if err := client.DeleteCollection(ctx, options, all); err != nil {
			s.t.Error(err)
		}
	}
	if err := cluster.Client.CoreV1().Namespaces().Delete(ctx, s.namespace, metav1.DeleteOptions{}); err != nil {
		s.t.Error(err)
	}
	err := kubetest.Await(ctx, patience, 50*time.Millisecond, func(ctx context.Context) error {
		list, err := cluster.Client.CoreV1().Pods(s.namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d pods of the namespace %s are left", len(list.Items), s.namespace)
		}
		return err
	})
	if err != nil {
		s.t.Error(err)
	}
	for _, node := range s.nodes {
		_ = cluster.Client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{}) // a test may have deleted it
	}
}

// deleteObjects deletes the scene's objects of a kind without a typed client, which is written as apiVersion and kind.
func (s *scene) deleteObjects(ctx context.Context, kind string) error {
	o := &unstructured.Unstructured{}
	version, name, _ := strings.Cut(kind, " ")
	o.SetAPIVersion(version)
	o.SetKind(name)
	o.SetNamespace(s.namespace)
	client, err := resources(o)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	return client.DeleteCollection(ctx, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
}

// useScheduler starts a scheduler of the scene's own.
func (s *scene) useScheduler(flags ...string) {
	s.t.Helper()
	s.scheduler = s.namespace + "-scheduler"
	process, err := launchScheduler(s.scheduler, s.scheduler, flags...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.process = process
	s.t.Cleanup(process.Kill)
}

// in returns the scene for a part of the test.
func (s *scene) in(t testing.TB) *scene {
	part := *s
	part.t = t
	return &part
}

// spec returns the specification of a pod of the scene.
func (s *scene) spec(gpus int) v1.PodSpec {
	spec := kubetest.PodSpec(s.scheduler, gpus)
	spec.NodeSelector = map[string]string{sceneLabel: s.namespace}
	spec.TerminationGracePeriodSeconds = new(int64)
	return spec
}

// pod returns a pod of the scene. Annotations come in pairs of key and value.
func (s *scene) pod(name string, gpus int, annotations ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.namespace, Labels: map[string]string{appLabel: name}}, Spec: s.spec(gpus)}
	pod.Annotations = pairs(annotations)
	return pod
}

// appLabel is the label by which the tests select the pods of one workload.
const appLabel = "app"

func pairs(list []string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		out[list[i]] = list[i+1]
	}
	return out
}

// create creates a pod.
func (s *scene) create(pod *v1.Pod) {
	s.t.Helper()
	if _, err := cluster.Client.CoreV1().Pods(s.namespace).Create(s.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// pods returns the pods of a workload, or all pods of the scene for "".
func (s *scene) pods(ctx context.Context, app string) ([]v1.Pod, error) {
	options := metav1.ListOptions{}
	if app != "" {
		options.LabelSelector = appLabel + "=" + app
	}
	list, err := cluster.Client.CoreV1().Pods(s.namespace).List(ctx, options)
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// await waits until the check returns no error. The failure has the end of the scheduler's log.
func (s *scene) await(check func(context.Context) error) {
	s.t.Helper()
	if err := kubetest.Await(s.t.Context(), patience, 50*time.Millisecond, check); err != nil {
		s.t.Fatal(err)
	}
}

// awaitPods waits until exactly `count` pods of a workload are as the condition says, and returns them.
func (s *scene) awaitPods(app string, count int, what string, is func(*v1.Pod) bool) []v1.Pod {
	s.t.Helper()
	var found []v1.Pod
	s.await(func(ctx context.Context) error {
		list, err := s.pods(ctx, app)
		if err != nil {
			return err
		}
		found = nil
		var others []string
		for i := range list {
			if is(&list[i]) {
				found = append(found, list[i])
			} else {
				others = append(others, describe(&list[i]))
			}
		}
		if len(found) != count {
			return fmt.Errorf("%d pods of %q are %s, want %d; the others:\n%s", len(found), app, what, count, strings.Join(others, "\n"))
		}
		return nil
	})
	return found
}

// awaitBound waits until exactly `count` pods of a workload are bound and run, and returns them.
func (s *scene) awaitBound(app string, count int) []v1.Pod {
	s.t.Helper()
	return s.awaitPods(app, count, "bound", func(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.DeletionTimestamp == nil })
}

// describe says in one line where a pod is and why it waits.
func describe(p *v1.Pod) string {
	text := fmt.Sprintf("%s: %s on node %q", p.Name, p.Status.Phase, p.Spec.NodeName)
	if c := scheduled(p); c != nil {
		text += ": " + c.Message
	}
	return text
}

// scheduled returns the condition PodScheduled, or nil.
func scheduled(p *v1.Pod) *v1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == v1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// sameLeaf fails the test unless all pods are in one leaf.
func (s *scene) sameLeaf(pods []v1.Pod) {
	s.t.Helper()
	for i := range pods {
		if a, b := s.leaves[pods[0].Spec.NodeName], s.leaves[pods[i].Spec.NodeName]; a == "" || a != b {
			s.t.Errorf("pod %s is in the leaf %q, and %s in %q: want one leaf", pods[0].Name, a, pods[i].Name, b)
		}
	}
}

// checkDevices fails the test unless the pods that the scheduler placed have as many devices as they ask for, all of them
// exist, and no device belongs to two pods. The GPUs of all pods of a node must fit on it.
func (s *scene) checkDevices() {
	s.t.Helper()
	list, err := s.pods(s.t.Context(), "")
	if err != nil {
		s.t.Fatal(err)
	}
	for _, problem := range deviceProblems(list, s.scheduler) {
		s.t.Error(problem)
	}
}

// devicesAnnotation is where the scheduler writes the indexes of a pod's devices.
const devicesAnnotation = "ares.dev/devices"

// deviceProblems returns what is wrong with the devices of pods.
func deviceProblems(list []v1.Pod, scheduler string) (problems []string) {
	owners, used := map[string]string{}, map[string]int64{}
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i := range list {
		p := &list[i]
		asked := gpus(p)
		if p.Spec.NodeName == "" || asked == 0 || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if used[p.Spec.NodeName] += asked; used[p.Spec.NodeName] > 8 {
			wrong("the pods of node %s ask for %d GPUs, and it has 8", p.Spec.NodeName, used[p.Spec.NodeName])
		}
		if p.Spec.SchedulerName != scheduler {
			continue
		}
		text := p.Annotations[devicesAnnotation]
		words := strings.Split(text, ",")
		if int64(len(words)) != asked {
			wrong("pod %s asks for %d GPUs and has the devices %q", p.Name, asked, text)
		}
		for _, word := range words {
			if n, err := strconv.Atoi(word); err != nil || n < 0 || n > 7 {
				wrong("pod %s has the device %q: want a number from 0 to 7", p.Name, word)
			}
			device := p.Spec.NodeName + "/" + word
			if other := owners[device]; other != "" {
				wrong("pods %s and %s both have the device %s", other, p.Name, device)
			}
			owners[device] = p.Name
		}
	}
	return problems
}

// gpus returns the GPUs that a pod asks for.
func gpus(p *v1.Pod) int64 {
	sum := int64(0)
	for i := range p.Spec.Containers {
		q := p.Spec.Containers[i].Resources.Limits[kubetest.GPUs]
		sum += q.Value()
	}
	return sum
}
