package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where the configuration of the scheduler is.
const (
	configNamespace = "kube-system"
	configName      = "topology-scheduler-config"
)

// config returns a configuration in which a workload may use so many GPUs of a leaf.
func config(gpusPerLeaf int) string {
	return fmt.Sprintf(`apiVersion: topology.scheduler/v1alpha1
kind: SchedulerConfig
spec:
  topologyConstraints:
    maxGPUsPerLeaf: %d
`, gpusPerLeaf)
}

// TestConfiguration: a change of the ConfigMap applies without a restart. One that is not valid changes nothing, and an
// event says what to write.
func TestConfiguration(t *testing.T) {
	s := newScene(t, "configuration", 2*nodesPerLeaf)
	t.Cleanup(func() {
		if err := applyFile(context.Background(), filepath.Join(repository, "deploy", "configmap.yaml")); err != nil {
			t.Error(err)
		}
	})
	s.configure(map[string]string{"config.yaml": config(8)})
	s.awaitLeaves("limited", 2)
	for i, c := range []struct {
		data map[string]string
		want string
	}{
		{map[string]string{"config.yaml": strings.Replace(config(64), "topologyConstraints", "topologyConstraint", 1)}, "did you mean topologyConstraints?"},
		{map[string]string{"config.yaml": strings.Replace(config(64), "SchedulerConfig", "Config", 1)}, `"Config" is unknown: write SchedulerConfig or TopologySchedulerConfig`},
		{map[string]string{"config.yaml": config(64) + "  scoringWeights: {resourceAvailability: 0.5}\n"}, "the weights add up to 0.5: change them so that they add up to 1"},
		{map[string]string{"config.yaml": config(64), "second.yaml": config(64)}, "the ConfigMap has 2 keys"},
		{map[string]string{"config.yaml": config(64) + "---\n" + config(64)}, "there is more than one document"},
		{nil, "the ConfigMap has no data"},
	} {
		s.configure(c.data)
		s.awaitConfigEvent("the configuration before stays: ", c.want)
		if i == 0 {
			s.awaitLeaves("still-limited", 2)
		}
	}
	s.configure(map[string]string{"config.yaml": config(64)})
	s.awaitLeaves("free", 1)
}

// configure replaces the data of the ConfigMap.
func (s *scene) configure(data map[string]string) {
	s.t.Helper()
	maps := cluster.Client.CoreV1().ConfigMaps(configNamespace)
	m, err := maps.Get(s.t.Context(), configName, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	m.Data = data
	if _, err := maps.Update(s.t.Context(), m, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// awaitConfigEvent waits until an event of the ConfigMap contains all words.
func (s *scene) awaitConfigEvent(words ...string) {
	s.t.Helper()
	s.await(func(ctx context.Context) error {
		list, err := cluster.Client.CoreV1().Events(configNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var said []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.InvolvedObject.Kind != "ConfigMap" || e.InvolvedObject.Name != configName || e.Reason != "InvalidConfig" {
				continue
			}
			said = append(said, e.Message)
			missing := false
			for _, word := range words {
				missing = missing || !strings.Contains(e.Message, word)
			}
			if !missing {
				return nil
			}
		}
		return fmt.Errorf("no event of the ConfigMap says %q; the events:\n%s", words, strings.Join(said, "\n"))
	})
}

// awaitLeaves runs gangs of two whole nodes until one lies in as many leaves as the configuration demands, because a
// change of the configuration takes a moment to arrive. The gangs are deleted again.
func (s *scene) awaitLeaves(name string, want int) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for i := 0; ; i++ {
		app := fmt.Sprintf("%s-%d", name, i)
		s.createJob(s.job(app, 2, 8))
		leaves := map[string]bool{}
		for _, pod := range s.awaitBound(app, 2) {
			leaves[s.leaves[pod.Spec.NodeName]] = true
		}
		background := metav1.DeletePropagationBackground
		if err := cluster.Client.BatchV1().Jobs(s.namespace).Delete(s.t.Context(), app, metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			s.t.Fatal(err)
		}
		s.awaitPods(app, 0, "left", func(*v1.Pod) bool { return true })
		switch {
		case len(leaves) == want:
			return
		case time.Now().After(deadline):
			s.t.Fatalf("a gang of two nodes lies in %d leaves: want %d", len(leaves), want)
		}
	}
}
