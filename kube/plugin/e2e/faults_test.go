package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// kills is how often the scheduler is killed.
const kills = 20

// TestSchedulerKilled: the scheduler is killed at random moments while gangs are created. No device is assigned twice, no pod
// changes its place, and afterwards every gang is bound as a whole or not at all.
func TestSchedulerKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, "killed", 4*nodesPerLeaf)
	s.useScheduler()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	sizes := map[string]int{}
	o := s.observe()
	for i := range kills {
		for j := range 2 {
			app := fmt.Sprintf("gang-%d-%d", i, j)
			sizes[app] = 2 + random.IntN(7)
			job := s.job(app, int32(sizes[app]), 1+random.IntN(3))
			job.Spec.Template.Annotations = map[string]string{kubetest.RunFor: "3s"} // so that later gangs find free nodes
			s.createJob(job)
		}
		// The moment of the kill: every second time anywhere in the start, else while the pods of a plan are bound.
		moment := time.Duration(random.IntN(1500)) * time.Millisecond
		if i%2 == 0 {
			decided := count(s.process, `"Decided"`)
			// If all nodes are full, there is nothing to decide: then it is killed all the same.
			_ = kubetest.Await(t.Context(), 3*time.Second, 10*time.Millisecond, func(context.Context) error {
				if count(s.process, `"Decided"`) == decided {
					return errors.New("the scheduler decided nothing")
				}
				return nil
			})
			moment = time.Duration(random.IntN(100)) * time.Millisecond
		}
		select {
		case <-time.After(moment):
		case <-s.process.Ended():
			t.Fatal("the scheduler ended by itself")
		}
		s.process.Kill()
		if err := s.process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	s.awaitWhole("probe", sizes)
	// The nodes have 128 GPUs, and most gangs ask for fewer than 10.
	s.await(func(ctx context.Context) error {
		list, err := s.pods(ctx, "")
		bound := 0
		for i := range list {
			if list[i].Spec.NodeName != "" {
				bound++
			}
		}
		if err == nil && bound < 40 {
			err = fmt.Errorf("%d pods are bound, want 40", bound)
		}
		return err
	})
	s.awaitWhole("last-probe", sizes)
	o.report(t)
}

// TestAPIServerRestarted: the API server is killed while gangs are bound.
func TestAPIServerRestarted(t *testing.T) {
	s := newScene(t, "restarted", 2*nodesPerLeaf)
	sizes := map[string]int{}
	o := s.observe()
	for round := range 2 {
		for j := range 4 {
			app := fmt.Sprintf("gang-%d-%d", round, j)
			sizes[app] = 2 + 2*j
			s.createJob(s.job(app, int32(sizes[app]), 1))
		}
		s.await(func(ctx context.Context) error {
			list, err := s.pods(ctx, fmt.Sprintf("gang-%d-0", round))
			if err == nil && (len(list) == 0 || list[0].Spec.NodeName == "") {
				err = errors.New("no pod of the first gang is bound")
			}
			return err
		})
		if err := cluster.RestartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.awaitWhole(fmt.Sprintf("probe-%d", round), sizes)
	}
	for app, size := range sizes {
		s.awaitBound(app, size)
	}
	o.report(t)
}

// TestBindErrors: while the API server rejects the bindings of a gang, none of its pods is bound. Afterwards all are.
func TestBindErrors(t *testing.T) {
	t.Parallel()
	s := newScene(t, "bind-errors", nodesPerLeaf)
	o := s.observe()
	allow := s.rejectBindings("true")
	s.createJob(s.job("gang", 4, 4))
	s.await(func(context.Context) error {
		if count(s.process, rejected) == 0 {
			return errors.New("the scheduler's log has no rejected binding")
		}
		return nil
	})
	s.awaitBound("gang", 0)
	allow()
	s.awaitBound("gang", 4)
	// The binding of one pod in the middle fails, after the first pods are bound.
	allow = s.rejectBindings("object.metadata.name.startsWith('middle-2-')")
	s.createJob(s.job("middle", 4, 4))
	s.awaitBound("middle", 3)
	allow()
	s.awaitWhole("after-middle", map[string]int{"middle": 4})
	s.awaitBound("middle", 4)
	o.report(t)
}

// rejected is the message of a binding that rejectBindings rejects.
const rejected = "rejected by the test"

// rejectBindings makes the API server reject those bindings in the scene for which the expression is true. The function that
// it returns ends this.
func (s *scene) rejectBindings(expression string) (allow func()) {
	s.t.Helper()
	name := "reject-bindings-" + s.namespace
	policy := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":%q},
		"spec":{"failurePolicy":"Fail","matchConstraints":{
			"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},
			"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods/binding"]}]},
		"validations":[{"expression":%q,"message":%q}]}}`, name, s.namespace, "!("+expression+" || object.metadata.name == '"+witness+"')", rejected)
	binding := fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":%q},
		"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name)
	for _, o := range []string{policy, binding} {
		if err := applyText(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
	s.awaitWitness(true)
	return func() {
		s.t.Helper()
		client := cluster.Client.AdmissionregistrationV1()
		if err := client.ValidatingAdmissionPolicyBindings().Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		if err := client.ValidatingAdmissionPolicies().Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
			s.t.Fatal(err)
		}
		s.awaitWitness(false)
	}
}

// witness is a pod of no scheduler. A dry run of its binding shows whether a policy is in force.
const witness = "witness"

func (s *scene) awaitWitness(wantRejected bool) {
	s.t.Helper()
	pod := s.pod(witness, 0)
	pod.Spec.SchedulerName = "none"
	_, _ = cluster.Client.CoreV1().Pods(s.namespace).Create(s.t.Context(), pod, metav1.CreateOptions{}) // it may exist already
	s.await(func(ctx context.Context) error {
		err := cluster.Client.CoreV1().Pods(s.namespace).Bind(ctx, &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: witness, Namespace: s.namespace}, Target: v1.ObjectReference{Kind: "Node", Name: s.nodes[0]},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case wantRejected == (err != nil):
			return nil
		case wantRejected:
			return errors.New("the policy is not in force yet")
		}
		return err
	})
}

// TestLeaderKilled: of two replicas one decides. When it is killed, the other one takes over and keeps the placements.
func TestLeaderKilled(t *testing.T) {
	t.Parallel()
	s := newScene(t, "leader", nodesPerLeaf)
	s.scheduler = "leader-scheduler"
	var replicas []*kubetest.Process
	for i := range 2 {
		p, err := launchScheduler(fmt.Sprintf("replica-%d", i), s.scheduler, "--leader-elect=true", "--lease-duration=6s")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		replicas = append(replicas, p)
	}
	s.process = replicas[0]
	leads := func(p *kubetest.Process) bool { return count(p, "Successfully acquired lease") > 0 }
	o := s.observe()
	s.createJob(s.job("before", 2, 8))
	s.awaitBound("before", 2)
	if leads(replicas[0]) == leads(replicas[1]) {
		t.Fatalf("the first replica leads: %t, the second: %t; want one", leads(replicas[0]), leads(replicas[1]))
	}
	if leads(replicas[1]) {
		replicas[0], replicas[1] = replicas[1], replicas[0]
	}
	replicas[0].Kill()
	s.process = replicas[1]
	s.createJob(s.job("after", 2, 8))
	s.awaitBound("after", 2)
	s.awaitBound("before", 2)
	s.checkDevices()
	o.report(t)
}
