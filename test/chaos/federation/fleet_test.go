package federation_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/chaos/federation/verdict"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// The variable `quotas` holds the number of GPUs that each tenant may use in all clusters together. The default tenant has no
// limit. Each cluster has twelve GPUs.
var quotas = map[string]int{"blue": 7, "green": 14}

// A fleet is the system under test.
type fleet struct {
	t       testing.TB
	dir     string
	home    string // of the record
	hub     *site
	members []*site
	proxies *machines.Machine // on which toxiproxy runs: every connection from a cluster to the hub passes through it
	toxics  *machines.Toxiproxy

	inject.Reserved
	mu   sync.Mutex
	meta verdict.Meta
	gone map[string]bool // clusters that were lost for good
	// copies are the processes of copies of clusters.
	copies []*cluster.Process
}

// newFleet starts the hub and the clusters, and joins the clusters.
func newFleet(t testing.TB, dir, home string, seed uint64) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: dir, home: home, gone: map[string]bool{}, meta: verdict.Meta{Seed: seed, Start: trace.Now(), Quotas: quotas, Nodes: map[string]string{}}}
	if err := os.MkdirAll(filepath.Join(home, trace.JobsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	machines.StartRouter(t)
	f.proxies = machines.New(t, dir, "proxies", 200)
	rates := rand.New(rand.NewPCG(seed, 77))
	f.hub = f.newSite(plan{name: "hub", servers: 3, stores: 3, first: 1}, true, rates)
	for i, name := range []string{"east", "west", "north"} {
		f.members = append(f.members, f.newSite(plan{name: name, servers: 2, stores: 1, workers: 3, first: 20 * (i + 1)}, false, rates))
	}
	f.toxics = machines.StartToxiproxy(t, home, f.proxies)
	for _, s := range f.all() {
		s.awaitReady()
		f.prepare(s)
	}
	for i, m := range f.members {
		for k := range f.hub.controls {
			f.toxics.Proxy(link(m, k), f.proxy(i, k), f.hub.address(k))
		}
		m.startAgents()
		f.join(m)
	}
	return f
}

// drawRates gives some processes clocks that run slow or fast for the whole run, as hardware does.
func drawRates(rng *rand.Rand, n, slowest, fastest int) []string {
	out := make([]string, n)
	for i := range out {
		if rng.IntN(3) == 0 {
			out[i] = fmt.Sprint(slowest + rng.IntN(fastest-slowest+1))
		}
	}
	return out
}

// The method `prepare` creates the tenants of a site and begins its record.
func (f *fleet) prepare(s *site) {
	f.t.Helper()
	c := s.patient()
	defer c.Close()
	for name, gpus := range quotas {
		limit := int32(1 << 20)
		if s.isHub {
			limit = int32(gpus)
		}
		tenant := &apipb.Tenant{
			Id: name, Name: name, MaxGpus: new(limit), MaxGpuMemoryMb: new(int32(1 << 30)), MaxCpuCores: new(int32(1 << 20)),
			MaxMemoryMb: new(int32(1 << 30)), MaxConcurrentJobs: new(int32(1 << 20)),
		}
		live.Await(f.t, time.Minute, "tenant "+name+" of "+s.name, func() (bool, string) {
			_, err := c.CreateTenant(f.t.Context(), tenant)
			return err == nil || ares.CodeOf(err) == ares.Conflict, fmt.Sprint(err)
		})
	}
	var err error
	if s.record, err = trace.Create(filepath.Join(f.home, s.name)); err != nil {
		f.t.Fatal(err)
	}
	s.rec = recorder.New(f.t, machines.EtcdURLs(s.stores), s.record)
	s.meta = trace.Meta{Seed: f.meta.Seed, Version: os.Getenv("ARES_TEST_VERSION"), StartedAt: time.Now(), Start: f.meta.Start, SessionTTL: sessionTTL, Hub: s.isHub}
	for _, m := range s.controls {
		s.meta.Servers = append(s.meta.Servers, m.Name)
	}
	for _, m := range s.workers {
		s.meta.Nodes = append(s.meta.Nodes, m.Name)
		f.meta.Nodes[m.Name] = s.name
	}
	s.note()
}

// The function `link` names the proxy between a cluster and a server of the hub.
func link(m *site, k int) string { return fmt.Sprintf("%s-hub%d", m.name, k+1) }

func (f *fleet) proxy(i, k int) string { return fmt.Sprintf("%s:%d", f.proxies.IP, 9100+10*i+k) }

// The method `join` registers a cluster at the hub and joins it.
func (f *fleet) join(m *site) {
	f.t.Helper()
	hub, at := f.hub.patient(), m.patient()
	defer hub.Close()
	defer at.Close()
	i := slices.Index(f.members, m)
	var addresses []string
	for k := range f.hub.controls {
		addresses = append(addresses, f.proxy(i, k))
	}
	live.Await(f.t, 2*time.Minute, m.name+" to join", func() (bool, string) {
		made, err := hub.RegisterCluster(f.t.Context(), &apipb.RegisterClusterRequest{Name: m.name, Region: "region-" + m.name, TtlSeconds: 3600})
		if err != nil {
			return false, fmt.Sprint("register: ", err)
		}
		_, err = at.JoinHub(f.t.Context(), &apipb.JoinHubRequest{Hub: addresses, Token: made.GetToken(), FederatedTenants: []string{"blue", "default", "green"}})
		return err == nil, fmt.Sprint("join: ", err)
	})
	f.happened(verdict.Joined, m, false)
	f.awaitOffers(m)
}

// awaitOffers waits until the hub would offer jobs to a cluster.
func (f *fleet) awaitOffers(m *site) {
	f.t.Helper()
	hub := f.hub.patient()
	defer hub.Close()
	live.Await(f.t, 2*time.Minute, m.name+" to get offers", func() (bool, string) {
		c, err := hub.Cluster(f.t.Context(), m.name)
		return c.GetState() == "ready" && !c.GetUnlisted(), fmt.Sprint(c.GetState(), c.GetUnlisted(), err)
	})
}

// The method `happened` notes something that the verdict must know.
func (f *fleet) happened(what verdict.What, s *site, alive bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.meta.Events = append(f.meta.Events, verdict.Event{At: trace.Now(), What: what, Cluster: s.name, Alive: alive})
}

func (f *fleet) all() []*site { return append([]*site{f.hub}, f.members...) }

func (f *fleet) end() {
	for _, s := range f.all() {
		for _, p := range s.processes() {
			p.End()
		}
		if s.record != nil {
			if err := s.record.Close(); err != nil {
				f.t.Error(err)
			}
		}
	}
	f.toxics.End()
}

// The method `processes` returns all processes of the system under test.
func (f *fleet) processes() []*cluster.Process {
	var out []*cluster.Process
	for _, s := range f.all() {
		out = append(out, s.processes()...)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return append(out, f.copies...)
}
