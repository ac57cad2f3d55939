package kubetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// TestCluster uses one cluster for all its parts, because a cluster takes seconds to start.
func TestCluster(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{NodeLease: 4 * time.Second, Toleration: time.Second})
	user, err := c.UserKubeconfig("system:kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.StartKubeScheduler(user); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateNodes(t.Context(), 3, kubetest.NodeShape{NodesPerLeaf: 2}); err != nil {
		t.Fatal(err)
	}
	t.Run("nodes", func(t *testing.T) { testNodes(t, c) })
	t.Run("pod", func(t *testing.T) { testPod(t, c) })
	t.Run("job", func(t *testing.T) { testJob(t, c) })
	t.Run("budget", func(t *testing.T) { testBudget(t, c) })
	t.Run("user", func(t *testing.T) { testUser(t, c) })
	t.Run("restart", func(t *testing.T) { testRestart(t, c) })
	t.Run("lost node", func(t *testing.T) { testLostNode(t, c) })
}

func testNodes(t *testing.T, c *kubetest.Cluster) {
	node, err := c.Client.CoreV1().Nodes().Get(t.Context(), "node-0002", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		kubetest.LeafLabel: "leaf-1", kubetest.SpineLabel: "spine-0", kubetest.ZoneLabel: "zone-0", kubetest.RegionLabel: "region-0",
	} {
		if got := node.Labels[key]; got != want {
			t.Errorf("label %s: got %q, want %q", key, got, want)
		}
	}
	gpus := node.Status.Allocatable[kubetest.GPUs]
	if gpus.Value() != 8 {
		t.Errorf("allocatable GPUs: got %s, want 8", gpus.String())
	}
}

// testPod: a pod that upstream's scheduler binds runs, and one that fits nowhere stays pending.
func testPod(t *testing.T, c *kubetest.Cluster) {
	create(t, c, kubetest.Pod("runs", "", 8), "runs")
	create(t, c, kubetest.Pod("too-large", "", 9), "too-large")
	pod := await(t, c, "app=runs", 1, "running", kubetest.IsRunning)[0]
	if pod.Status.PodIP == "" || !strings.HasPrefix(pod.Spec.NodeName, "node-") {
		t.Errorf("got node %q and address %q", pod.Spec.NodeName, pod.Status.PodIP)
	}
	await(t, c, "app=too-large", 1, "unschedulable", func(pod *v1.Pod) bool {
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodScheduled {
				return condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonUnschedulable
			}
		}
		return false
	})
	remove(t, c, "runs", "too-large")
	await(t, c, "app=runs", 0, "left", func(*v1.Pod) bool { return true })
}

func testJob(t *testing.T, c *kubetest.Cluster) {
	two := int32(2)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: batchv1.JobSpec{
		Parallelism: &two, Completions: &two,
		Template: v1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kubetest.RunFor: "100ms"}},
			Spec:       kubetest.PodSpec("", 1),
		},
	}}
	jobs := c.Client.BatchV1().Jobs(metav1.NamespaceDefault)
	if _, err := jobs.Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	err := kubetest.Await(t.Context(), time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		job, err := jobs.Get(ctx, "train", metav1.GetOptions{})
		if err == nil && (job.Status.CompletionTime == nil || job.Status.Succeeded != two) {
			err = fmt.Errorf("%d of the job's pods succeeded: %v", job.Status.Succeeded, job.Status.Conditions)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The garbage collector removes the pods with their job.
	background := metav1.DeletePropagationBackground
	if err := jobs.Delete(t.Context(), "train", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
	await(t, c, "job-name=train", 0, "left", func(*v1.Pod) bool { return true })
}

// testBudget: the API server refuses an eviction that a disruption budget does not allow.
func testBudget(t *testing.T, c *kubetest.Cluster) {
	create(t, c, kubetest.Pod("guarded", "", 1), "guarded")
	await(t, c, "app=guarded", 1, "running", kubetest.IsRunning)
	one := intstr.FromInt32(1)
	budgets := c.Client.PolicyV1().PodDisruptionBudgets(metav1.NamespaceDefault)
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guard"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "guarded"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = kubetest.Await(t.Context(), time.Minute, 50*time.Millisecond, func(ctx context.Context) error {
		budget, err := budgets.Get(ctx, "guard", metav1.GetOptions{})
		if err == nil && budget.Status.CurrentHealthy != 1 {
			err = fmt.Errorf("the budget counts %d healthy pods", budget.Status.CurrentHealthy)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "guarded", Namespace: metav1.NamespaceDefault}}
	pods := c.Client.CoreV1().Pods(metav1.NamespaceDefault)
	if err := pods.EvictV1(t.Context(), eviction); !apierrors.IsTooManyRequests(err) {
		t.Errorf("eviction against the budget: got %v, want 429", err)
	}
	if err := budgets.Delete(t.Context(), "guard", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.EvictV1(t.Context(), eviction); err != nil {
		t.Errorf("eviction without a budget: %v", err)
	}
	await(t, c, "app=guarded", 0, "left", func(*v1.Pod) bool { return true })
}

// testUser: RBAC decides what a service account's kubeconfig may do.
func testUser(t *testing.T, c *kubetest.Cluster) {
	path, err := c.ServiceAccountKubeconfig("kube-system", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:kube-system:nobody") {
		t.Errorf("nodes listed without a rule: got %v, want Forbidden with the account's name", err)
	}
}

// testRestart: an API server that was killed comes back with its data, and the controllers and the scheduler go on.
func testRestart(t *testing.T, c *kubetest.Cluster) {
	create(t, c, kubetest.Pod("before", "", 1), "before")
	if err := c.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, c, kubetest.Pod("after", "", 1), "after")
	await(t, c, "app=before", 1, "running", kubetest.IsRunning)
	await(t, c, "app=after", 1, "running", kubetest.IsRunning)
	remove(t, c, "before", "after")
}

// testLostNode: the pods of a node whose kubelet is silent are deleted, and stay until somebody confirms their end.
func testLostNode(t *testing.T, c *kubetest.Cluster) {
	create(t, c, kubetest.Pod("stranded", "", 1), "stranded")
	node := await(t, c, "app=stranded", 1, "running", kubetest.IsRunning)[0].Spec.NodeName
	if err := c.LoseNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	await(t, c, "app=stranded", 1, "being deleted", func(pod *v1.Pod) bool { return pod.DeletionTimestamp != nil })
	if err := c.RecoverNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	await(t, c, "app=stranded", 0, "left", func(*v1.Pod) bool { return true })
}

// TestMissingProgram: a missing program is an error with its remedy, and never a reason to skip.
func TestMissingProgram(t *testing.T) {
	t.Setenv("ARES_TEST_KUBE_BIN", t.TempDir())
	_, err := kubetest.Launch(t.Context(), kubetest.Options{Dir: t.TempDir()})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make kube-tools") {
		t.Errorf("got %v, want a missing file and the command that builds it", err)
	}
}

// TestFailedStart: the error of a program that does not start has the end of its log.
func TestFailedStart(t *testing.T) {
	_, err := kubetest.Launch(t.Context(), kubetest.Options{Dir: t.TempDir(), APIServerArgs: []string{"--no-such-flag"}})
	if err == nil || !strings.Contains(err.Error(), "unknown flag: --no-such-flag") {
		t.Errorf("got %v, want the API server's complaint", err)
	}
}

func create(t *testing.T, c *kubetest.Cluster, pod *v1.Pod, app string) {
	t.Helper()
	pod.Labels = map[string]string{"app": app}
	if _, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, c *kubetest.Cluster, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func await(t *testing.T, c *kubetest.Cluster, selector string, count int, what string, is func(*v1.Pod) bool) []v1.Pod {
	t.Helper()
	pods, err := c.AwaitPods(t.Context(), metav1.NamespaceDefault, selector, count, what, is)
	if err != nil {
		t.Fatal(err)
	}
	return pods
}
