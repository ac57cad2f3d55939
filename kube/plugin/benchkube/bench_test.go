package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/ares-scheduler/ares/kube/plugin/kubetest"
)

// TestMain lets the benchmark start this program as the bare client.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == bindCommand {
		if err := bindAll(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestShortForm runs every benchmark in a tiny form. Its figures mean nothing; it shows that every side still binds its pods.
func TestShortForm(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := settings{
		nodes: 10, pods: 16, rounds: 1, sides: []string{"kube-scheduler", "bindings", "ares"}, workers: 4,
		settle: 5 * time.Second, quiet: 5 * time.Second, rate: 50, ratePods: 16, lostNodes: 10, gang: 4, losses: 1,
	}
	var out strings.Builder
	if err := s.run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, side := range s.sides {
		if !strings.Contains(out.String(), "| "+side+" | 16 | 0 |") {
			t.Errorf("%s did not bind all 16 pods:\n%s", side, out.String())
		}
	}
	for _, row := range []string{"Created → bound at 50 pods/s, 10 nodes", "| node lost → bound | "} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no row %q:\n%s", row, out.String())
		}
	}
}

// TestPlaceFillsNodes: the bare client places every pod as long as the sum fits, and overcommits no node.
func TestPlaceFillsNodes(t *testing.T) {
	t.Parallel()
	const nodes = 5
	var fleet []v1.Node
	for i := range nodes {
		fleet = append(fleet, *kubetest.NodeShape{}.Node(i))
	}
	var pods []v1.Pod
	size := map[string]int{}
	for i := range 2 * len(mix) { // 2 × 20 GPUs, all that the nodes have
		pod := kubetest.Pod(fmt.Sprint("pod-", i), "", mix[i%len(mix)])
		size[pod.Name] = mix[i%len(mix)]
		pods = append(pods, *pod)
	}
	bindings, left := place(pods, fleet)
	if left != 0 || len(bindings) != len(pods) {
		t.Fatalf("%d bindings and %d left of %d pods", len(bindings), left, len(pods))
	}
	used := map[string]int{}
	for _, binding := range bindings {
		used[binding.Target.Name] += size[binding.Name]
	}
	for node, gpus := range used {
		if gpus != gpusPerNode {
			t.Errorf("node %s: got %d GPUs in use, want %d", node, gpus, gpusPerNode)
		}
	}
	if _, left := place(append(pods, *kubetest.Pod("more", "", 1)), fleet); left != 1 {
		t.Errorf("one pod too many: got %d left, want 1", left)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median of three: got %v, want 2", got)
	}
	if got := median([]float64{4, 1}); got != 2.5 {
		t.Errorf("median of two: got %v, want 2.5", got)
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = i + 1
	}
	for part, want := range map[float64]int{0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(hundred, part); got != want {
			t.Errorf("quantile %v: got %d, want %d", part, got, want)
		}
	}
}

// TestThroughputTable: the ratios are against the sides they name, and a side that did not run has no row.
func TestThroughputTable(t *testing.T) {
	t.Parallel()
	s := settings{nodes: 10, pods: 20, rounds: 2, sides: []string{"kube-scheduler", "bindings", "ares"}}
	table := throughputTable(s, map[string][]result{
		"kube-scheduler": {{bound: 10, fromStart: 100, fromFirst: 110, cpu: 80 * time.Millisecond, wholeNodes: 3, left: 10}, {bound: 10, fromStart: 200, fromFirst: 110, cpu: 80 * time.Millisecond, wholeNodes: 3}},
		"bindings":       {{bound: 20, fromStart: 800, fromFirst: 900, cpu: 20 * time.Millisecond}, {bound: 20, fromStart: 400, fromFirst: 900, cpu: 20 * time.Millisecond}},
	})
	for _, row := range []string{
		"| kube-scheduler | 10 | 3 | 150 | 110 | 8.00 ms | 1.00 (1.00–1.00) | 0.31 (0.12–0.50) | 1.00 (1.00–1.00) |",
		"| bindings | 20 | 0 | 600 | 900 | 1.00 ms | 5.00 (2.00–8.00) | 1.00 (1.00–1.00) | 0.12 (0.12–0.12) |",
	} {
		if !strings.Contains(table, row+"\n") {
			t.Errorf("no row %q in\n%s", row, table)
		}
	}
	if strings.Contains(table, "| ares |") {
		t.Errorf("a row for a side that did not run:\n%s", table)
	}
}

// TestReplaced: pods that are being deleted count neither as members nor as replacements.
func TestReplaced(t *testing.T) {
	t.Parallel()
	lost := time.Now()
	before, after := lost.Add(-time.Minute), lost.Add(3*time.Second)
	old := []record{{name: "a", node: "1", created: before}, {name: "b", node: "2", created: before, gone: true}}
	if got, whole := replaced(old, lost, 2); whole {
		t.Errorf("without a replacement: got %+v", got)
	}
	pending := append(old, record{name: "c", created: after})
	if got, whole := replaced(pending, lost, 2); whole || got.pods != 1 {
		t.Errorf("with an unbound replacement: got %+v, whole %t", got, whole)
	}
	bound := append(old, record{name: "c", created: after, node: "3", bound: after.Add(time.Second)})
	got, whole := replaced(bound, lost, 2)
	if want := (recovery{pods: 1, exist: 3 * time.Second, bound: 4 * time.Second, placed: time.Second}); !whole || got != want {
		t.Errorf("got %+v, whole %t, want %+v", got, whole, want)
	}
}
