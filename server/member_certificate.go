package server

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

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
