package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// podGroup creates a PodGroup of Kubernetes itself. The topology key may be "".
func (s *scene) podGroup(name string, minCount int32, key string) {
	s.t.Helper()
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	if key != "" {
		group.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: key}}}
	}
	if _, err := cluster.Client.SchedulingV1beta1().PodGroups(s.namespace).Create(s.t.Context(), group, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { // the namespace has a finalizer as long as the group exists
		_ = cluster.Client.SchedulingV1beta1().PodGroups(s.namespace).Delete(s.t.Context(), name, metav1.DeleteOptions{})
	})
}

// awaitGroup waits until the condition of a PodGroup says whether its pods are bound.
func (s *scene) awaitGroup(name string, status metav1.ConditionStatus, reason, text string) {
	s.t.Helper()
	s.await(func(ctx context.Context) error {
		group, err := cluster.Client.SchedulingV1beta1().PodGroups(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the PodGroup %s has the condition %+v, want %s", name, c, status)
		}
		return nil
	})
}

// member creates a pod of a group, and changes it before.
func (s *scene) member(group string, index, gpus int, change func(*v1.Pod)) {
	s.t.Helper()
	pod := s.pod(fmt.Sprintf("%s-%d", group, index), gpus)
	pod.Labels[appLabel] = group
	change(pod)
	s.create(pod)
}

// inGroup puts a pod into a PodGroup of Kubernetes itself.
func inGroup(name string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name} }
}

// TestPodGroup: the pods of a PodGroup wait until the group exists and minCount of them do. Then they are placed in one
// domain of the group's topology constraint.
func TestPodGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, "podgroup", 2*nodesPerLeaf)
	for i := range 2 {
		s.member("train", i, 8, inGroup("train"))
	}
	s.awaitTold("train", 2, "PodGroup train does not exist in the namespace podgroup: create it")
	s.podGroup("train", 4, kubetest.LeafLabel)
	s.awaitTold("train", 2, "PodGroup train: minCount is 4, and 2 of its pods with GPUs exist")
	s.awaitGroup("train", metav1.ConditionFalse, "Unschedulable", "PodGroup train: minCount is 4, and 2 of its pods with GPUs exist")
	// A pod without GPUs counts, but the others do not wait until it has a node.
	s.member("train", 2, 0, func(p *v1.Pod) {
		inGroup("train")(p)
		p.Spec.NodeSelector = map[string]string{"no-such": "node"}
	})
	s.member("train", 3, 8, inGroup("train"))
	s.sameLeaf(s.awaitBound("train", 3))
	s.awaitGroup("train", metav1.ConditionTrue, "Scheduled", "")
	// Five nodes of one leaf do not exist.
	s.podGroup("large", 5, kubetest.LeafLabel)
	for i := range 5 {
		s.member("large", i, 8, inGroup("large"))
	}
	s.awaitTold("large", 5, "leaf")
	s.podGroup("misspelled", 1, "topology.scheduler/laef")
	s.member("misspelled", 0, 1, inGroup("misspelled"))
	s.awaitTold("misspelled", 1, `PodGroup misspelled: no level of the topology has the key "topology.scheduler/laef": write kubernetes.io/hostname, topology.scheduler/leaf`)
	s.awaitBound("large", 0)
	s.checkDevices()
}

// TestPodGroupGrows: pods beyond minCount are placed one by one, in the domain of the first ones, and a changed minCount
// counts at once.
func TestPodGroupGrows(t *testing.T) {
	t.Parallel()
	s := newScene(t, "podgroup-grows", 2*nodesPerLeaf)
	s.podGroup("grow", 8, kubetest.LeafLabel)
	for i := range 5 {
		s.member("grow", i, 8, inGroup("grow"))
	}
	s.awaitTold("grow", 5, "PodGroup grow: minCount is 8, and 5 of its pods with GPUs exist")
	patch := []byte(`{"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}}`)
	if _, err := cluster.Client.SchedulingV1beta1().PodGroups(s.namespace).Patch(t.Context(), "grow", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.sameLeaf(s.awaitBound("grow", 4)) // the fifth node of the leaf does not exist
	s.awaitPods("grow", 1, "told why it waits", waitsFor("the node does not meet node_requirements"))
	s.checkDevices()
}

// TestMixedPodGroup: pods of one group that use different numbers of GPUs share a domain as well.
func TestMixedPodGroup(t *testing.T) {
	t.Parallel()
	s := newScene(t, "podgroup-mixed", 2*nodesPerLeaf)
	s.podGroup("mixed", 4, kubetest.LeafLabel)
	s.member("mixed", 0, 1, inGroup("mixed"))
	for i := 1; i < 4; i++ {
		s.member("mixed", i, 8, inGroup("mixed"))
	}
	s.sameLeaf(s.awaitBound("mixed", 4))
	s.checkDevices()
}

// TestPodGroupOfOthers: the PodGroups of the scheduler plugins and of Volcano give the size of a gang by minMember. The
// annotation ares.dev/gang-size takes their place.
func TestPodGroupOfOthers(t *testing.T) {
	t.Parallel()
	s := newScene(t, "podgroup-others", nodesPerLeaf)
	for group, c := range map[string]struct {
		version string
		change  func(*v1.Pod)
	}{
		"plugins": {"scheduling.x-k8s.io/v1alpha1", func(p *v1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "plugins" }},
		"volcano": {"scheduling.volcano.sh/v1beta1", func(p *v1.Pod) { p.Annotations["scheduling.k8s.io/group-name"] = "volcano" }},
	} {
		t.Run(group, func(t *testing.T) {
			s := s.in(t)
			for i := range 2 {
				s.member(group, i, 1, c.change)
			}
			s.awaitTold(group, 2, "PodGroup "+group+" does not exist in the namespace podgroup-others: create it, or write the number of its pods into the annotation ares.dev/gang-size")
			s.object(c.version, "PodGroup", group, nil, map[string]any{"minMember": int64(3)})
			s.awaitTold(group, 2, "PodGroup "+group+": minMember is 3, and 2 of its pods with GPUs exist")
			s.member(group, 2, 1, c.change)
			s.awaitBound(group, 3)
		})
	}
	s.member("wrong", 0, 1, func(p *v1.Pod) {
		p.Labels["scheduling.x-k8s.io/pod-group"], p.Annotations["ares.dev/gang-size"] = "wrong", "many"
	})
	s.awaitTold("wrong", 1, `ares.dev/gang-size: "many" is not a number of pods: write how many pods the gang has, from 1 to 2048`)
	s.checkDevices()
}

// object creates an object of a kind that has no typed client, and returns it with its UID.
func (s *scene) object(version, kind, name string, annotations map[string]string, spec map[string]any) *unstructured.Unstructured {
	s.t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetAPIVersion(version)
	o.SetKind(kind)
	o.SetName(name)
	o.SetNamespace(s.namespace)
	o.SetAnnotations(annotations)
	client, err := resources(o)
	if err == nil {
		o, err = client.Create(s.t.Context(), o, metav1.CreateOptions{})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return o
}
