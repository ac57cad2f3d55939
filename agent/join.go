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

// errRenewed ends a session because the node has a new certificate: the next
// connection shows it.
var errRenewed = errors.New("the certificate was renewed")

// joinTimeout bounds one try to join at one server.
const joinTimeout = 10 * time.Second

// CertificateDir is where an agent with that state directory keeps its key and
// its certificate.
func CertificateDir(dir string) string { return filepath.Join(dir, "pki") }

// ErrNotJoined is that nothing but a person can help: the node was revoked, its
// certificate has ended, or its join token is refused. While processes may live
// here the agent stays to see them end.
var ErrNotJoined = errors.New("this node is not of the fleet")

// refused notes that a server does not take the node's certificate any more.
func (a *Agent) refused(err error) {
	if a.identity != nil && ares.CodeOf(err) == ares.Unauthentic {
		a.outcast = err
	}
}

// ensureCertificate joins the fleet where the node has no good certificate.
func (a *Agent) ensureCertificate(ctx context.Context) error {
	if a.identity == nil || a.identity.Joined() && a.outcast == nil {
		return nil
	}
	if a.cfg.Join == "" {
		if a.outcast != nil {
			return fmt.Errorf("%w: %w", ErrNotJoined, a.outcast)
		}
		return fmt.Errorf("%w: %w", ErrNotJoined, a.identity.Lacks())
	}
	token, err := pki.ParseJoinToken(a.cfg.Join)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotJoined, err)
	}
	for _, server := range a.cfg.Servers {
		if err = a.join(ctx, server, token); err == nil {
			a.outcast = nil
			a.log.Info("this node has joined", "server", server, "certificate_ends", a.identity.Ends())
			return nil
		}
		err = fmt.Errorf("join at %s: %w", server, err)
		switch ares.CodeOf(err) {
		case ares.Unauthentic, ares.Forbidden, ares.Invalid, ares.Refused:
			if a.outcast != nil {
				return fmt.Errorf("%w: %w; and its join token does not help: %w", ErrNotJoined, a.outcast, err)
			}
			return fmt.Errorf("%w: %w", ErrNotJoined, err)
		case ares.Unavailable, ares.Exhausted, ares.Internal, ares.NotFound, ares.Conflict, ares.Fenced, ares.TooLarge:
		}
	}
	return err
}

// join asks one server for a certificate.
func (a *Agent) join(ctx context.Context, server string, token pki.JoinToken) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return ares.Errorf(ares.Invalid, "%q is not an address: write it as host:port", server)
	}
	trust := a.cfg.TLS
	if trust == nil {
		trust = pki.Pinned(token.Authority, host, time.Now)
	}
	// Before the secret is sent, and so that the reason is told as it is.
	if err = shakeHands(ctx, server, trust); err != nil {
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
		return ares.Errorf(ares.Unauthentic, "the server's authority is not the one whose hash is in the join token: the token is of another fleet, or somebody is in between")
	}
	return a.identity.Take(resp.GetCertificate(), resp.GetAuthority())
}

func shakeHands(ctx context.Context, server string, trust *tls.Config) error {
	conn, err := (&tls.Dialer{Config: trust}).DialContext(ctx, "tcp", server)
	if err != nil {
		if own, ok := errors.AsType[*ares.Error](err); ok {
			return own
		}
		if _, plain := errors.AsType[tls.RecordHeaderError](err); plain {
			return ares.Errorf(ares.Refused, "the server speaks no TLS there: it listens on the loopback alone, where an agent needs no join token but the node token (--token-file)")
		}
		return ares.Errorf(ares.Unavailable, "%s", err)
	}
	return conn.Close()
}

// renewCertificate keeps the node's certificate good for the time of a session.
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
			a.log.Warn("the certificate was not renewed yet", "error", err, "ends", a.identity.Ends())
		}
		return resp.GetCertificate(), resp.GetAuthority(), err
	})
	if err != nil {
		return err
	}
	a.log.Info("the certificate was renewed", "ends", a.identity.Ends())
	return errRenewed
}
