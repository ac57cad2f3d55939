package federation_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/control/controltest"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/store"
)

// outlooks asks a server of a hub about a job, and returns the answer by cluster: verdict, kinds of blockers and whether it is
// offered.
func outlooks(t *testing.T, h *federation.Hub, job *ares.Job, run *ares.Run) map[string]string {
	t.Helper()
	list, err := h.Outlook(t.Context(), job, run, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range list {
		s := c.GetVerdict()
		for _, b := range c.GetBlockers() {
			s += " " + b.GetKind()
		}
		if c.GetOffered() {
			s += " offered"
		}
		out[c.GetCluster()] = s
		if can := c.GetVerdict() != "blocked"; can != (c.GetCost() != nil) || can != (c.GetStartsAt() != nil) {
			t.Errorf("%v", c)
		}
	}
	return out
}

// awaitOutlook waits until a server of the hub says something of the clusters.
func awaitOutlook(t *testing.T, h *hub, at *federation.Hub, job *ares.Job, want map[string]string) {
	t.Helper()
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("server %s says %s, want %v", at.Server, last, want)
		}
	}()
	controltest.Await(t, h.view, "the outlook", func() bool {
		last = fmt.Sprint(outlooks(t, at, job, nil))
		return last == fmt.Sprint(want)
	})
}

// otherHub starts a second server of a hub that does not lead it, with a view and a Chooser of its own.
func otherHub(t *testing.T, h *hub) (*federation.Hub, string) {
	t.Helper()
	view := cache.NewView(time.Now)
	other := &hub{t: t, s: h.s, view: view, tenant: h.tenant}
	other.hub = federation.NewHub(view)
	other.hub.Store, other.hub.Server, other.hub.Now, other.hub.Log, other.hub.Heartbeat = h.s, "hub-2", time.Now, controltest.Quiet, heartbeat
	other.hub.Chooser = choose.New(config.Default(), choose.Default())
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	controltest.Run(t, func(ctx context.Context) error { return view.Run(ctx, h.s, func(error) {}) })
	other.serve(lis)
	return other.hub, lis.Addr().String()
}

// TestOutlook asks both servers of a hub about jobs, while clusters join, are cordoned, and are lost.
func TestOutlook(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(h *hub) { h.choosing = true })
	other, addr := otherHub(t, h)
	a := newIdleMember(t, h, "a")
	if _, err := a.s.UpdateMembership(t.Context(), func(mb *store.Membership) error {
		mb.HubURL = h.addr + "," + addr
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	a.stop()
	a.start()
	controltest.Agent(t, a.s, a.view, a.node, a.gate)
	if _, err := h.s.RegisterCluster(t.Context(), store.Cluster{Name: "b", TokenHash: []byte("b"), TokenExpiresAt: time.Now().Add(time.Hour), RegisteredAt: time.Now()}); err != nil {
		t.Fatal(err)
	}
	planned := func(edit func(*ares.Spec)) *ares.Job {
		spec := ares.Spec{Tenant: h.tenant.ID, GPUs: 8}
		edit(&spec)
		return &ares.Job{ID: ares.NewHubJobID("x", "plan"), Spec: spec.WithDefaults(), AcceptedAt: time.Now()}
	}
	// A server of the hub writes this when a session begins and when it is lost.
	reachable := func(yes bool) {
		if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
			c.Unreachable, c.HealthSince = !yes, time.Now()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	reachable(true)
	job := planned(func(*ares.Spec) {})
	servers := map[string]*federation.Hub{"the leader": h.hub, "the other server": other}
	for _, at := range servers {
		awaitOutlook(t, h, at, job, map[string]string{"a": "chosen", "b": "blocked registered"})
	}
	for name, at := range servers {
		for text, job := range map[string]*ares.Job{
			"blocked model":     planned(func(s *ares.Spec) { s.GPUModel = "B200" }),
			"blocked too_small": planned(func(s *ares.Spec) { s.Members = 2 }),
			"blocked region residency": planned(func(s *ares.Spec) {
				p := s.EditPlacement()
				p.Regions = []string{"eu"}
				p.Data = []ares.DataSet{{URI: "s3://d", Region: "eu"}}
			}),
		} {
			if got := outlooks(t, at, job, nil)["a"]; got != text {
				t.Errorf("%s says %q, want %q", name, got, text)
			}
		}
	}
	// A job that fills the cluster, and one that waits for it at the hub.
	first := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	h.await(first, ares.Running)
	for _, at := range servers {
		awaitOutlook(t, h, at, job, map[string]string{"a": "chosen capacity", "b": "blocked registered"})
	}
	if list, err := h.hub.Outlook(t.Context(), job, nil, nil); err != nil || list[0].GetFits() || list[0].GetCost().GetWaitingMicros() == 0 || !strings.Contains(list[0].GetBlockers()[0].GetDetail(), "0 of its 8 devices of model H100 are free now") {
		t.Errorf("%v, %v", list, err)
	}
	cordon := func(state store.ClusterState) {
		if _, err := h.s.UpdateCluster(t.Context(), "a", func(c *store.Cluster) error {
			c.Decided, c.Reason = state, "a secret of the administrator"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	cordon(store.ClusterCordoned)
	for _, at := range servers {
		awaitOutlook(t, h, at, job, map[string]string{"a": "blocked cordoned", "b": "blocked registered"})
		if list, err := at.Outlook(t.Context(), job, nil, nil); err != nil || strings.Contains(fmt.Sprint(list), "secret") {
			t.Errorf("%v, %v", list, err)
		}
	}
	cordon(store.ClusterReady)
	close(a.gate)
	h.await(first, ares.Succeeded)
	awaitOutlook(t, h, h.hub, job, map[string]string{"a": "chosen", "b": "blocked registered"})
	a.wire.set(true)
	reachable(false)
	for _, at := range servers {
		awaitOutlook(t, h, at, job, map[string]string{"a": "blocked unreachable", "b": "blocked registered"})
	}
	a.wire.set(false)
	reachable(true)
	for _, at := range servers {
		awaitOutlook(t, h, at, job, map[string]string{"a": "chosen", "b": "blocked registered"})
	}
}

// TestOfferedOutlook asks about a job that is offered to a cluster which cannot answer.
func TestOfferedOutlook(t *testing.T) {
	t.Parallel()
	h := newHub(t, func(h *hub) { h.choosing = true })
	a := newMember(t, h, "a")
	probe := &ares.Job{ID: ares.NewHubJobID("x", "plan"), Spec: ares.Spec{Tenant: h.tenant.ID, GPUs: 8}.WithDefaults(), AcceptedAt: time.Now()}
	awaitOutlook(t, h, h.hub, probe, map[string]string{"a": "chosen"})
	a.stop()
	a.admit = func(context.Context, *ares.Job) error { return ares.Errorf(ares.Unavailable, "not now") }
	a.start()
	id := h.submit(func(s *ares.Spec) { s.GPUs = 8 })
	controltest.Await(t, h.view, "the job to be offered", func() bool {
		e := h.view.Job(id)
		return e != nil && outlooks(t, h.hub, e.Job, &e.Run)["a"] == "chosen offered"
	})
	list, err := h.hub.Outlook(t.Context(), h.view.Job(id).Job, &h.view.Job(id).Run, nil)
	if err != nil || len(list) != 1 || list[0].GetRank() != 1 || !list[0].GetFits() {
		t.Errorf("%v, %v", list, err)
	}
}
