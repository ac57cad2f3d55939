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

	"github.com/ares-scheduler/ares/test/bench/placement"
)

const (
	rmID  = "rm"
	teams = 10 // each has one queue and one application
)

// `manager` is the resource manager that YuniKorn's core calls. It counts
// allocations.
type manager struct {
	mock.ResourceManagerCallback

	mu     sync.Mutex
	counts struct{ applications, nodes, allocations int }
	bell   chan struct{} // signals that something was counted
}

func (m *manager) count(n *int, by int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	*n += by
	select {
	case m.bell <- struct{}{}:
	default: // a signal is already pending
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

// `await` waits until a count is reached, or until the count has not grown for
// a while. It then returns the count.
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

// `core` holds YuniKorn's scheduler with its nodes.
type core struct {
	services *entrypoint.ServiceContext
	manager  *manager
}

// newCore starts the core's services, including its scheduling loop. There is
// one queue for each team. The parameter `policy` is YuniKorn's node sorting
// policy.
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
			NodeID: placement.Node(i).ID, Action: si.NodeInfo_CREATE, Attributes: map[string]string{},
			SchedulableResource: resource(placement.CPUs, placement.MemoryMB, 1000*placement.GPUs),
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

// This function returns a node's capacity or a job's request as a YuniKorn
// resource. YuniKorn does not distinguish individual devices. In YuniKorn, the
// GPUs of a node are a single quantity, in thousandths of a GPU. Therefore
// YuniKorn's core has less to decide than Ares.
func resource(cpus, memory, milli int) *si.Resource {
	r := map[string]*si.Quantity{"vcore": {Value: int64(1000 * cpus)}, "memory": {Value: int64(memory)}}
	if milli > 0 {
		r["nvidia.com/gpu"] = &si.Quantity{Value: int64(milli)}
	}
	return &si.Resource{Resources: r}
}

// This function returns the requests of the given number of jobs from the mix.
func asks(jobs int) *si.AllocationRequest {
	out := &si.AllocationRequest{RmID: rmID}
	for i := range jobs {
		j := placement.Job(placement.Openb, i, jobs)
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
