package security

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/ares-scheduler/ares/apipb"
)

// This function returns devices of one model.
func gpus(n int, model string) []*apipb.DeviceInfo {
	out := make([]*apipb.DeviceInfo, n)
	for i := range out {
		out[i] = &apipb.DeviceInfo{DeviceId: fmt.Sprint("gpu-", i), Index: int32(i), Type: "gpu", Model: model, MemoryMb: 80_000}
	}
	return out
}

func label(k, v string) *apipb.NodeInfo { return &apipb.NodeInfo{Labels: map[string]string{k: v}} }

// This method returns attempts of joined nodes to claim labels and devices that they do not have. A node that could do so would attract
// the jobs of others, with their secrets. The node "plain" joined without a grant, the node "limited" with one.
func (s *scene) nodeClaims() []attempt {
	plain := s.dial(s.t, s.joined("plain", s.joinToken("plain")))
	token := s.do(s.t, http.MethodPost, "/api/v1/join-tokens", `{"node_id":"limited","grant":{"labels":{"ares.io/pool":"dev"},"max_gpus":2,"gpu_model":"H100","max_cpu_cores":8,"max_memory_mb":1000}}`)
	limited := s.dial(s.t, s.joined("limited", token["token"].(string)))
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint("k", i)] = "v"
	}
	twins := gpus(2, "H100")
	twins[1].DeviceId = twins[0].DeviceId
	slices := gpus(3, "H100")
	for i := range slices {
		slices[i].Parent, slices[i].Profile = fmt.Sprint("whole-", i), "1g.10gb"
	}
	whole := gpus(17, "H100")
	for i := range whole {
		whole[i].Parent, whole[i].Profile = "whole", "1g.10gb"
	}
	nested := gpus(2, "H100")
	nested[0].Parent, nested[0].Profile, nested[1].Parent, nested[1].Profile = "whole", "2g.20gb", nested[0].DeviceId, "1g.10gb"
	one := func(edit func(*apipb.DeviceInfo)) *apipb.NodeInfo {
		d := gpus(1, "H100")
		edit(d[0])
		return &apipb.NodeInfo{Devices: d}
	}
	var out []attempt
	open := func(conn *grpc.ClientConn, name, node string, claim *apipb.NodeInfo, code string) {
		claim.NodeId = node
		out = append(out, attempt{name: "a node claims " + name, codes: []string{code}, try: func(ctx context.Context, _ names, id string) (result, error) {
			got, err := apipb.NewAgentServiceClient(conn).OpenSession(metadata.AppendToOutgoingContext(ctx, "x-request-id", id), &apipb.OpenSessionRequest{Node: claim, Instance: "0123456789abcdef"})
			return said(err, got), nil
		}})
	}
	const denied, invalid = "PermissionDenied", "InvalidArgument"
	for _, c := range []struct {
		name  string
		claim *apipb.NodeInfo
		code  string
	}{
		{"a reserved label", label("ares.io/pool", "prod"), denied},
		{"the reserved label of another node", label("ares.io/pool", "dev"), denied},
		{"the reserved prefix alone", label("ares.io/", ""), denied},
		{"a label without a name", label("", "prod"), invalid},
		{"a label with an escape sequence", label("pool", "\x1b[2Jprod"), invalid},
		{"a long label", label("pool", strings.Repeat("p", 254)), invalid},
		{"many labels", &apipb.NodeInfo{Labels: many}, invalid},
		{"65 GPUs", &apipb.NodeInfo{Devices: gpus(65, "H100")}, invalid},
		{"1,025 devices", &apipb.NodeInfo{Devices: gpus(1025, "H100")}, invalid},
		{"one GPU twice", &apipb.NodeInfo{Devices: twins}, invalid},
		{"a GPU without an ID", one(func(d *apipb.DeviceInfo) { d.DeviceId = "" }), invalid},
		{"a GPU with all memory", one(func(d *apipb.DeviceInfo) { d.MemoryMb = math.MaxInt32 }), invalid},
		{"a GPU with negative memory", one(func(d *apipb.DeviceInfo) { d.MemoryMb = -1 }), invalid},
		{"a GPU before the first", one(func(d *apipb.DeviceInfo) { d.Index = -1 }), invalid},
		{"a kind of device with an escape sequence", one(func(d *apipb.DeviceInfo) { d.Type = "\x1b]0;gpu\a" }), invalid},
		{"all CPU cores", &apipb.NodeInfo{CpuCores: math.MaxInt32}, invalid},
		{"negative CPU cores", &apipb.NodeInfo{CpuCores: -1}, invalid},
		{"all memory", &apipb.NodeInfo{MemoryMb: math.MaxInt32}, invalid},
		{"negative memory", &apipb.NodeInfo{MemoryMb: math.MinInt32}, invalid},
		{"links of no devices", &apipb.NodeInfo{Links: []*apipb.LinkRow{{}}}, invalid},
		{"an address with an escape sequence", &apipb.NodeInfo{Address: "\x1b[2J"}, invalid},
		{"an address with a line break", &apipb.NodeInfo{Address: "10.0.0.1\nMASTER_PORT=1"}, invalid},
		{"an address for a shell", &apipb.NodeInfo{Address: "$(id)"}, invalid},
		{"an address with an option", &apipb.NodeInfo{Address: "-oProxyCommand=id"}, invalid},
		{"a long address", &apipb.NodeInfo{Address: strings.Repeat("a", 254)}, invalid},
		{"a link with an escape sequence", &apipb.NodeInfo{Devices: gpus(1, "H100"), Links: []*apipb.LinkRow{{To: []string{"\x1b[2J"}}}}, invalid},
		{"17 slices of one GPU", &apipb.NodeInfo{Devices: whole}, invalid},
		{"a slice of a slice", &apipb.NodeInfo{Devices: nested}, invalid},
		{"a GPU as hot as the sun", one(func(d *apipb.DeviceInfo) { d.Celsius = 5772 }), invalid},
		{"a GPU on a NUMA node that cannot exist", one(func(d *apipb.DeviceInfo) { d.Numa = math.MaxInt32 }), invalid},
		{"a negative NUMA node", &apipb.NodeInfo{Numa: []*apipb.NumaNode{{Id: -1}}}, invalid},
		{"a long description of its isolation", &apipb.NodeInfo{Isolation: strings.Repeat("i", 1025)}, invalid},
		{"a long reason why it is unfit", &apipb.NodeInfo{Unfit: strings.Repeat("u", 513)}, invalid},
		{"a taint with a line break", &apipb.NodeInfo{Taints: []*apipb.Taint{{Key: "a\nb", Effect: "NoSchedule"}}}, invalid},
		{"33 taints", &apipb.NodeInfo{Taints: make([]*apipb.Taint, 33)}, invalid},
		{"a NUMA node with negative memory", &apipb.NodeInfo{Numa: []*apipb.NumaNode{{MemoryMb: -1}}}, invalid},
	} {
		open(plain, c.name, "plain", c.claim, c.code)
	}
	for _, c := range []struct {
		name  string
		claim *apipb.NodeInfo
	}{
		{"another value of its reserved label", label("ares.io/pool", "prod")},
		{"another reserved label than granted", label("ares.io/trusted", "yes")},
		{"more GPUs than granted", &apipb.NodeInfo{Devices: gpus(3, "H100")}},
		{"slices of more GPUs than granted", &apipb.NodeInfo{Devices: slices}},
		{"another model than granted", &apipb.NodeInfo{Devices: gpus(2, "B200")}},
		{"more CPU cores than granted", &apipb.NodeInfo{CpuCores: 9}},
		{"more memory than granted", &apipb.NodeInfo{MemoryMb: 1001}},
	} {
		open(limited, c.name, "limited", c.claim, denied)
	}
	return out
}
