package cli

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/exit"
)

// GetNode returns one of the fake's nodes.
func (f *fake) GetNode(_ context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	i := slices.IndexFunc(f.nodes, func(n *apipb.Node) bool { return n.GetNodeId() == req.GetNodeId() })
	if i < 0 {
		return nil, apipb.ToStatus(ares.Errorf(ares.NotFound, "there is no node %s", req.GetNodeId()))
	}
	return &apipb.GetNodeResponse{Node: f.nodes[i]}, nil
}

// ListNodes leaves out the links, as the server does.
func (f *fake) ListNodes(context.Context, *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	list := &apipb.ListNodesResponse{Total: int32(len(f.nodes))}
	for _, n := range f.nodes {
		list.Nodes = append(list.Nodes, &apipb.Node{NodeId: n.GetNodeId()})
	}
	return list, nil
}

// oddNode returns a node with a used device, an unhealthy device, MIG slices, a missing row
// of links, and a link with an escape sequence.
func oddNode() *apipb.Node {
	n := &apipb.Node{NodeId: "odd", State: "online", Links: apipb.NewLinks([][]string{
		{"X", "NV1", "NV1", "NV2"}, {"NV1", "X", "NV2", "NV1"}, {"NV1", "NV2", "X", "\x1b[31mNV2"},
	})}
	for i := range int32(4) {
		n.Devices = append(n.Devices, &apipb.Device{Index: i, DeviceId: "d", Model: "V100", MemoryMb: 32510, Healthy: true})
	}
	n.Devices[1].JobId = "job-1"
	for range 2 {
		n.Devices = append(n.Devices, &apipb.Device{Index: 4, Model: "A100", MigProfile: "3g.20gb", Parent: "card", MemoryMb: 20096, Numa: 1, Healthy: true})
	}
	n.Devices[5].Healthy, n.Devices[5].Reason = false, "xid 79"
	return n
}

func TestNodeGPUs(t *testing.T) {
	f := &fake{nodes: []*apipb.Node{oddNode()}}
	serve(t, f)
	code, out, errs := run(t, "node", "gpus", "--best", "2")
	want := `Node         odd, online

GPU  MODEL         MEMORY MB  NUMA  USE
0    V100          32510      0     free
1    V100          32510      0     job-1
2    V100          32510      0     free
3    V100          32510      0     free
4/0  A100 3g.20gb  20096      1     free
4/1  A100 3g.20gb  20096      1     unhealthy: xid 79

LINKS   GPU0  GPU1  GPU2  GPU3  GPU4/0  GPU4/1
GPU0    X     NV1   NV1   NV2   ?       ?
GPU1    NV1   X     NV2   NV1   ?       ?
GPU2    NV1   NV2   X     NV2   ?       ?
GPU3    ?     ?     ?     ?     ?       ?
GPU4/0  ?     ?     ?     ?     ?       ?
GPU4/1  ?     ?     ?     ?     ?       ?

Best         [0 3]
Score        150: 1 pair by NVLink, 0 by PCIe, 0 consecutive
Bandwidth    50000 MB/s on the slowest link, modelled
First fit    [0 2], score 150, 25000 MB/s on the slowest link
Reasoning    - 0,3: the best of 3 sets of 2 among the 3 free devices
             - slowest link 50000 MB/s (NV2): no other set has it
             - first fit would take 0,2, slowest link 25000 MB/s (NV1): 2.0 times slower
`
	if code != 0 || out != want {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, out, _ = run(t, "node", "gpus", "odd", "--best", "4", "-o", "yaml"); code != 0 ||
		!strings.Contains(out, "- 4 wanted, 3 free devices\n") || strings.Contains(out, "best:") {
		t.Errorf("exit %d\n%s", code, out)
	}
	f.nodes = append(f.nodes, &apipb.Node{NodeId: "bare", State: "online"})
	if code, _, errs = run(t, "node", "gpus"); code != exit.Usage || !strings.Contains(errs, "there are 2 nodes: name one") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if code, out, _ = run(t, "node", "gpus", "bare", "--best", "1"); code != 0 || !strings.Contains(out, "Devices      none\n") {
		t.Errorf("exit %d\n%s", code, out)
	}
	f.nodes = nil
	if code, _, errs = run(t, "node", "gpus"); code != exit.Failed || !strings.Contains(errs, "there are no nodes") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}
