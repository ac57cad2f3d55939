package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

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
	if err = s.Store.ClearLoans(ctx, true); err != nil {
		return err
	}
	if err = s.Store.DeleteMembership(ctx); err != nil {
		return err
	}
	return s.Store.DeleteClusterKey(ctx)
}
