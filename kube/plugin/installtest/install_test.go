package installtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
	"github.com/ares-scheduler/ares/kube/watch"
)

const account = "system:serviceaccount:kube-system:topology-scheduler"

// auditPolicy records every request of the scheduler's service account.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    users: ["` + account + `"]
  - level: None
`

// TestInstall installs the scheduler from deploy/*.yaml. One cluster serves all parts, because it takes seconds to start.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "audit-policy.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	c := kubetest.Start(t, kubetest.WithPodGroups(kubetest.Options{APIServerArgs: []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log}}))
	if err := c.CreateGroupKinds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.StartWorkloads(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := newApplier(t, c)
	a.apply(t, "deploy/*.yaml")
	if t.Failed() {
		return
	}
	t.Run("admission", func(t *testing.T) { testAdmission(t, c, a) })
	t.Run("examples", func(t *testing.T) { testExamples(t, c, a) })
	t.Run("rights", func(t *testing.T) { testRights(t, c, log) })
}

// testExamples applies every example, with the scheduler running under its own service account.
func testExamples(t *testing.T, c *kubetest.Cluster, a *applier) {
	program, err := kubetest.AresScheduler()
	if err != nil {
		t.Fatal(err)
	}
	config, err := c.ServiceAccountKubeconfig("kube-system", "topology-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	// With leader election, as in the Deployment.
	if _, err := c.StartProcess("ares-kube-scheduler", program, "--kubeconfig="+config, "--secure-port=0", "--v=2", "--save-learned-every=1s"); err != nil {
		t.Fatal(err)
	}
	// Numbers from 4 put the first four nodes below leaf-1 and spine-1, the next four below leaf-2 and spine-2.
	shape := kubetest.NodeShape{First: 4, NodesPerLeaf: 4, LeavesPerSpine: 1, Labels: map[string]string{watch.LabelBandwidth: "200Gb"}}
	if _, err := c.CreateNodes(t.Context(), 8, shape); err != nil {
		t.Fatal(err)
	}
	claimNodes := createClaimNodes(t, c, shape)
	a.apply(t, "docs/examples/kubernetes/*.yaml")
	bound := func(p *v1.Pod) bool { return p.Spec.NodeName != "" }
	for _, e := range []struct {
		selector string
		pods     int
		gpus     string
	}{
		{"batch.kubernetes.io/job-name=single-gpu-job", 1, "1"},
		{"batch.kubernetes.io/job-name=multi-gpu-job", 1, "8"},
		{"batch.kubernetes.io/job-name=gpu-job", 1, "8"},
		{"app=gpu-inference-service", 1, "4"},
		{"batch.kubernetes.io/job-name=multi-node-training", 4, "4"},
		{"batch.kubernetes.io/job-name=pod-group", 4, "1"},
		{"jobset.sigs.k8s.io/replicatedjob-name=worker", 4, "2"},
		{"leaderworkerset.sigs.k8s.io/name=leader-worker-set", 2, "2"},
	} {
		pods, err := c.AwaitPods(t.Context(), metav1.NamespaceDefault, e.selector, e.pods, "bound", bound)
		if err != nil {
			t.Errorf("%s: %v%s", e.selector, err, conditions(t.Context(), c, e.selector))
			continue
		}
		for i := range pods {
			p := &pods[i]
			gpus := p.Spec.Containers[0].Resources.Limits[kubetest.GPUs]
			if gpus.String() != e.gpus || p.Annotations["ares.dev/devices"] == "" {
				t.Errorf("%s has a limit of %s GPUs and the devices %q, want %s GPUs", p.Name, gpus.String(), p.Annotations["ares.dev/devices"], e.gpus)
			}
		}
	}
	testClaims(t, c, a, claimNodes)
	// A pod that fits nowhere shows that the scheduler may write conditions and events.
	if _, err := a.create(t, workload{kind: "Pod", own: "gpu-count=16", meta: map[string]any{"labels": map[string]any{"app": "too-large"}}}.object(), false); err != nil {
		t.Fatal(err)
	}
	_, err = c.AwaitPods(t.Context(), metav1.NamespaceDefault, "app=too-large", 1, "explained", func(p *v1.Pod) bool {
		return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
			return c.Type == v1.PodScheduled && c.Reason == v1.PodReasonUnschedulable && strings.Contains(c.Message, "too small")
		})
	})
	if err != nil {
		t.Error(err)
	}
	// Critical pods take the nodes of the others, through the eviction API.
	for i := range 8 {
		spec := kubetest.PodSpec(kubetest.AresSchedulerName, 8)
		spec.PriorityClassName = "system-cluster-critical"
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("critical-", i), Labels: map[string]string{"app": "critical"}}, Spec: spec}
		if _, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AwaitPods(t.Context(), metav1.NamespaceDefault, "app=critical", 8, "bound", bound); err != nil {
		t.Errorf("%v%s", err, conditions(t.Context(), c, "app=critical"))
	}
}

// The function `conditions` says why the selected pods wait.
func conditions(ctx context.Context, c *kubetest.Cluster, selector string) string {
	list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	for i := range list.Items {
		for _, condition := range list.Items[i].Status.Conditions {
			fmt.Fprintf(&out, "\n%s: %s %s", list.Items[i].Name, condition.Type, condition.Message)
		}
	}
	return out.String()
}

// A right is one verb on one resource, as an RBAC rule grants it.
type right struct{ group, resource, verb string }

func (r right) String() string { return r.verb + " " + strings.TrimPrefix(r.group+"/"+r.resource, "/") }

// unusedHere lists the rights that this test does not use, with the reason why the scheduler needs them.
var unusedHere = map[right]string{
	{"", "persistentvolumes", "update"}:                        "a pod with an unbound volume binds it",
	{"", "persistentvolumeclaims", "update"}:                   "a pod with a volume that is provisioned on its node writes the node there",
	{"", "pods/finalizers", "update"}:                          "a pod becomes the owner of a claim, where the API server checks owners",
	{"", "events", "patch"}:                                    "an event of the election happens again",
	{"events.k8s.io", "events", "patch"}:                       "an event happens again",
	{"resource.k8s.io", "resourceclaims", "get"}:               "a claim was changed by someone else",
	{"resource.k8s.io", "resourceclaims", "delete"}:            "an extended resource is given back",
	{"resource.k8s.io", "resourceclaims/status", "patch"}:      "a claim is reserved",
	{"resource.k8s.io", "resourceclaims/binding", "update"}:    "the API server asks for it when a claim is allocated, and logs no request",
	{"resource.k8s.io", "resourceclaims/binding", "patch"}:     "the API server asks for it when a reservation is taken back",
	{"", "pods", "get"}:                                        "a scheduler was killed after it had allocated a claim",
	{"authentication.k8s.io", "tokenreviews", "create"}:        "/metrics is read",
	{"authorization.k8s.io", "subjectaccessreviews", "create"}: "/metrics is read",
}

// testRights compares the rights of the service account with its requests: none was forbidden, and every right was used
// or has a reason in unusedHere.
func testRights(t *testing.T, c *kubetest.Cluster, log string) {
	rights, isServed := granted(t, c), servedBy(t, c)
	forbidden := map[right]string{}
	err := kubetest.Await(t.Context(), rightsUsed, time.Second, func(context.Context) error { // the log is written a little later
		used := map[right]bool{}
		for _, e := range events(t, log) {
			if e.ObjectRef == nil || e.ObjectRef.Resource == "" {
				continue
			}
			r := right{e.ObjectRef.APIGroup, strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/"), e.Verb}
			if e.ResponseStatus != nil && e.ResponseStatus.Code == 403 {
				forbidden[r] = e.ObjectRef.Namespace + " " + e.ObjectRef.Name
			}
			used[r] = true
		}
		var unused []string
		for _, r := range rights {
			// An informer lists or streams the initial objects by watch; both rights belong together.
			isUsed := used[r] || r.verb == "list" && used[right{r.group, r.resource, "watch"}]
			if !isUsed && unusedHere[r] == "" && isServed[r.group+"/"+r.resource] {
				unused = append(unused, r.String())
			}
		}
		if len(unused) > 0 {
			return fmt.Errorf("these rights are not used: %s: remove them from the chart, or give a reason in unusedHere", strings.Join(unused, ", "))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for r, object := range forbidden {
		t.Errorf("the service account lacks the right to %s (%s)", r, object)
	}
}

// servedBy returns the resources of the API server as group/resource. One of an older version does not have all of them.
func servedBy(t *testing.T, c *kubetest.Cluster) map[string]bool {
	t.Helper()
	_, lists, err := c.Client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, list := range lists {
		group, _, found := strings.Cut(list.GroupVersion, "/")
		if !found {
			group = "" // the version of the core group
		}
		for i := range list.APIResources {
			out[group+"/"+list.APIResources[i].Name] = true
		}
	}
	return out
}

// rightsUsed is how long it may take until the scheduler has used all its rights.
const rightsUsed = 30 * time.Second

// The function `granted` returns the rights that the roles of the service account grant.
func granted(t *testing.T, c *kubetest.Cluster) []right {
	t.Helper()
	cluster, err := c.Client.RbacV1().ClusterRoles().Get(t.Context(), "topology-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own, err := c.Client.RbacV1().Roles("kube-system").Get(t.Context(), "topology-scheduler", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out []right
	for _, rule := range append(slices.Clone(cluster.Rules), own.Rules...) {
		out = append(out, rights(rule)...)
	}
	return out
}

func rights(rule rbacv1.PolicyRule) (out []right) {
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				out = append(out, right{group, resource, verb})
			}
		}
	}
	return out
}

// The function `events` reads the audit log. The last line may be incomplete.
func events(t *testing.T, log string) (out []auditv1.Event) {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditv1.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.User.Username == account {
			out = append(out, e)
		}
	}
	return out
}
