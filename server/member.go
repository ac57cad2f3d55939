package server

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/federation"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/federation/summary"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// hubTimeout is the maximum time of one call to the hub.
const hubTimeout = 10 * time.Second

// newUplink returns the part of a cluster's server that speaks with the hub. It runs on the leader, while the cluster is a member.
func (s *Server) newUplink() *federation.Uplink {
	u := federation.NewUplink(s.View)
	u.Store, u.Now, u.Log, u.Version = s.Store, time.Now, s.log, Version
	u.Heartbeat, u.ClaimAhead = s.cfg.Federation.heartbeat(), time.Duration(s.cfg.Federation.ClaimAheadSeconds)*time.Second
	u.Plan, u.Admit, u.Summary = s.Loop.Plan, s.admitGranted, s.summary
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
	u.DialServer, u.Answer = s.dialHub, s.answerHub
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

// recordMode writes whether the hub answers, so that every server of the cluster can say so. It reads the mode inside the
// change, so the last writer writes the mode of that moment.
func (s *Server) recordMode() {
	ctx, cancel := context.WithTimeout(context.Background(), hubTimeout)
	defer cancel()
	if m, err := s.Store.Membership(ctx); err != nil || m == nil {
		return // the cluster may have left meanwhile
	}
	_, err := s.Store.UpdateMembership(ctx, func(m *store.Membership) error {
		if m.Name != "" {
			mode, _, _ := s.Uplink.Mode()
			m.Mode = string(mode)
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

// admitGranted rejects a job of the hub that this cluster would not accept. A tenant of the hub that this cluster does not
// know is created: its limits are the hub's.
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

// clusterIdentity reads the key and certificate of this cluster.
func (s *Server) clusterIdentity(ctx context.Context) (*pki.ClusterIdentity, error) {
	kept, err := s.Store.ClusterKey(ctx)
	if err != nil {
		return nil, err
	}
	if kept == nil || len(kept.Certificate) == 0 {
		return nil, errNoHub()
	}
	key, err := s.openClusterKey(kept)
	if err != nil {
		return nil, err
	}
	return pki.NewClusterIdentity(key, kept.Certificate, kept.Authority)
}

// keyLabel is bound to the sealed key of a cluster, so that no other sealed key can take its place.
var keyLabel = []byte("key of a cluster of a federation")

func (s *Server) openClusterKey(kept *store.ClusterKey) (*ecdsa.PrivateKey, error) {
	secret, err := s.cfg.PKI.secret()
	if err != nil {
		return nil, err
	}
	return pki.OpenKey(kept.Key, kept.Salt, secret, keyLabel)
}

// dialHub connects to a server of the hub as this cluster.
func (s *Server) dialHub(ctx context.Context, addr string) (*grpc.ClientConn, error) {
	id, err := s.clusterIdentity(ctx)
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.After(id.Certificate.NotAfter) {
		return nil, ares.Errorf(ares.Unauthentic, "the certificate of this cluster expired at %s: register it again at the hub with `ares cluster register`, and run `ares join` again", id.Certificate.NotAfter.Format(time.RFC3339))
	}
	return grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(id.TLS())),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}))
}

// membership implements service.Federation.Membership.
func (s *Server) membership(ctx context.Context) (*apipb.Membership, error) {
	m, err := s.Store.Membership(ctx)
	if err != nil || m == nil {
		return nil, err
	}
	out := &apipb.Membership{Name: m.Name, Hub: strings.Split(m.HubURL, ","), HubStoreId: m.HubStore, Mode: m.Mode}
	if id, err := s.clusterIdentity(ctx); err == nil {
		out.CertificateExpiresAt = apipb.Timestamp(id.Certificate.NotAfter)
	}
	return out, nil
}

// joinHub implements service.Federation.Join. The key is stored before the token is used, so that a repeated join can use the
// same key after its answer was lost.
func (s *Server) joinHub(ctx context.Context, req *apipb.JoinHubRequest) (*apipb.Membership, error) {
	token, err := pki.ParseClusterToken(req.GetToken())
	if err != nil {
		return nil, err
	}
	for _, addr := range req.GetHub() {
		if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || port == "" || strings.Contains(addr, ",") {
			return nil, ares.Errorf(ares.Invalid, "hub: %q is not an address: write the gRPC address of the hub as hub.example.com:9090", ares.Clip(addr)).At("hub")
		}
	}
	kept, err := s.joinKey(ctx, token)
	if err != nil {
		return nil, err
	}
	resp, err := s.callJoin(ctx, req, token, kept)
	if err != nil {
		return nil, err
	}
	kept.Certificate, kept.Authority = resp.GetCertificate(), resp.GetAuthority()
	if err = s.Store.PutClusterKey(ctx, *kept); err != nil {
		return nil, err
	}
	_, err = s.Store.UpdateMembership(ctx, func(m *store.Membership) error {
		if m.HubStore != resp.GetStoreId() {
			*m = store.Membership{Revision: m.Revision, At: time.Now()}
		}
		m.Name, m.HubStore, m.HubURL = resp.GetName(), resp.GetStoreId(), strings.Join(req.GetHub(), ",")
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.log.Info("this cluster has joined a hub", "cluster", resp.GetName(), "hub", req.GetHub())
	return s.membership(ctx)
}

// joinKey returns the key with which this cluster joins. A member of another hub must leave it first.
func (s *Server) joinKey(ctx context.Context, token pki.ClusterToken) (*store.ClusterKey, error) {
	m, err := s.Store.Membership(ctx)
	if err != nil {
		return nil, err
	}
	kept, err := s.Store.ClusterKey(ctx)
	if err != nil {
		return nil, err
	}
	if m != nil && kept != nil {
		authority, err := x509.ParseCertificate(kept.Authority)
		if err != nil || pki.HashOf(authority) != token.Authority || m.Name != token.Cluster {
			return nil, ares.Errorf(ares.Conflict, "this cluster is already the member %s of the hub at %s: leave it first with `ares cluster leave`", m.Name, m.HubURL)
		}
	}
	if kept != nil {
		if _, err = s.openClusterKey(kept); err != nil {
			return nil, err
		}
		return kept, nil
	}
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	secret, err := s.cfg.PKI.secret()
	if err != nil {
		return nil, err
	}
	kept = &store.ClusterKey{}
	if kept.Key, kept.Salt, err = pki.SealKey(key, secret, keyLabel); err != nil {
		return nil, err
	}
	return kept, s.Store.PutClusterKey(ctx, *kept)
}

// callJoin exchanges the token for a certificate at the first server of the hub that answers.
func (s *Server) callJoin(ctx context.Context, req *apipb.JoinHubRequest, token pki.ClusterToken, kept *store.ClusterKey) (*apipb.JoinClusterResponse, error) {
	key, err := s.openClusterKey(kept)
	if err != nil {
		return nil, err
	}
	request, err := pki.Request(key)
	if err != nil {
		return nil, err
	}
	id, _, err := s.Store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	ask := &apipb.JoinClusterRequest{
		Token: token.String(), Request: request, StoreId: id.Store, Version: Version,
		FederatedTenants: slices.Sorted(slices.Values(req.GetFederatedTenants())), LocalTenants: slices.Sorted(slices.Values(req.GetLocalTenants())),
	}
	for _, t := range s.View.Tenants() {
		ask.Tenants = append(ask.Tenants, t.ID)
	}
	for _, id := range slices.Concat(ask.FederatedTenants, ask.LocalTenants) {
		if s.View.Tenant(id) == nil {
			return nil, ares.Errorf(ares.Invalid, "this cluster has no tenant %q: list its tenants with `ares tenant list`", ares.Clip(id)).At("federated_tenants")
		}
		if slices.Contains(ask.FederatedTenants, id) && slices.Contains(ask.LocalTenants, id) {
			return nil, ares.Errorf(ares.Invalid, "tenant %s cannot be both federated and local: choose one", id).At("local_tenants")
		}
	}
	var failed error
	for _, addr := range req.GetHub() {
		resp, err := joinAt(ctx, addr, token, ask)
		if err == nil {
			_, err = pki.NewClusterIdentity(key, resp.GetCertificate(), resp.GetAuthority())
			return resp, err
		}
		failed = err
		if code := ares.CodeOf(err); code != ares.Unavailable && code != ares.Exhausted {
			return nil, err
		}
	}
	return nil, failed
}

// joinAt asks one server of the hub. The server is verified by the hash in the token before the token is sent.
func joinAt(ctx context.Context, addr string, token pki.ClusterToken, ask *apipb.JoinClusterRequest) (*apipb.JoinClusterResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	trust := pki.PinnedTLS(token.Authority, host, time.Now)
	if err = checkHub(ctx, addr, trust); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(credentials.NewTLS(trust)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	resp, err := apipb.NewClustersServiceClient(conn).JoinCluster(ctx, ask)
	if err != nil {
		return nil, apipb.FromStatus(err)
	}
	authority, err := x509.ParseCertificate(resp.GetAuthority())
	if err != nil || pki.HashOf(authority) != token.Authority {
		return nil, ares.Errorf(ares.Unauthentic, "the CA certificate of the hub does not match the join token: check that the token is for this hub and that nobody intercepts the connection")
	}
	return resp, nil
}

// checkHub reports why no verified connection to a server of the hub is possible.
func checkHub(ctx context.Context, addr string, trust *tls.Config) error {
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", addr)
	if err == nil {
		return conn.Close()
	}
	if own, ok := errors.AsType[*ares.Error](err); ok {
		return own
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
		return ares.Errorf(ares.FeatureDisabled, "the hub does not use TLS at %s: set its grpc_addr to an address of the network, and advertise_addr to where clusters reach it", addr)
	}
	return ares.Errorf(ares.Unavailable, "the hub does not answer at %s: %s", addr, err)
}

// leaveHub implements service.Federation.Leave. A hub that says that this cluster is no member has let it go before.
func (s *Server) leaveHub(ctx context.Context) error {
	m, err := s.Store.Membership(ctx)
	if err != nil {
		return err
	}
	if m == nil {
		return errNoHub()
	}
	err = s.callHub(ctx, m, func(ctx context.Context, calls apipb.ClustersServiceClient) error {
		_, err := calls.EndMembership(ctx, &apipb.EndMembershipRequest{})
		return err
	})
	if err != nil && ares.CodeOf(err) != ares.Unauthentic && ares.CodeOf(err) != ares.NotFound {
		return err
	}
	if err = s.Store.DeleteMembership(ctx); err != nil {
		return err
	}
	return s.Store.DeleteClusterKey(ctx)
}

// callHub makes one call to the first server of the hub that answers.
func (s *Server) callHub(ctx context.Context, m *store.Membership, call func(context.Context, apipb.ClustersServiceClient) error) error {
	failed := fmt.Errorf("the hub has no address")
	for addr := range strings.SplitSeq(m.HubURL, ",") {
		conn, err := s.dialHub(ctx, addr)
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, hubTimeout)
		err = call(within, apipb.NewClustersServiceClient(conn))
		cancel()
		_ = conn.Close() // no call is in progress
		if err == nil {
			return nil
		}
		if failed = apipb.FromStatus(err); ares.CodeOf(failed) != ares.Unavailable {
			return failed
		}
	}
	return failed
}

// renewCheck is the longest time between two looks at the cluster's certificate.
const renewCheck = time.Minute

// renewClusterCertificate renews the certificate of this cluster before it expires. The next connection to the hub uses the new
// one.
func (s *Server) renewClusterCertificate(ctx context.Context) {
	tick := time.NewTicker(min(renewCheck, s.cfg.Federation.certLife()/12))
	defer tick.Stop()
	for {
		if err := s.renewIfDue(ctx, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("the certificate of this cluster could not be renewed yet", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Server) renewIfDue(ctx context.Context, now time.Time) error {
	id, err := s.clusterIdentity(ctx)
	if err != nil || now.Before(pki.RenewAt(id.Certificate)) {
		return err
	}
	m, err := s.Store.Membership(ctx)
	if err != nil || m == nil {
		return err
	}
	request, err := pki.Request(id.Key)
	if err != nil {
		return err
	}
	var resp *apipb.RenewClusterCertificateResponse
	err = s.callHub(ctx, m, func(ctx context.Context, calls apipb.ClustersServiceClient) (err error) {
		resp, err = calls.RenewClusterCertificate(ctx, &apipb.RenewClusterCertificateRequest{Request: request})
		return err
	})
	if err != nil {
		return err
	}
	if _, err = pki.NewClusterIdentity(id.Key, resp.GetCertificate(), resp.GetAuthority()); err != nil {
		return err
	}
	kept, err := s.Store.ClusterKey(ctx)
	if err != nil || kept == nil {
		return err
	}
	kept.Certificate, kept.Authority = resp.GetCertificate(), resp.GetAuthority()
	if err = s.Store.PutClusterKey(ctx, *kept); err == nil {
		s.log.Info("the certificate of this cluster was renewed")
	}
	return err
}
