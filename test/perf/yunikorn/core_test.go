package yunikorn

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/apache/yunikorn-core/pkg/entrypoint"
	"github.com/apache/yunikorn-core/pkg/log"
	"github.com/apache/yunikorn-core/pkg/mock"
	"github.com/apache/yunikorn-scheduler-interface/lib/go/si"

	"github.com/ares-scheduler/ares/test/perf/placing"
)

const (
	rmID  = "rm"
	teams = 10 // each with a queue and an application
)

// manager is the resource manager the core talks to. It counts.
type manager struct {
	mock.ResourceManagerCallback

	mu     sync.Mutex
	counts struct{ applications, nodes, allocations int }
	bell   chan struct{} // something was counted
}

func (m *manager) count(n *int, by int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n += by
	select {
	case m.bell <- struct{}{}:
	default: // it rings already
	}
	return nil
}

func (m *manager) UpdateApplication(r *si.ApplicationResponse) error {
	return m.count(&m.counts.applications, len(r.Accepted))
}

func (m *manager) UpdateNode(r *si.NodeResponse) error {
	return m.count(&m.counts.nodes, len(r.Accepted))
}

func (m *manager) UpdateAllocation(r *si.AllocationResponse) error {
	return m.count(&m.counts.allocations, len(r.New))
}

// await waits until a count is reached, or until nothing was counted for a
// while; it returns the count.
func (m *manager) await(n *int, want int) int {
	const patience = 30 * time.Second // the machine may be busy
	for {
		m.mu.Lock()
		have := *n
		m.mu.Unlock()
		if have >= want {
			return have
		}
		select {
		case <-m.bell:
		case <-time.After(patience):
			return have
		}
	}
}

// core is the scheduler with its nodes.
type core struct {
	services *entrypoint.ServiceContext
	manager  *manager
}

// newCore starts the core's services, its scheduling loop among them, with one
// queue for each team. policy is how it sorts nodes.
func newCore(b *testing.B, policy string, nodes int) *core {
	log.UpdateLoggingConfig(map[string]string{"log.level": "ERROR"})
	c := &core{entrypoint.StartAllServicesWithParams(false, false), &manager{bell: make(chan struct{}, 1)}}
	config := "partitions:\n- name: default\n  nodesortpolicy: {type: " + policy + "}\n  queues:\n  - name: root\n    submitacl: \"*\"\n    queues:\n"
	for i := range teams {
		config += fmt.Sprintf("    - {name: team-%d}\n", i)
	}
	_, err := c.services.RMProxy.RegisterResourceManager(&si.RegisterResourceManagerRequest{
		RmID: rmID, PolicyGroup: "queues", Version: "1", Config: config, BuildInfo: map[string]string{"k": "v"},
		ExtraConfig: map[string]string{"log.level": "ERROR"},
	}, c.manager)
	check(b, err)
	apps := &si.ApplicationRequest{RmID: rmID}
	for i := range teams {
		team := fmt.Sprintf("team-%d", i)
		apps.New = append(apps.New, &si.AddApplicationRequest{
			ApplicationID: team, QueueName: "root." + team, PartitionName: "default",
			Ugi: &si.UserGroupInformation{User: "bench", Groups: []string{"bench"}},
		})
	}
	check(b, c.services.RMProxy.UpdateApplication(apps))
	c.expect(b, &c.manager.counts.applications, teams)
	all := &si.NodeRequest{RmID: rmID}
	for i := range nodes {
		all.Nodes = append(all.Nodes, &si.NodeInfo{
			NodeID: placing.Node(i).ID, Action: si.NodeInfo_CREATE, Attributes: map[string]string{},
			SchedulableResource: resource(placing.CPUs, placing.MemoryMB, 1000*placing.GPUs),
		})
	}
	check(b, c.services.RMProxy.UpdateNode(all))
	c.expect(b, &c.manager.counts.nodes, nodes)
	return c
}

func (c *core) expect(b *testing.B, n *int, want int) {
	b.Helper()
	if have := c.manager.await(n, want); have < want {
		b.Fatalf("YuniKorn accepted %d of %d", have, want)
	}
}

// resource is the core's view of what a node has or a job wants. It knows no
// devices: thousandths of GPUs are one number for the whole node, which is less
// to decide than what Ares decides.
func resource(cpus, memory, milli int) *si.Resource {
	r := map[string]*si.Quantity{"vcore": {Value: int64(1000 * cpus)}, "memory": {Value: int64(memory)}}
	if milli > 0 {
		r["nvidia.com/gpu"] = &si.Quantity{Value: int64(milli)}
	}
	return &si.Resource{Resources: r}
}

// asks are the first jobs of the mix.
func asks(jobs int) *si.AllocationRequest {
	out := &si.AllocationRequest{RmID: rmID}
	for i := range jobs {
		j := placing.Job(placing.Openb, i, jobs)
		out.Allocations = append(out.Allocations, &si.Allocation{
			AllocationKey: string(j.ID), ApplicationID: j.Tenant, PartitionName: "default", Priority: int32(j.PriorityValue()),
			ResourcePerAlloc: resource(j.CPUs, j.MemoryMB, 1000*j.GPUs+j.GPUMilli),
		})
	}
	return out
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
