package api

import (
	"cmp"
	"context"
	"strconv"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control"
)

// clusterDoor is the ClusterService.
type clusterDoor struct {
	apipb.UnimplementedClusterServiceServer
	*Doors
}

// ListNodes implements apipb.ClusterServiceServer.
func (d *clusterDoor) ListNodes(ctx context.Context, req *apipb.ListNodesRequest) (*apipb.ListNodesResponse, error) {
	entries, rev := d.cfg.View.Nodes()
	nodes, next, err := pageByID(entries, req.GetPageSize(), req.GetPageToken(), func(n *control.NodeEntry) string { return n.Node.ID },
		func(n *control.NodeEntry) *apipb.Node { return d.node(eyesOf(ctx), n) })
	return &apipb.ListNodesResponse{
		Nodes: nodes, Total: int32(len(entries)), Revision: strconv.FormatInt(rev, 10), NextPageToken: next,
	}, err
}

// GetNode implements apipb.ClusterServiceServer.
func (d *clusterDoor) GetNode(ctx context.Context, req *apipb.GetNodeRequest) (*apipb.GetNodeResponse, error) {
	n := d.cfg.View.Node(req.GetNodeId())
	if n == nil {
		return nil, noNode(req.GetNodeId())
	}
	to := eyesOf(ctx)
	m := d.node(to, n)
	m.Links = apipb.NewLinks(n.Node.Links)
	for _, r := range d.cfg.View.ReservedOn(req.GetNodeId()) {
		if r.StateAt(d.cfg.Now()) != ares.ReservationOver && to.reserved(r) {
			m.Reservations = append(m.Reservations, d.record(r))
		}
	}
	return &apipb.GetNodeResponse{Node: m}, nil
}

func noNode(id string) error {
	return ares.Errorf(ares.NotFound, "there is no node %q: see GET /api/v1/nodes or `ares node list`", clip(id)).At("node_id")
}

// CordonNode implements apipb.ClusterServiceServer.
func (d *clusterDoor) CordonNode(ctx context.Context, req *apipb.CordonNodeRequest) (*apipb.CordonNodeResponse, error) {
	n, err := d.cordon(ctx, ares.Cordon{Node: req.GetNodeId(), By: caller(ctx), Why: req.GetReason(), Since: wholeMicros(d.cfg.Now())})
	return &apipb.CordonNodeResponse{Node: n}, err
}

// UncordonNode implements apipb.ClusterServiceServer.
func (d *clusterDoor) UncordonNode(ctx context.Context, req *apipb.UncordonNodeRequest) (*apipb.UncordonNodeResponse, error) {
	n, err := d.cordon(ctx, ares.Cordon{Node: req.GetNodeId()})
	return &apipb.UncordonNodeResponse{Node: n}, err
}

// DrainNode implements apipb.ClusterServiceServer.
func (d *clusterDoor) DrainNode(ctx context.Context, req *apipb.DrainNodeRequest) (*apipb.DrainNodeResponse, error) {
	c := ares.Cordon{
		Node: req.GetNodeId(), By: caller(ctx), Why: req.GetReason(), Since: wholeMicros(d.cfg.Now()), Drain: true, Force: req.GetForce(),
	}
	// Asked again, it is the same drain: it began when it began.
	if n := d.cfg.View.Node(c.Node); n != nil && n.Cordon != nil && n.Cordon.Drain {
		c.Since, c.Why = n.Cordon.Since, cmp.Or(c.Why, n.Cordon.Why)
	}
	n, err := d.cordon(ctx, c)
	return &apipb.DrainNodeResponse{Node: n}, err
}

// cordon changes a cordon and answers with the node as it is then.
func (d *clusterDoor) cordon(ctx context.Context, c ares.Cordon) (*apipb.Node, error) {
	if !ares.ValidName(c.Node) {
		return nil, noNode(c.Node)
	}
	var was, is any // the view is asked before: after it, it may know what is
	if n := d.cfg.View.Node(c.Node); n != nil && n.Cordon != nil {
		before := *n.Cordon
		before.Revision = 0 // what is written does not have it yet
		was = before
	}
	revision, err := d.cfg.Store.Cordon(ctx, c)
	if err != nil {
		return nil, err
	}
	entry := control.NodeEntry{Node: ares.Node{ID: c.Node}}
	if n := d.cfg.View.Node(c.Node); n != nil {
		entry = *n // what the view does not know yet is known here
	}
	entry.Cordon = nil
	if c.By != "" {
		entry.Cordon, is = &c, c
	}
	changed(ctx, "", was, is)
	d.seen(ctx, revision)
	return d.node(eyesOf(ctx), &entry), nil
}

// node is a node in its public form, with what of it is free.
func (d *Doors) node(to eyes, n *control.NodeEntry) *apipb.Node {
	state := n.State(d.cfg.Now())
	m := &apipb.Node{
		NodeId: n.Node.ID, State: string(state), StateSince: apipb.Timestamp(n.Since), Address: n.Node.Address,
		CpuCores: int32(n.Node.CPUs), MemoryMb: int32(n.Node.MemoryMB), CpuCoresFree: int32(n.Node.CPUs), MemoryMbFree: int32(n.Node.MemoryMB),
		Labels: n.Node.Labels, Mock: n.Node.Mock, Contains: n.Node.Contains, Version: n.Node.Version, Isolation: n.Node.Isolation,
		ClockAheadSeconds: n.Node.ClockAhead.Seconds(), Numa: apipb.NewNUMANodes(n.Node.NUMA), Taints: apipb.NewTaints(n.Node.Taints),
	}
	if n.Cordon != nil {
		m.CordonedBy, m.CordonReason = n.Cordon.By, n.Cordon.Why
		if state == ares.Cordoned {
			m.StateSince = apipb.Timestamp(n.Cordon.Since)
		}
		m.Drain = d.drain(to, n.Cordon)
	}
	m.Score = newNodeScore(n.Score)
	held := d.seats(to, m)
	for _, dev := range n.Node.Devices {
		job, taken := held[dev.ID]
		m.Devices = append(m.Devices, &apipb.Device{
			Index: int32(dev.Index), DeviceId: dev.ID, Type: dev.Type, Model: dev.Model, MemoryMb: int32(dev.MemoryMB),
			Numa: int32(dev.NUMA), Healthy: dev.Healthy, Reason: dev.Reason, JobId: job, Taken: taken,
			Parent: dev.Parent, MigProfile: dev.Profile, Celsius: int32(dev.Celsius),
		})
		if dev.Parent != "" {
			continue // a slice of a device that is counted
		}
		m.GpusTotal++
		if dev.Healthy && !taken {
			m.GpusFree++
		}
	}
	return m
}

// newNodeScore is how a node has done so far in its public form, nil when nothing
// is known.
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

// drain is how far the drain of a node has come, nil when it is not drained.
func (d *Doors) drain(to eyes, c *ares.Cordon) *apipb.NodeDrain {
	if !c.Drain {
		return nil
	}
	left, enduring := d.cfg.View.LeftOn(c.Node)
	return &apipb.NodeDrain{
		Since: apipb.Timestamp(c.Since), Force: c.Force, SeatsLeft: int32(left), LeftRunning: d.names(to, enduring, len(enduring)),
	}
}

// seats takes what jobs hold off the node's free figures, and tells which job
// holds which device, "" for one that may not be named.
func (d *Doors) seats(to eyes, m *apipb.Node) map[string]string {
	held := map[string]string{}
	entries, _, _ := d.cfg.View.SeatsOn(m.GetNodeId())
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
				m.CpuCoresFree -= int32(h.CPUs)
				m.MemoryMbFree -= int32(h.Memory)
				for _, s := range h.Shares {
					held[s.Device] = name
				}
			}
		}
	}
	m.CpuCoresFree, m.MemoryMbFree = max(m.CpuCoresFree, 0), max(m.MemoryMbFree, 0)
	return held
}

// GetClusterStatus implements apipb.ClusterServiceServer. Available are the
// free devices of nodes that take new work.
func (d *clusterDoor) GetClusterStatus(ctx context.Context, _ *apipb.GetClusterStatusRequest) (*apipb.GetClusterStatusResponse, error) {
	resp := &apipb.GetClusterStatusResponse{Version: d.cfg.Version, Jobs: map[string]int32{}}
	entries, _ := d.cfg.View.Nodes()
	for _, e := range entries {
		n := d.node(eyesOf(ctx), e)
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
	counts := d.cfg.View.PhasesOf(eyesOf(ctx).tenants())
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
	leader, err := d.cfg.Store.Leader(ctx)
	if err != nil {
		d.cfg.Log.Warn("the leader is not known", "error", err)
	}
	resp.Leader = leader
	resp.Alert = d.alert(ctx)
	return resp, nil
}

// GetHealth implements apipb.ClusterServiceServer.
func (*clusterDoor) GetHealth(context.Context, *apipb.GetHealthRequest) (*apipb.GetHealthResponse, error) {
	return &apipb.GetHealthResponse{Status: "healthy"}, nil
}

// GetReady implements apipb.ClusterServiceServer. Anybody may ask, so it says
// no more than needed.
func (d *clusterDoor) GetReady(ctx context.Context, _ *apipb.GetReadyRequest) (*apipb.GetReadyResponse, error) {
	if d.cfg.View.Revision() == 0 {
		return nil, ares.Errorf(ares.Unavailable, "not ready: the state is still being read")
	}
	if err := d.ready.ask(ctx, d.cfg.Ready); err != nil {
		d.cfg.Log.Warn("the server is not ready", "error", err)
		return nil, ares.Errorf(ares.Unavailable, "not ready: %s", inAWord(err))
	}
	return &apipb.GetReadyResponse{Status: "ready"}, nil
}

// readiness is the last answer to the question, for all who ask at once.
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
	// One caller may leave, but the answer is for everybody.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxReadyWait)
	defer cancel()
	r.err = ready(ctx)
	r.at = time.Now()
	return r.err
}
