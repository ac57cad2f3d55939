package admin

import (
	"bytes"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

// TestTheTreeOfPlaces checks that the printed tree shows each node in the domain that the topology
// file assigns. If the file assigns none, the node must be in the domain that its labels name. The
// tree must also show the number of free GPUs at each level.
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
	(&commands{&command.App{Printer: output.Printer{Now: func() time.Time { return time.Unix(0, 0) }}}}).writeTopology(&out, top, []*apipb.Node{
		node("n1", 1, "rack", "elsewhere"), // the file has precedence over the label
		node("n2", 2), node("n3", 3, "rack", "leaf-2"),
		node("n4", 4, "region", "eu", "rack", "r9"), node("n5", 5, "region", "eu", "leaf", "r9"), node("n6", 6),
	})
	want := `fleet  21/48 GPUs free
  region eu  9/16 GPUs free  latency about 15 us  from labels
    leaf r9  9/16 GPUs free  latency about 5 us  from labels
      node n4  4/8 GPUs free  online
      node n5  5/8 GPUs free  online
  spine spine-1  6/24 GPUs free  latency about 15 us
    leaf leaf-1  3/16 GPUs free  latency 1 us  100GbE  next to leaf-2
      node gone  not registered
      node n1  1/8 GPUs free  online
      node n2  2/8 GPUs free  online
    leaf leaf-2  3/8 GPUs free  latency about 5 us
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
