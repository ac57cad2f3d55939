package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/loopback"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// TLSDir is the directory, inside the data directory, that holds this server's certificate.
const TLSDir = "tls"

// openAuthority reads the certificate authority that the servers share, or creates it at the first start. It also
// issues the certificate that this server uses on addresses other than loopback.
func (s *Server) openAuthority(ctx, run context.Context) error {
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
	s.trust = &pipeline.Trust{
		Authority: authority, Store: s.Store, NodeLife: s.cfg.PKI.nodeLife(), AllowNodeToken: s.cfg.PKI.AllowNodeToken,
		Given: s.cfg.TLS.CertFile != "", Hub: s.cfg.isHub(), Now: time.Now,
	}
	if err = s.trust.Load(ctx); err != nil {
		return fmt.Errorf("read the revocations: %w", err)
	}
	s.runPart("trust", func() error { return s.trust.Run(run) })
	switch {
	case s.cfg.TLS.CertFile != "":
		s.trust.Serving, err = pki.LoadServing(s.cfg.TLS.CertFile, s.cfg.TLS.KeyFile, s.log)
	case s.usesTLS(s.Endpoints.HTTP) || s.usesTLS(s.Endpoints.GRPC) || s.usesTLS(s.Endpoints.Metrics):
		s.trust.Serving, err = pki.IssueServing(authority, filepath.Join(s.cfg.DataDir, TLSDir), s.hosts, s.log)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	if s.usesTLS(s.Endpoints.GRPC) && s.cfg.TLS.CertFile == "" {
		s.Endpoints.CA = pki.AuthorityFile
	}
	s.runPart("certificate", func() error { return s.trust.Serving.Run(run) })
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
		return nil, fmt.Errorf("find the internal certificate authority: %w", err)
	}
	return pki.Sealed(kept).Open(secret)
}

// usesTLS reports whether an address is served with TLS. If a certificate is configured, every address is served with TLS. Without a
// configured certificate, TLS is used only for addresses that are not on loopback.
func (s *Server) usesTLS(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	return err != nil || s.cfg.TLS.CertFile != "" || !loopback.Host(host)
}

// URL returns the given address of this server as an http or https URL.
func (s *Server) URL(addr string) string {
	if s.usesTLS(addr) {
		return "https://" + addr
	}
	return "http://" + addr
}

// tlsFor returns the TLS configuration of an address, or nil for plaintext.
func (s *Server) tlsFor(addr string) *tls.Config {
	if !s.usesTLS(addr) {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: s.trust.Serving.Certificate}
}

// grpcTLS returns the TLS configuration of the gRPC listener, at which nodes authenticate with certificates.
func (s *Server) grpcTLS() *tls.Config {
	config := s.tlsFor(s.Endpoints.GRPC)
	if config != nil {
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, s.trust.Authority.Pool()
	}
	return config
}

// The method `peers` returns the TLS configuration with which this server verifies other servers. The configuration
// trusts the shared certificate authority and the configured authorities.
func (s *Server) peers() (func(addr string) *tls.Config, error) {
	pool, err := s.cfg.TLS.roots()
	if err != nil {
		return nil, err
	}
	pool.AddCert(s.trust.Authority.Certificate)
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	return func(addr string) *tls.Config {
		if !s.usesTLS(addr) {
			return nil
		}
		return config
	}, nil
}

// The method `roots` returns the certificate authorities that may have issued the certificates of other servers.
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

// Local returns an address at which programs on this machine reach this server.
func Local(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip := net.ParseIP(host); err != nil || host != "" && (ip == nil || !ip.IsUnspecified()) {
		return addr
	}
	return net.JoinHostPort("127.0.0.1", port)
}
