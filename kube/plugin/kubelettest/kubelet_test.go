package kubelettest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/plugin/kubetest/realnode"
	"github.com/ares-scheduler/ares/kube/watch"
)

// A scene is a cluster with one real node, whose pods wait for files in a directory.
type scene struct {
	*kubetest.Cluster
	node *realnode.Node
	dir  string // a pod ends when a file of its name is in here
}

func newScene(t *testing.T, gpus int) *scene {
	t.Helper()
	c := kubetest.Start(t, kubetest.Options{})
	node := realnode.Start(t, c, realnode.Options{Name: "gpu-1", GPUs: gpus, Labels: map[string]string{kubetest.LeafLabel: "leaf-1"}})
	s := &scene{Cluster: c, node: node, dir: filepath.Join(node.Dir, "ends")}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// job creates a Job with one pod that uses GPUs and runs until `end` is called.
func (s *scene) job(t *testing.T, name string, gpus int, change ...func(*v1.PodSpec)) {
	t.Helper()
	spec := kubetest.PodSpec(kubetest.AresSchedulerName, gpus)
	spec.AutomountServiceAccountToken = new(false)
	main := &spec.Containers[0]
	main.Image, main.ImagePullPolicy, main.Args = realnode.PodImage, v1.PullNever, []string{"train", "/ends/" + name}
	delete(main.Resources.Requests, v1.ResourceCPU) // the machine has few cores
	delete(main.Resources.Requests, v1.ResourceMemory)
	main.VolumeMounts = []v1.VolumeMount{{Name: "ends", MountPath: "/ends", ReadOnly: true}}
	spec.Volumes = []v1.Volume{{Name: "ends", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: s.dir}}}}
	for _, f := range change {
		f(&spec)
	}
	_, err := s.Client.BatchV1().Jobs(metav1.NamespaceDefault).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32), Template: v1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// end lets the pod of a job end.
func (s *scene) end(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// patience is how long a step may take on a busy machine.
const patience = 3 * time.Minute

// await waits until the check returns no error. Otherwise the test fails, with the status of all pods.
func (s *scene) await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := kubetest.Await(t.Context(), patience, 50*time.Millisecond, check); err != nil {
		t.Fatalf("%s: %v%s", what, err, s.describe(t.Context()))
	}
}

// pods waits until so many pods that the label selects are as the condition says, and returns them.
func (s *scene) pods(t *testing.T, namespace, selector string, count int, what string, is func(*v1.Pod) bool) (found []v1.Pod) {
	t.Helper()
	s.await(t, selector, func(ctx context.Context) error {
		list, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return !is(&p) })
		if len(found) != count {
			return fmt.Errorf("%d pods are %s, want %d", len(found), what, count)
		}
		return nil
	})
	return found
}

// pod waits until the pod of a job is as the condition says, and returns it.
func (s *scene) pod(t *testing.T, job, what string, is func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	return &s.pods(t, metav1.NamespaceDefault, batchv1.JobNameLabel+"="+job, 1, what, is)[0]
}

// describe returns the status and the events of all pods, for a test that failed.
func (s *scene) describe(ctx context.Context) string {
	var out strings.Builder
	pods, err := s.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		fmt.Fprintf(&out, "\n%s on %q: %+v", pods.Items[i].Name, pods.Items[i].Spec.NodeName, pods.Items[i].Status)
	}
	events, err := s.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	for i := range events.Items {
		e := &events.Items[i]
		fmt.Fprintf(&out, "\n%s %s: %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return out.String()
}

// completed waits until a Job is complete, and returns the GPUs that its pod saw.
func (s *scene) completed(t *testing.T, name string) []string {
	t.Helper()
	s.await(t, name, func(ctx context.Context) error {
		job, err := s.Client.BatchV1().Jobs(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobComplete && c.Status == v1.ConditionTrue
		}) {
			return fmt.Errorf("the Job is not complete: %+v", job.Status)
		}
		return nil
	})
	pod := s.pod(t, name, "ended", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodSucceeded })
	ended := pod.Status.ContainerStatuses[0].State.Terminated
	if ended == nil || ended.ExitCode != 0 {
		t.Fatalf("%s ended with %+v, want the exit code 0", name, ended)
	}
	return strings.Split(ended.Message, ",")
}

// waits returns the reason why a pod is not scheduled, "" if it is or if no reason is known yet.
func waits(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && p.Spec.NodeName == "" {
			return c.Message
		}
	}
	return ""
}

// chosen returns the IDs of the GPUs that the kubelet gave to a pod.
func chosen(p *v1.Pod) (ids []string) {
	for _, c := range p.Status.ContainerStatuses {
		for _, r := range c.AllocatedResourcesStatus {
			for _, device := range r.Resources {
				ids = append(ids, string(device.ResourceID))
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// TestKubelet runs pods on a real kubelet. One cluster serves all parts, because it takes seconds to start.
func TestKubelet(t *testing.T) {
	s := newScene(t, 4)
	scheduler, err := s.StartAresScheduler("ares-kube-scheduler", s.Kubeconfig, "--v=2")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("devices", func(t *testing.T) { testDevices(t, s, scheduler) })
	t.Run("jobs", func(t *testing.T) { testJobs(t, s) })
	t.Run("claims", func(t *testing.T) { testClaims(t, s) })
	scheduler.Stop()
	t.Run("install", func(t *testing.T) { testInstall(t, s) })
}

// testJobs has Jobs whose pods see their GPUs, end and make room for another one.
func testJobs(t *testing.T, s *scene) {
	s.job(t, "one", 1)
	s.job(t, "two", 2)
	one, two := s.pod(t, "one", "running", kubetest.IsRunning), s.pod(t, "two", "running", kubetest.IsRunning)
	for _, p := range []*v1.Pod{one, two} {
		if p.Annotations[watch.AnnotationDevices] == "" {
			t.Errorf("%s has no planned devices: %v", p.Name, p.Annotations)
		}
	}

	// One GPU is left, so a pod with two waits and says why.
	s.job(t, "three", 2)
	three := s.pod(t, "three", "waiting with a reason", func(p *v1.Pod) bool { return waits(p) != "" })
	if got := waits(three); !strings.Contains(got, "2 needed, at most 1 free") {
		t.Errorf("the pod waits, and the reason is %q", got)
	}
	s.end(t, "one") // then two are free
	seen := s.completed(t, "one")
	three = s.pod(t, "three", "running", kubetest.IsRunning)
	if got := chosen(two); len(got) != 2 || slices.Contains(got, seen[0]) {
		t.Errorf("the kubelet gave %v to one pod and %v to another", seen, got)
	}
	s.end(t, "two")
	s.end(t, "three")
	for name, want := range map[string][]string{"two": chosen(two), "three": chosen(three)} {
		got := s.completed(t, name)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s saw the GPUs %v, and the kubelet says %v", name, got, want)
		}
	}
}

// testDevices has a kubelet that chooses another device than the scheduler planned.
func testDevices(t *testing.T, s *scene, scheduler *kubetest.Process) {
	// run starts a Job and returns its planned and its real device.
	run := func(name string) (planned, real string) {
		s.job(t, name, 1)
		p := s.pod(t, name, "running with a device", func(p *v1.Pod) bool { return kubetest.IsRunning(p) && len(chosen(p)) == 1 })
		return p.Annotations[watch.AnnotationDevices], chosen(p)[0]
	}
	// A device gets the index of the plan of the first pod that uses it.
	firstIndex, first := run("first")
	secondIndex, second := run("second")
	for _, name := range []string{"first", "second"} {
		s.end(t, name)
		s.completed(t, name)
	}
	s.node.Prefer(second)
	planned, real := run("third")
	if planned != firstIndex || real != second {
		t.Fatalf("the third pod is planned on %s and has %s, want the device of the first and that of the second", planned, real)
	}
	s.await(t, "the correction", func(context.Context) error {
		want := fmt.Sprintf("planned=[%s] real=[%s] devices=[%q]", firstIndex, secondIndex, second)
		if text, err := os.ReadFile(scheduler.Log); err != nil || !strings.Contains(string(text), want) {
			return fmt.Errorf("the log of the scheduler does not say %s: %v", want, err)
		}
		return nil
	})
	// So the device of the first pod is free for the next one, and that of the second is not.
	s.node.Prefer(first)
	if planned, real := run("fourth"); planned != firstIndex || real != first {
		t.Errorf("the fourth pod is planned on %s and has %s, want %s and %s", planned, real, firstIndex, first)
	}
	for _, name := range []string{"third", "fourth"} {
		s.end(t, name)
		s.completed(t, name)
	}
	s.node.Prefer()
}

// testInstall installs the scheduler's own image as deploy/*.yaml says. The default scheduler places its pods.
func testInstall(t *testing.T, s *scene) {
	if err := s.node.Import(t.Context(), imageOf(t, "ares-kube-scheduler:local", "Dockerfile.kube")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.StartKubeScheduler(s.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	a, err := s.NewApplier()
	if err == nil {
		err = a.Apply(t.Context(), "deploy/*.yaml")
	}
	if err != nil {
		t.Fatal(err)
	}
	pods := s.pods(t, metav1.NamespaceSystem, "app=topology-scheduler", 2, "ready", func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
	})
	for i := range pods {
		if got := pods[i].Spec.Containers[0].Image; got != "ares-kube-scheduler:local" {
			t.Errorf("%s runs %s", pods[i].Name, got)
		}
	}
	s.job(t, "installed", 1)
	s.pod(t, "installed", "running", kubetest.IsRunning)
	s.end(t, "installed")
	s.completed(t, "installed")
}
