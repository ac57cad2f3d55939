package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
)

// errRenewed ends a session because the node has a new certificate, which the next connection uses.
var errRenewed = errors.New("the certificate was renewed")

// joinTimeout is the maximum time for one attempt to join through one server.
const joinTimeout = 10 * time.Second

// CertificateDir returns the directory where an agent with the given state directory stores its key and certificate.
func CertificateDir(dir string) string { return filepath.Join(dir, "pki") }

// ErrNotJoined means that an administrator must act, because the node was revoked, its certificate has expired, or its join token was
// rejected. While job processes may be alive on the node, the agent keeps running until they have ended.
var ErrNotJoined = errors.New("this node is not part of the cluster")

// noteRejection records that a server rejects the node's certificate.
func (a *Agent) noteRejection(err error) {
	if a.identity != nil && ares.CodeOf(err) == ares.Unauthentic {
		a.rejected = err
	}
}

// ensureCertificate joins the cluster if the node has no valid certificate.
func (a *Agent) ensureCertificate(ctx context.Context) error {
	if a.identity == nil || a.identity.Joined() && a.rejected == nil {
		return nil
	}
	if a.cfg.Join == "" {
		if a.rejected != nil {
			return fmt.Errorf("%w: %w", ErrNotJoined, a.rejected)
		}
		return fmt.Errorf("%w: %w", ErrNotJoined, a.identity.NotJoinedReason())
	}
	token, err := pki.ParseJoinToken(a.cfg.Join)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotJoined, err)
	}
	for _, server := range a.cfg.Servers {
		if err = a.join(ctx, server, token); err == nil {
			a.rejected = nil
			a.log.Info("this node has joined", "server", server, "certificate_ends", a.identity.Ends())
			return nil
		}
		err = fmt.Errorf("join at %s: %w", server, err)
		switch code := ares.CodeOf(err); {
		case code == ares.Unauthentic, code == ares.Forbidden, code == ares.Invalid, code.Rejects():
			if a.rejected != nil {
				return fmt.Errorf("%w: its certificate was rejected (%w), and its join token was rejected too (%w)", ErrNotJoined, a.rejected, err)
			}
			return fmt.Errorf("%w: %w", ErrNotJoined, err)
		}
	}
	return err
}

// The method `join` asks one server for a certificate.
func (a *Agent) join(ctx context.Context, server string, token pki.JoinToken) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return ares.Errorf(ares.Invalid, "%q is not a server address: it must have the form HOST:PORT", server)
	}
	trust := a.cfg.TLS
	if trust == nil {
		trust = pki.PinnedTLS(token.Authority, host, time.Now)
	}
	// Verify the server before the secret is sent. The server is verified in a separate step before the RPC. The reason for a failure
	// is then reported unchanged.
	if err = checkServer(ctx, server, trust); err != nil {
		return err
	}
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(credentials.NewTLS(trust)))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	request, err := a.identity.Request()
	if err != nil {
		return err
	}
	resp, err := apipb.NewTrustServiceClient(conn).JoinNode(ctx, &apipb.JoinNodeRequest{Token: token.String(), NodeId: a.cfg.Node, Request: request})
	if err != nil {
		return apipb.FromStatus(err)
	}
	authority, err := x509.ParseCertificate(resp.GetAuthority())
	if err != nil || pki.HashOf(authority) != token.Authority {
		return ares.Errorf(ares.Unauthentic, "the server's CA certificate does not match the join token: check that the token is for this cluster and that nobody intercepts the connection")
	}
	return a.identity.Store(resp.GetCertificate(), resp.GetAuthority())
}

func checkServer(ctx context.Context, server string, trust *tls.Config) error {
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", server)
	if err != nil {
		if own, ok := errors.AsType[*ares.Error](err); ok {
			return own
		}
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
			return ares.Errorf(ares.FeatureDisabled, "the server does not use TLS at this address: use the node token (--token-file) instead of a join token")
		}
		return ares.Errorf(ares.Unavailable, "%s", err)
	}
	return conn.Close()
}

// renewCertificate keeps the node's certificate valid during a session.
func (a *Agent) renewCertificate(ctx context.Context) error {
	err := a.identity.Renew(ctx, func(ctx context.Context, request []byte) (certificate, authority []byte, err error) {
		ctx, cancel := context.WithTimeout(ctx, joinTimeout)
		defer cancel()
		trust, err := a.link.trust()
		if err != nil {
			return nil, nil, err
		}
		resp, err := trust.RenewCertificate(ctx, &apipb.RenewCertificateRequest{Request: request})
		if err != nil {
			err = apipb.FromStatus(err)
			a.log.Warn("the certificate could not be renewed yet", "error", err, "ends", a.identity.Ends())
		}
		return resp.GetCertificate(), resp.GetAuthority(), err
	})
	if err != nil {
		return err
	}
	a.log.Info("the certificate was renewed", "ends", a.identity.Ends())
	return errRenewed
}
