package service

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/policy/roles"
)

// clusterService implements ClusterService.
type clusterService struct {
	apipb.UnimplementedClusterServiceServer
	*Services
}

// ListNodes implements apipb.ClusterServiceServer.
func (d *clusterService) ListNodes(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	entries, rev := d.Cfg.View.Nodes()
	nodes, next, err := PageByID(entries, req.GetPageSize(), req.GetPageToken(), func(n *cache.NodeEntry) string { return n.Node.ID },
		func(n *cache.NodeEntry) *apipb.Node { return d.node(visibilityOf(ctx), n) })
	return &apipb.ListNodesResponse{
		Nodes: nodes, Total: int32(len(entries)), Revision: strconv.FormatInt(rev, 10), NextPageToken: next,
	}, err
}

// GetNode implements apipb.ClusterServiceServer.
func (d *clusterService) GetNode(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	n := d.Cfg.View.Node(req.GetNodeId())
	if n == nil {
		return nil, noNode(req.GetNodeId())
	}
	to := visibilityOf(ctx)
	m := d.node(to, n)
	m.Links = apipb.NewLinks(n.Node.Links)
	for _, r := range d.Cfg.View.ReservedOn(req.GetNodeId()) {
		if r.StateAt(d.Cfg.Now()) != ares.ReservationOver && to.reserved(r) {
			m.Reservations = append(m.Reservations, d.record(r))
		}
	}
	return &apipb.GetNodeResponse{Node: m}, nil
}

func noNode(id string) error {
	return ares.Errorf(ares.NotFound, "there is no node %q: list the nodes with `ares node list` or GET /api/v1/nodes", ares.Clip(id)).At("node_id")
}

// CordonNode implements apipb.ClusterServiceServer.
func (d *clusterService) CordonNode(ctx context.Context, req *apipb.CordonNodeRequest) (*apipb.CordonNodeResponse, error) {
	n, err := d.cordon(ctx, ares.Cordon{Node: req.GetNodeId(), By: pipeline.CallerName(ctx), Why: req.GetReason(), Since: pipeline.WholeMicros(d.Cfg.Now())})
	return &apipb.CordonNodeResponse{Node: n}, err
}

// UncordonNode implements apipb.ClusterServiceServer.
func (d *clusterService) UncordonNode(ctx context.Context, req *apipb.UncordonNodeRequest) (*apipb.UncordonNodeResponse, error) {
	n, err := d.cordon(ctx, ares.Cordon{Node: req.GetNodeId()})
	return &apipb.UncordonNodeResponse{Node: n}, err
}

// DrainNode implements apipb.ClusterServiceServer.
func (d *clusterService) DrainNode(ctx context.Context, req *apipb.DrainNodeRequest) (*apipb.DrainNodeResponse, error) {
	c := ares.Cordon{
		Node: req.GetNodeId(), By: pipeline.CallerName(ctx), Why: req.GetReason(), Since: pipeline.WholeMicros(d.Cfg.Now()), Drain: true, Force: req.GetForce(),
	}
	// Repeating a drain request continues the existing drain, with its original
	// start time.
	if n := d.Cfg.View.Node(c.Node); n != nil && n.Cordon != nil && n.Cordon.Drain {
		c.Since, c.Why = n.Cordon.Since, cmp.Or(c.Why, n.Cordon.Why)
	}
	n, err := d.cordon(ctx, c)
	return &apipb.DrainNodeResponse{Node: n}, err
}

// The method `cordon` cordons, drains or uncordons a node, and returns the changed node.
func (d *clusterService) cordon(ctx context.Context, c ares.Cordon) (*apipb.Node, error) {
	if !ares.ValidName(c.Node) {
		return nil, noNode(c.Node)
	}
	var was, is any // read the view before the change, because it may show the new state afterwards
	if n := d.Cfg.View.Node(c.Node); n != nil && n.Cordon != nil {
		before := *n.Cordon
		before.Revision = 0 // the new record has no revision yet
		was = before
	}
	revision, err := d.Cfg.Store.Cordon(ctx, c)
	if err != nil {
		return nil, err
	}
	entry := cache.NodeEntry{Node: ares.Node{ID: c.Node}}
	if n := d.Cfg.View.Node(c.Node); n != nil {
		entry = *n // use the known change, which the view may not show yet
	}
	entry.Cordon = nil
	if c.By != "" {
		entry.Cordon, is = &c, c
	}
	pipeline.AuditChange(ctx, "", was, is)
	d.WaitForView(ctx, revision)
	return d.node(visibilityOf(ctx), &entry), nil
}

// The method `node` converts a node to its public form, with its free resources.
func (d *Services) node(to Visibility, n *cache.NodeEntry) *apipb.Node {
	state := n.State(d.Cfg.Now())
	m := &apipb.Node{
		NodeId: n.Node.ID, State: string(state), StateSince: apipb.Timestamp(n.Since), Address: n.Node.Address,
		CpuCores: int32(n.Node.CPUs), MemoryMb: int32(n.Node.MemoryMB), CpuCoresFree: int32(n.Node.CPUs), MemoryMbFree: int32(n.Node.MemoryMB),
		Labels: n.Node.Labels, Mock: n.Node.Mock, Contains: n.Node.Contains, Version: n.Node.Version, Isolation: n.Node.Isolation, TrustedOnly: n.Node.TrustedOnly, Images: n.Node.Images, NoImages: n.Node.NoImages, OwnNetwork: n.Node.OwnNetwork, Attachable: n.Node.Attachable, ContainerRoot: n.Node.ContainerRoot, NoContainerRoot: n.Node.NoContainerRoot,
		ClockAheadSeconds: n.Node.ClockAhead.Seconds(), Numa: apipb.NewNUMANodes(n.Node.NUMA), Taints: apipb.NewTaints(n.Node.Taints),
	}
	if n.Cordon != nil {
		m.CordonedBy, m.CordonReason = n.Cordon.By, n.Cordon.Why
		if state == ares.Cordoned {
			m.StateSince = apipb.Timestamp(n.Cordon.Since)
		}
		m.Drain = d.drain(to, n.Cordon)
	}
	m.Score = to.nodeScore(n.Score)
	held := d.seats(to, m, n.Node.MilliCPUs())
	for _, dev := range n.Node.Devices {
		job, taken := held[dev.ID]
		if taken && job == "" {
			dev.Celsius = 0 // it tells how hard another tenant's job works
		}
		m.Devices = append(m.Devices, &apipb.Device{
			Index: int32(dev.Index), DeviceId: dev.ID, Type: dev.Type, Model: dev.Model, MemoryMb: int32(dev.MemoryMB),
			Numa: int32(dev.NUMA), Healthy: dev.Healthy, Reason: dev.Reason, JobId: job, Taken: taken,
			Parent: dev.Parent, MigProfile: dev.Profile, Celsius: int32(dev.Celsius),
		})
		if dev.Parent != "" {
			continue // a slice of a device that is already counted
		}
		m.GpusTotal++
		if dev.Healthy && !taken {
			m.GpusFree++
		}
	}
	return m
}

// nodeScore returns the public form of a node's history score. The counts are those of all tenants' runs, so only a caller
// that may see all jobs gets them.
func (e Visibility) nodeScore(r *ares.NodeScore) *apipb.NodeScore {
	m := newNodeScore(r)
	if m != nil && !e.sees("", "") {
		return &apipb.NodeScore{Score: m.Score}
	}
	return m
}

// newNodeScore converts a node's history score to its public form. newNodeScore returns nil if
// nothing is known about the node's history.
func newNodeScore(r *ares.NodeScore) *apipb.NodeScore {
	if r == nil {
		return nil
	}
	count := func(n int64) float64 { return float64(n) / 1000 }
	return &apipb.NodeScore{
		Score: int32(r.Score), Why: r.Why, Samples: count(r.Samples), Failures: count(r.Failures), JobFailures: count(r.Own),
		Slowdown: float64(r.Slowdown) / 1000, TimedRuns: count(r.Timed), Stragglers: count(r.Stragglers), Gangs: count(r.Gangs),
		At: apipb.Timestamp(r.At),
	}
}

// The method `drain` returns the progress of a node's drain, or nil if the node is not being drained.
func (d *Services) drain(to Visibility, c *ares.Cordon) *apipb.NodeDrain {
	if !c.Drain {
		return nil
	}
	left, enduring := d.Cfg.View.RemainingOn(c.Node)
	return &apipb.NodeDrain{
		Since: apipb.Timestamp(c.Since), Force: c.Force, SeatsLeft: int32(left), LeftRunning: d.names(to, enduring, len(enduring)),
	}
}

// Jobs hold some of a node's resources. The method `seats` subtracts these from the node's free
// resources. For each device in use, the result contains the ID of the job that holds the device, or
// "" if the caller may not see the job. The argument freeMilliCPUs is the node's CPU cores in thousandths.
func (d *Services) seats(to Visibility, m *apipb.Node, freeMilliCPUs int) map[string]string {
	held := map[string]string{}
	entries, _, _ := d.Cfg.View.SeatsOn(m.GetNodeId())
	for _, e := range entries {
		name := ""
		if to.job(e.Job) {
			name = string(e.Job.ID)
			m.Jobs = append(m.Jobs, name)
		}
		for i := range e.Run.Attempts {
			for k := range e.Run.Attempts[i].Seats {
				h := &e.Run.Attempts[i].Seats[k]
				if h.Node != m.GetNodeId() || h.State.Free() {
					continue
				}
				freeMilliCPUs -= h.MilliCPUs()
				m.MemoryMbFree -= int32(h.Memory)
				for _, s := range h.Shares {
					held[s.Device] = name
				}
			}
		}
	}
	m.CpuCoresFree, m.MemoryMbFree = int32(max(freeMilliCPUs, 0)/1000), max(m.MemoryMbFree, 0)
	return held
}

// GetClusterStatus implements apipb.ClusterServiceServer. Available devices are
// the free devices of nodes that accept new work.
func (d *clusterService) GetClusterStatus(ctx context.Context, _ *apipb.GetClusterStatusRequest) (*apipb.GetClusterStatusResponse, error) {
	resp := &apipb.GetClusterStatusResponse{Version: d.Cfg.Version, Jobs: map[string]int32{}}
	entries, _ := d.Cfg.View.Nodes()
	for _, e := range entries {
		n := d.node(visibilityOf(ctx), e)
		resp.TotalNodes++
		resp.TotalGpus += n.GetGpusTotal()
		resp.Mock = resp.Mock || n.GetMock()
		switch ares.NodeState(n.GetState()) {
		case ares.Online:
			resp.OnlineNodes++
			resp.AvailableGpus += n.GetGpusFree()
		case ares.Suspect:
			resp.SuspectNodes++
		case ares.Offline:
			resp.OfflineNodes++
		case ares.Cordoned:
			resp.CordonedNodes++
		}
	}
	counts := d.Cfg.View.PhasesIn(visibilityOf(ctx).scopes(roles.JobRead))
	for _, p := range ares.Phases() {
		n := int32(counts[p])
		resp.Jobs[string(p)] = n
		resp.TotalJobs += n
		switch {
		case p == ares.Running:
			resp.RunningJobs += n
		case p.Waiting():
			resp.PendingJobs += n
		}
	}
	leader, err := d.Cfg.Store.Leader(ctx)
	if err != nil {
		d.Cfg.Log.Warn("the leader is not known", "error", err)
	}
	resp.Leader = leader
	resp.Alert = d.alert(ctx)
	return resp, nil
}

// GetHealth implements apipb.ClusterServiceServer.
func (*clusterService) GetHealth(context.Context, *apipb.GetHealthRequest) (*apipb.GetHealthResponse, error) {
	return &apipb.GetHealthResponse{Status: "healthy"}, nil
}

// GetReady implements apipb.ClusterServiceServer. Anybody may call GetReady, so
// the answer reveals no more than needed.
func (d *clusterService) GetReady(ctx context.Context, _ *apipb.GetReadyRequest) (*apipb.GetReadyResponse, error) {
	if d.Cfg.View.Revision() == 0 {
		return nil, ares.Errorf(ares.Unavailable, "not ready: the server is still reading the state from the store")
	}
	if err := d.ready.ask(ctx, d.Cfg.Ready); err != nil {
		d.Cfg.Log.Warn("the server is not ready", "error", err)
		return nil, ares.Errorf(ares.Unavailable, "not ready: %s", inAWord(err))
	}
	return &apipb.GetReadyResponse{Status: "ready"}, nil
}

// The type `readiness` caches the last result of the readiness check and shares it between
// concurrent callers.
type readiness struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (r *readiness) ask(ctx context.Context, ready func(context.Context) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < readyFor {
		return r.err
	}
	// The readiness check continues even if this caller disconnects, because
	// other callers need the result too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxReadyWait)
	defer cancel()
	r.err = ready(ctx)
	r.at = time.Now()
	return r.err
}
