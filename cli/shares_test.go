package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
)

// uncoloured is an app that prints for nobody in particular.
func uncoloured() *app { return &app{now: func() time.Time { return time.Unix(0, 0) }} }

// TestTheTreeOfPlaces puts nodes where the file says, then where their labels
// say, and counts what is free at each level.
func TestTheTreeOfPlaces(t *testing.T) {
	top := &apipb.Topology{
		Weights: &apipb.TopologyWeights{ResourceAvailability: 1},
		Domains: []*apipb.Domain{
			{Name: "leaf-2", Level: "leaf", Parent: "spine-1"},
			{Name: "leaf-1", Level: "leaf", Parent: "spine-1", Switch: "100GbE", Adjacent: []string{"leaf-2"}, Nodes: []string{"n2", "n1", "gone"}},
			{Name: "spine-1", Level: "spine"},
		},
	}
	node := func(id string, free int32, labels ...string) *apipb.Node {
		n := &apipb.Node{NodeId: id, GpusFree: free, GpusTotal: 8, State: "online", Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			n.Labels[labels[i]] = labels[i+1]
		}
		return n
	}
	var out bytes.Buffer
	uncoloured().writeTopology(&out, top, []*apipb.Node{
		node("n1", 1, "rack", "elsewhere"), // the file has the last word
		node("n2", 2), node("n3", 3, "rack", "leaf-2"),
		node("n4", 4, "region", "eu", "rack", "r9"), node("n5", 5, "region", "eu", "leaf", "r9"), node("n6", 6),
	})
	want := `fleet  21/48 GPUs free
  region eu  9/16 GPUs free  from labels
    leaf r9  9/16 GPUs free  from labels
      node n4  4/8 GPUs free  online
      node n5  5/8 GPUs free  online
  spine spine-1  6/24 GPUs free
    leaf leaf-1  3/16 GPUs free  100GbE  next to leaf-2
      node gone  not registered
      node n1  1/8 GPUs free  online
      node n2  2/8 GPUs free  online
    leaf leaf-2  3/8 GPUs free
      node n3  3/8 GPUs free  online
  node n6  6/8 GPUs free  online

Weights      availability 1, alignment 0, utilization 0, history 0

SWITCH  GBIT/S  LATENCY
100GbE  100     1 us
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWriteExplanation(t *testing.T) {
	e := &apipb.Explanation{
		JobId: "job-1", Queue: "training", Rank: 2, Of: 5,
		Blockers: []*apipb.Blocker{{Kind: "nodes", Count: 3, Of: 40, Detail: "GPU model"}, {Kind: "quota", Detail: "tenant quota 16 of 16"}},
		Remedies: []*apipb.Remedy{
			{Steps: []*apipb.Step{{Kind: "raise_quota", Text: "raise the quota by 2"}, {Kind: "uncordon_node", Target: "n1"}}},
			{Steps: []*apipb.Step{{Text: "end job-7"}}},
		},
		Ahead:   []*apipb.Ahead{{TenantId: "vision", Jobs: 1, First: "job-9"}, {Jobs: 3}},
		Holders: []*apipb.Holder{{TenantId: "vision", JobId: "job-7", Gpus: 8, Nodes: 1}, {Gpus: 1, Nodes: 2}},
	}
	var out bytes.Buffer
	(&app{now: time.Now}).writeExplanation(&out, e)
	want := `Job          job-1
Queue        training
In line      2 of 5 in queue training
Waits for    - 3 of 40 nodes: GPU model
             - tenant quota 16 of 16
Would help   - raise the quota by 2, and uncordon_node n1
             - end job-7
Ahead        - 1 job of tenant vision, next job-9
             - 3 jobs of other tenants
Held         - 8 GPUs on 1 node by job-7
             - 1 GPU on 2 nodes by other tenants
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	uncoloured().writeJob(&out, &apipb.Job{JobId: "job-1", State: "pending", WaitingFor: []string{"tenant quota 16 of 16"}, Explanation: e})
	for _, want := range []string{
		"Waits for    - tenant quota 16 of 16\n", "In line      2 of 5 in queue training\n",
		"Would help   raise the quota by 2, and uncordon_node n1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the job shows no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	(&app{now: time.Now}).writeExplanation(&out, &apipb.Explanation{JobId: "job-1"})
	if !strings.Contains(out.String(), "nothing: it may be in the next plan") {
		t.Errorf("a job that nothing keeps shows\n%s", out.String())
	}
}

func TestAPlacedJobShowsItsScoreByParts(t *testing.T) {
	var out bytes.Buffer
	uncoloured().writeJob(&out, &apipb.Job{JobId: "job-1", State: "running", Attempts: []*apipb.Attempt{{Number: 1, Score: 1}, {
		Number: 2, Score: 2300, PlacementScore: &apipb.PlacementScore{
			Level: "leaf", Domain: "leaf-1", Availability: 900, Alignment: 800, Utilization: 700, History: 600, Weighted: 810,
			StrandedMilli: -250, BandwidthMbps: 300_000, FirstFitMbps: 100_000,
		},
	}}})
	for _, want := range []string{
		"Score        2300\n", "Within       leaf leaf-1\n", "Strands      -0.250 GPUs\n",
		"Domain       810 of 1000: availability 900, alignment 800, utilization 700, history 600\n",
		"Bandwidth    300000 MB/s at the slowest link, 3.00 times a first fit's 100000\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

func TestReadQuota(t *testing.T) {
	for text, want := range map[string]string{
		"h100=16":                 "h100: 16 GPUs, may borrow without bound, lends all",
		"h100=16,borrow=8,lend=4": "h100: 16 GPUs, may borrow 8, lends 4",
		"*=3, lend=0":             "all models: 3 GPUs, may borrow without bound, lends 0",
	} {
		q, err := readQuota(text)
		if err != nil || quotaWords([]*apipb.Quota{q})[0] != want {
			t.Errorf("%q is read as %v, %v", text, q, err)
		}
	}
	for _, text := range []string{"", "16", "=16", "h100=many", "h100=1,borrow", "h100=1,steal=2", "h100=1,lend=1,lend=2", "h100=99999999999"} {
		if q, err := readQuota(text); err == nil {
			t.Errorf("%q is read as %v", text, q)
		}
	}
}
