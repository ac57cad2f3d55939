package server

import (
	"cmp"
	"context"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/loopback"
	"github.com/ares-scheduler/ares/store"
)

// hubTimeout is the maximum time of one call to the hub.
const hubTimeout = 10 * time.Second

// newUplink returns the part of a cluster's server that speaks with the hub. It runs on the leader, while the cluster is a member.
func (s *Server) newUplink() *federation.Uplink {
	u := federation.NewUplink(s.View)
	u.Store, u.Now, u.Log, u.Version = s.Store, time.Now, s.log, Version
	u.Heartbeat, u.ClaimAhead = s.cfg.Federation.heartbeat(), time.Duration(s.cfg.Federation.ClaimAheadSeconds)*time.Second
	u.Plan, u.Explain, u.Admit, u.Summary, u.UseFrom, u.UsedThisMonth = s.Loop.Plan, s.Loop.Explain, s.admitGranted, s.summary, s.Loop.UseFrom, s.Loop.UsedThisMonth
	u.ModeChanged = func(grant.Mode) { s.parts.Go(s.recordMode) } // the heartbeats must not wait for the store
	turn := 0
	u.Dial = func(ctx context.Context) (*grpc.ClientConn, error) {
		m, err := s.Store.Membership(ctx)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return nil, errNoHub()
		}
		hubs := strings.Split(m.HubURL, ",")
		turn++
		return s.dialHub(ctx, hubs[turn%len(hubs)])
	}
	u.DialServer, u.Answer, u.Archived, u.Describe = s.dialHub, s.answerHub, s.archivedJob, s.describe
	return u
}

// summary describes the capacity of this cluster for the hub. It is nil if it cannot be encoded.
func (s *Server) summary() []byte {
	var of *summary.Summary
	s.Loop.Inspect(func(state *engine.State) { of = summary.Of(state, &summary.Terms{}, time.Now()) })
	data, err := of.Encode()
	if err != nil {
		s.log.Error("describe this cluster for the hub", "error", err)
		return nil
	}
	return data
}

// describe returns what this cluster says about itself to the hub and to its other clusters. It is nil if it cannot be encoded.
func (s *Server) describe() []byte {
	d := &apipb.ClusterDescription{Version: Version}
	if addr := s.Advertised(); !loopback.Host(hostOf(addr)) {
		d.Server = addr
	}
	models := map[string]int32{}
	entries, _ := s.View.Nodes()
	for _, e := range entries {
		if e.State(time.Now()) == ares.Offline {
			continue
		}
		d.Nodes, d.CpuCores, d.MemoryMb = d.GetNodes()+1, d.GetCpuCores()+int32(e.Node.CPUs), d.GetMemoryMb()+int64(e.Node.MemoryMB)
		for i := range e.Node.Devices {
			if dev := &e.Node.Devices[i]; dev.Healthy && dev.Parent == "" {
				models[dev.Model]++
			}
		}
	}
	for _, model := range slices.Sorted(maps.Keys(models))[:min(len(models), summary.MaxModels)] {
		d.Gpus = append(d.Gpus, &apipb.ModelCount{Model: model, Count: models[model]})
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		s.log.Error("describe this cluster for the hub", "error", err)
		return nil
	}
	return data
}

func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	return host
}

// recordMode writes whether the hub answers, and when it last did, so that every server of the cluster can say so. It reads the mode inside the
// change, so the last writer writes the mode of that moment.
func (s *Server) recordMode() {
	ctx, cancel := context.WithTimeout(context.Background(), hubTimeout)
	defer cancel()
	if m, err := s.Store.Membership(ctx); err != nil || m == nil {
		return // the cluster may have left meanwhile
	}
	_, err := s.Store.UpdateMembership(ctx, func(m *store.Membership) error {
		if m.Name != "" {
			mode, age, _ := s.Uplink.Mode()
			m.Mode = string(mode)
			if heard := pipeline.WholeMicros(time.Now().Add(-age)); age >= 0 && heard.After(m.HeardAt) {
				m.HeardAt = heard
			}
		}
		return nil
	})
	if err != nil {
		s.log.Warn("the mode of this cluster was not written", "error", err)
	}
}

func errNoHub() error {
	return ares.Errorf(ares.NotFound, "this cluster has joined no hub: join one with `ares join --global HOST:PORT --token TOKEN`")
}

// heardEvery is how often the leader records that the hub answers. When all servers end at once, this is the error of the age that
// the next ones show.
const heardEvery = time.Minute

// membershipEvery is how often the leader reads the membership if the store's watch says nothing.
const membershipEvery = 10 * time.Second

// runMembership runs the uplink while this cluster is a member of a federation. A change of the hub's address restarts it.
func (s *Server) runMembership(ctx context.Context, lead *store.Leadership) error {
	changed := make(chan struct{}, 1)
	watching, stopWatch := context.WithCancel(ctx)
	defer stopWatch()
	go func() { // it ends with watching; without it, the ticker finds the change
		for watching.Err() == nil {
			_ = s.Store.DumpWatch(watching, "federation/membership", func(store.Raw) error {
				select {
				case changed <- struct{}{}:
				default:
				}
				return nil
			})
			select {
			case <-watching.Done():
			case <-time.After(time.Second):
			}
		}
	}()
	tick := time.NewTicker(membershipEvery)
	defer tick.Stop()
	running, stop, done := "", func() {}, make(chan struct{})
	close(done)
	defer func() {
		stop()
		<-done
	}()
	for {
		m, err := s.Store.Membership(ctx)
		now := ""
		if m != nil {
			now = m.Name + " " + m.HubStore + " " + m.HubURL
		}
		if err == nil && now != running {
			stop()
			<-done
			if running = now; now != "" {
				stop, done = s.startUplink(ctx, lead)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-tick.C:
			if mode, _, _ := s.Uplink.Mode(); m != nil && (m.Mode != string(mode) || mode == grant.Federated && time.Since(m.HeardAt) >= heardEvery) {
				s.recordMode()
			}
		}
	}
}

// startUplink starts the uplink and the renewal of the cluster's certificate.
func (s *Server) startUplink(ctx context.Context, lead *store.Leadership) (stop func(), done chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	done = make(chan struct{})
	go func() {
		defer close(done)
		renewed := make(chan struct{})
		go func() {
			defer close(renewed)
			s.renewClusterCertificate(ctx)
		}()
		if err := s.Uplink.Run(ctx, lead); err != nil && ctx.Err() == nil {
			s.log.Error("the uplink to the hub ended", "error", err)
		}
		cancel()
		<-renewed
	}()
	return cancel, done
}

// admitGranted rejects a job of the hub that this cluster would not accept. The tenant is known, because the hub tells it before
// it offers a job; a hub of the version before this one does not, so the tenant is created here if it is missing.
func (s *Server) admitGranted(ctx context.Context, job *ares.Job) error {
	if s.View.Tenant(job.Tenant) == nil {
		t := ares.Tenant{ID: job.Tenant, Name: job.Tenant, Limits: ares.NoLimits(), Weight: 1, MayPreempt: true, CreatedAt: time.Now()}
		if err := s.Store.RegisterTenant(ctx, t); err != nil {
			return err
		}
	}
	if q := cmp.Or(job.Queue, ares.DefaultQueue); q != ares.DefaultQueue && s.View.Queue(job.Tenant, q) == nil {
		return ares.Errorf(ares.NotFound, "tenant %s has no queue %s in this cluster: create it with `ares queue create`", job.Tenant, q)
	}
	return nil
}
