package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/api"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// TLSDir in the data directory keeps the certificate of this server.
const TLSDir = "tls"

// establish finds the authority that the servers share, or makes it at the
// first start, and the certificate this server shows beyond the loopback.
func (s *Server) establish(ctx, run context.Context) error {
	authority, err := s.authority(ctx)
	if err != nil {
		return err
	}
	if err = pki.WriteAuthority(s.cfg.DataDir, authority.PEM()); err != nil {
		return err
	}
	given := []string{s.cfg.AdvertiseAddr}
	if s.cfg.AdvertiseAddr == "" {
		given = nil
	}
	if s.hosts, err = pki.Hosts(append(given, s.cfg.Hosts...), []string{s.Endpoints.HTTP, s.Endpoints.GRPC, s.Endpoints.Metrics}); err != nil {
		return fmt.Errorf("find the addresses of this machine: %w", err)
	}
	s.trust = &api.Trust{
		Authority: authority, Store: s.Store, NodeLife: s.cfg.PKI.nodeLife(), AllowNodeToken: s.cfg.PKI.AllowNodeToken,
		Given: s.cfg.TLS.CertFile != "", Now: time.Now,
	}
	if err = s.trust.Load(ctx); err != nil {
		return fmt.Errorf("read the revocations: %w", err)
	}
	s.part("trust", func() error { return s.trust.Run(run) })
	switch {
	case s.cfg.TLS.CertFile != "":
		s.trust.Serving, err = pki.Given(s.cfg.TLS.CertFile, s.cfg.TLS.KeyFile, s.log)
	case s.secure(s.Endpoints.HTTP) || s.secure(s.Endpoints.GRPC) || s.secure(s.Endpoints.Metrics):
		s.trust.Serving, err = pki.Issued(authority, filepath.Join(s.cfg.DataDir, TLSDir), s.hosts, s.log)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if s.secure(s.Endpoints.GRPC) && s.cfg.TLS.CertFile == "" {
		s.Endpoints.CA = pki.AuthorityFile
	}
	s.part("certificate", func() error { return s.trust.Serving.Run(run) })
	return nil
}

func (s *Server) authority(ctx context.Context) (*pki.Authority, error) {
	secret, err := s.cfg.PKI.secret()
	if err != nil {
		return nil, err
	}
	kept, err := s.Store.Authority(ctx, func() (store.Authority, error) {
		made, bad := pki.NewAuthority(time.Now())
		if bad != nil {
			return store.Authority{}, bad
		}
		sealed, bad := made.Seal(secret)
		return store.Authority(sealed), bad
	})
	if err != nil {
		return nil, fmt.Errorf("find the internal authority: %w", err)
	}
	return pki.Sealed(kept).Open(secret)
}

// secure says whether what is served at an address is served by TLS: all of it
// where a certificate was given, and else what is not on the loopback.
func (s *Server) secure(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err != nil || s.cfg.TLS.CertFile != "" || !isLoopback(host)
}

// URL is an address of this server with its scheme.
func (s *Server) URL(addr string) string {
	if s.secure(addr) {
		return "https://" + addr
	}
	return "http://" + addr
}

// tlsFor is how an address is served, nil for plaintext.
func (s *Server) tlsFor(addr string) *tls.Config {
	if !s.secure(addr) {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.trust.Serving.Certificate}
}

// doorTLS is tlsFor for gRPC, where nodes prove themselves by certificates.
func (s *Server) doorTLS() *tls.Config {
	config := s.tlsFor(s.Endpoints.GRPC)
	if config != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, s.trust.Authority.Pool()
	}
	return config
}

// peers is how this server talks to others of its kind: they may be certified by
// the authority that all share, or by others that are configured.
func (s *Server) peers() (func(addr string) *tls.Config, error) {
	pool, err := s.cfg.TLS.roots()
	if err != nil {
		return nil, err
	}
	pool.AddCert(s.trust.Authority.Certificate)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return func(addr string) *tls.Config {
		if !s.secure(addr) {
			return nil
		}
		return config
	}, nil
}

// roots are those that other servers are certified by.
func (c *TLSConfig) roots() (*x509.CertPool, error) {
	switch {
	case c.CAFile != "":
		return readCA(c.CAFile)
	case c.CertFile != "":
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's certificate authorities: %w", err)
		}
		return pool, nil
	}
	return x509.NewCertPool(), nil
}

// Local is an address of this server as it is reached from this machine.
func Local(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", port)
}
