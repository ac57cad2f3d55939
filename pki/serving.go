package pki

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Serving is the certificate that a server presents. If the authority issued the certificate, it is stored in a
// directory and renewed automatically. If the operator supplied the certificate as files, it is read again when the
// files change.
type Serving struct {
	log    *slog.Logger
	renew  func() (*tls.Certificate, error) // returns the next certificate, or nil if nothing changed
	mu     sync.RWMutex
	shown  *tls.Certificate
	failed string // the last logged failure
}

// lookEvery is the interval at which a server checks whether its certificate is due for renewal or was replaced.
const lookEvery = time.Minute

// IssueServing returns a server certificate that the authority issues for the server's hosts. The certificate and its
// key are stored in the directory `dir` between restarts.
func IssueServing(a *Authority, dir string, hosts []string, log *slog.Logger) (*Serving, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for certificates: %w", err)
	}
	key, err := keyFile(filepath.Join(dir, serverName+".key"))
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, serverName+".crt")
	s := &Serving{log: log}
	if cert, err := ReadCertificate(path); err == nil && a.isUsable(cert, key, hosts) {
		s.shown = chain(cert, a.Certificate.Raw, key)
	}
	s.renew = func() (*tls.Certificate, error) {
		if s.shown != nil && time.Now().Before(RenewAt(s.shown.Leaf)) {
			return nil, nil
		}
		der, err := a.IssueServer(key.Public(), hosts, time.Now())
		if err != nil {
			return nil, err
		}
		if err = replace(path, encodeCertificate(der), 0o644); err != nil {
			return nil, err
		}
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("read a certificate: %w", err)
		}
		return chain(leaf, a.Certificate.Raw, key), nil
	}
	return s, s.reload()
}

// LoadServing returns a certificate from files that another program keeps up to date.
func LoadServing(certFile, keyFile string, log *slog.Logger) (*Serving, error) {
	s := &Serving{log: log}
	var seen [2]time.Time
	s.renew = func() (*tls.Certificate, error) {
		var now [2]time.Time
		for i, path := range []string{certFile, keyFile} {
			info, err := os.Stat(path)
			if err != nil {
				return nil, fmt.Errorf("read the TLS certificate: %w", err)
			}
			now[i] = info.ModTime()
		}
		if s.shown != nil && now == seen {
			return nil, nil
		}
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("read the TLS certificate: %w", err)
		}
		seen = now
		return &pair, nil
	}
	return s, s.reload()
}

// isUsable reports whether a certificate from a file is still valid for the key and the hosts. The certificate may
// already be due for renewal.
func (a *Authority) isUsable(cert *x509.Certificate, key crypto.Signer, hosts []string) bool {
	own, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !own.Equal(key.Public()) || cert.CheckSignatureFrom(a.Certificate) != nil {
		return false
	}
	return !slices.ContainsFunc(hosts, func(h string) bool { return cert.VerifyHostname(h) != nil }) &&
		len(cert.DNSNames)+len(cert.IPAddresses) == len(hosts)
}

// Run renews the certificate until ctx ends. Run logs a failed renewal once and tries again. Renewal begins when a
// third of the lifetime is left, so there is time for many attempts.
func (s *Serving) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.reload(); err != nil && err.Error() != s.failed {
				s.failed = err.Error()
				s.log.Error("the server's certificate was not renewed", "error", err, "ends", s.Ends())
			}
		}
	}
}

func (s *Serving) reload() error {
	next, err := s.renew()
	if err != nil || next == nil {
		return err
	}
	s.mu.Lock()
	s.shown = next
	s.mu.Unlock()
	s.failed = ""
	s.log.Info("this server has a new certificate", "ends", next.Leaf.NotAfter)
	return nil
}

// Ends returns the time at which the certificate expires.
func (s *Serving) Ends() time.Time {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shown.Leaf.NotAfter
}

// Certificate implements tls.Config.GetCertificate.
func (s *Serving) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.shown, nil
}

// Hosts returns the names and addresses for a server's certificate. The result contains the configured names, the
// addresses of the server's listeners, the host name, and the loopback names. If a listener uses a wildcard address,
// Hosts includes all addresses of the machine.
func Hosts(given, listeners []string) ([]string, error) {
	out := []string{"localhost", "127.0.0.1", "::1"}
	if name, err := os.Hostname(); err == nil {
		out = append(out, name)
	}
	var errs []error
	for _, at := range append(slices.Clone(given), listeners...) {
		host := at
		if h, _, err := net.SplitHostPort(at); err == nil {
			host = h
		}
		ip := net.ParseIP(host)
		if host != "" && (ip == nil || !ip.IsUnspecified()) {
			out = append(out, host)
			continue
		}
		all, err := net.InterfaceAddrs()
		errs = append(errs, err)
		for _, a := range all {
			if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
				out = append(out, n.IP.String())
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), errors.Join(errs...)
}
