package federation

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

var (
	regions = []string{"eu", "us", "ap"}
	models  = []string{"NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "Tesla V100-SXM2-32GB", "Tesla T4"}
)

// A simMember is a cluster as its hub sees it. It speaks the protocol of federation.Uplink, which needs a store and a
// scheduler for each member: a hundred of them do not fit on the machine that measures. Its nodes have eight devices.
type simMember struct {
	hub      *simHub
	index    int
	name     string
	identity *pki.ClusterIdentity

	open    atomic.Bool
	largest atomic.Int64  // size of a summary
	changed chan struct{} // holds one token when the free devices changed

	sending sync.Mutex
	stream  apipb.FederationService_ConnectClient

	mu     sync.Mutex
	free   []int // devices by node
	offers map[string]simOffer
	asks   map[string]int // devices of the claims without an answer
}

// A simOffer is an offer of a job that takes so many devices.
type simOffer struct {
	epoch   int64
	devices int
}

// The method `join` exchanges the token for a certificate, as `ares join` does.
func (m *simMember) join(ctx context.Context, token string) error {
	key, err := pki.NewKey()
	if err != nil {
		return err
	}
	request, err := pki.Request(key)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(m.hub.c.Servers[0].At.GRPC, grpc.WithTransportCredentials(credentials.NewTLS(m.hub.c.Trust())))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // no call is in progress
	got, err := apipb.NewClustersServiceClient(conn).JoinCluster(ctx, &apipb.JoinClusterRequest{
		Token: token, Request: request, StoreId: m.store(), Version: "bench", Tenants: []string{ares.DefaultTenant}, FederatedTenants: []string{ares.DefaultTenant},
	})
	if err != nil {
		return err
	}
	m.identity, err = pki.NewClusterIdentity(key, got.GetCertificate(), got.GetAuthority())
	return err
}

func (m *simMember) store() string { return fmt.Sprintf("store-%032d", m.index) }

// The method `serve` keeps one session.
func (m *simMember) serve(ctx context.Context) error {
	addr := m.hub.c.Servers[0].At.GRPC
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(m.identity.TLS())), grpc.WithContextDialer(m.hub.traffic.dial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	if m.stream, err = apipb.NewFederationServiceClient(conn).Connect(ctx); err != nil {
		cancel()
		return err
	}
	var beats sync.WaitGroup
	defer beats.Wait()
	defer cancel()
	for {
		got, err := m.stream.Recv()
		if err != nil {
			return err
		}
		if got.GetWelcome() != nil {
			beats.Go(func() { m.beat(ctx) })
		}
		if err = m.handle(got); err != nil {
			return err
		}
	}
}

func (m *simMember) handle(got *apipb.HubMessage) error {
	switch b := got.GetBody().(type) {
	case *apipb.HubMessage_Greeting:
		return m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Hello{Hello: &apipb.MemberHello{
			Cluster: m.name, Protocol: 1, StoreId: m.store(), Revision: 1, Incarnation: m.incarnation(), Version: "bench",
		}}})
	case *apipb.HubMessage_Welcome:
		m.open.Store(true)
		return m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Confirmation{Confirmation: &apipb.SessionConfirmation{Cookie: b.Welcome.GetCookie()}}})
	case *apipb.HubMessage_Offer:
		made, err := store.DecodeBatch(b.Offer.GetJob())
		if err != nil {
			return err
		}
		m.mu.Lock()
		m.offers[b.Offer.GetJobId()] = simOffer{b.Offer.GetEpoch(), made.Events[0].Job.GPUs}
		m.mu.Unlock()
		return m.claim()
	case *apipb.HubMessage_Withdrawal:
		m.mu.Lock()
		defer m.mu.Unlock()
		if o := m.offers[b.Withdrawal.GetJobId()]; o.epoch == b.Withdrawal.GetEpoch() {
			delete(m.offers, b.Withdrawal.GetJobId())
		}
	case *apipb.HubMessage_Claim:
		m.answered(b.Claim)
	case *apipb.HubMessage_Roster: // as if it were stored: the others get no jobs before
		return m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Roster{Roster: &apipb.RosterAcknowledgement{Version: b.Roster.GetVersion()}}})
	}
	return nil
}

func (m *simMember) incarnation() string { return m.store() + "." }

// The method `claim` claims the offers for which a node has room.
func (m *simMember) claim() error {
	m.mu.Lock()
	var claims []*apipb.GrantClaim
	for id, o := range m.offers { // order-free: any offer may come first
		n := o.devices
		for i := range m.free {
			if m.free[i] >= n {
				m.free[i] -= n
				m.asks[id] = n
				claims = append(claims, &apipb.GrantClaim{JobId: id, Epoch: o.epoch, Incarnation: m.incarnation(), Bid: &apipb.GrantBid{}})
				delete(m.offers, id)
				break
			}
		}
	}
	m.mu.Unlock()
	for _, c := range claims {
		if err := m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Claim{Claim: c}}); err != nil {
			return err
		}
	}
	return nil
}

// The method `answered` handles the answer to a claim. The devices of a claim that has not won are free again.
func (m *simMember) answered(a *apipb.ClaimAnswer) {
	if a.GetBound() != nil {
		m.hub.bound.Add(1)
	} else {
		m.hub.lost.Add(1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.GetBound() == nil {
		for i := range m.free {
			if m.free[i]+m.asks[a.GetJobId()] <= 8 {
				m.free[i] += m.asks[a.GetJobId()]
				break
			}
		}
	}
	delete(m.asks, a.GetJobId())
	m.change()
}

// The method `release` makes some devices free.
func (m *simMember) release(seed int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range 4 {
		m.free[(seed+31*k)%len(m.free)] = 1 + (seed+k)%8
	}
	m.change()
}

// The method `empty` makes all devices free.
func (m *simMember) empty() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.free {
		m.free[i] = 8
	}
	m.change()
}

func (m *simMember) change() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

func (m *simMember) send(msg *apipb.MemberMessage) error {
	m.sending.Lock()
	defer m.sending.Unlock()
	return m.stream.Send(msg)
}

// The method `beat` sends heartbeats, and summaries as an Uplink does: when something has changed, at most one a second, and
// otherwise now and then.
func (m *simMember) beat(ctx context.Context) {
	heart := time.NewTicker(federation.DefaultHeartbeat)
	defer heart.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	sequence, last := int64(0), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-heart.C:
			sequence++
			if m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Heartbeat{Heartbeat: &apipb.MemberHeartbeat{Sequence: sequence, Revision: 1}}}) != nil {
				return
			}
		case <-second.C:
			select {
			case <-m.changed:
			default:
				if time.Since(last) < federation.SummaryRefresh {
					continue
				}
			}
			last = time.Now()
			data, err := m.summary().Encode()
			if err != nil || m.send(&apipb.MemberMessage{Body: &apipb.MemberMessage_Summary{Summary: &apipb.MemberSummary{Summary: data}}}) != nil {
				return
			}
			m.largest.Store(max(m.largest.Load(), int64(len(data))))
			if m.claim() != nil {
				return
			}
		}
	}
}

// summary describes the nodes. Their labels are those of usual clusters: name, rack, leaf and zone.
func (m *simMember) summary() *summary.Summary {
	m.mu.Lock()
	defer m.mu.Unlock()
	model := models[m.index%len(models)]
	s := &summary.Summary{
		At: time.Now(), Revision: time.Now().UnixMicro(), EgressMicros: 20_000, Celsius: 60,
		Models:  []summary.Model{{Name: model, Devices: 8 * len(m.free), PriceMicros: int64(1_000_000 * (1 + m.index%2)), RuntimeMilli: 1000}},
		Tenants: []summary.TenantUse{{Tenant: ares.DefaultTenant, GPUMilli: int64(8000 * len(m.free))}},
	}
	counts := map[int]int{}
	for i, n := range m.free {
		counts[n]++
		s.Models[0].Free += n
		s.Labels = append(s.Labels, summary.Label{Key: "kubernetes.io/hostname", Value: fmt.Sprintf("%s-%04d", m.name, i), Nodes: 1})
		if i%8 == 0 {
			s.Labels = append(s.Labels, summary.Label{Key: "rack", Value: fmt.Sprintf("r%03d", i/8), Nodes: 8})
		}
	}
	for free := 8; free >= 0; free-- {
		if counts[free] > 0 {
			s.Shapes = append(s.Shapes, summary.Shape{
				Type: summary.Type{Model: model, DeviceMemoryMB: 81_559, Devices: 8, CPUs: 96, MemoryMB: 768_000, Link: "NV"},
				Free: summary.Free{Devices: free, CPUs: 12 * free, MemoryMB: 96_000 * free}, Count: counts[free],
			})
		}
	}
	return s
}

// traffic counts the bytes of all connections of the members.
type traffic struct{ in, out atomic.Int64 }

func (t *traffic) total() int64 { return t.in.Load() + t.out.Load() }

func (t *traffic) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &counted{conn, t}, nil
}

type counted struct {
	net.Conn

	t *traffic
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.t.in.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.t.out.Add(int64(n))
	return n, err
}
