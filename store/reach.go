package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	ares "github.com/ares-scheduler/ares"
)

// probeWithin bounds one look at one endpoint.
const probeWithin = 2 * time.Second

// maxProbed is how many endpoints are looked at.
const maxProbed = 5

// reach asks the store something. The error is the client's own.
func (s *Store) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	_, err := s.client.Get(ctx, planKey)
	s.observe("get", time.Since(start), err)
	return err
}

// unreachable says why the external etcd could not be used at the start. The
// client knows only that the time was up, so each endpoint is looked at; what it
// said comes last.
func (s *Store) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return storeError("reach the store", err)
	}
	if why := refused(err, s.cfg.Username); why != "" {
		return fmt.Errorf("%w (%w)", ares.Errorf(ares.Unavailable, "etcd at %s: %s", strings.Join(s.cfg.Endpoints, ", "), why), err)
	}
	var found []string
	for _, endpoint := range s.cfg.Endpoints[:min(len(s.cfg.Endpoints), maxProbed)] {
		found = append(found, endpoint+": "+s.probe(ctx, endpoint))
	}
	if more := len(s.cfg.Endpoints) - maxProbed; more > 0 {
		found = append(found, fmt.Sprintf("and %d more were not looked at", more))
	}
	return fmt.Errorf("%w (%w)", ares.Errorf(ares.Unavailable, "etcd did not answer within %v: %s", s.timeout, strings.Join(found, "; ")), err)
}

// refused says what etcd itself has against who asks, "" for nothing.
func refused(err error, user string) string {
	for _, text := range []struct {
		err error
		why string
	}{
		{rpctypes.ErrAuthFailed, fmt.Sprintf("it refuses user %q or the password: see etcd.username and etcd.password (ARES_ETCD_PASSWORD)", user)},
		{rpctypes.ErrUserEmpty, "it asks for a user: set etcd.username and etcd.password (ARES_ETCD_PASSWORD)"},
		{rpctypes.ErrPermissionDenied, fmt.Sprintf("user %q may not read and write there: grant it a role with readwrite on all keys (etcdctl role grant-permission ROLE readwrite --prefix '')", user)},
	} {
		if errors.Is(err, text.err) {
			return text.why
		}
	}
	return ""
}

// probe looks at one endpoint: whether somebody listens, and whether both sides
// mean TLS.
func (s *Store) probe(ctx context.Context, endpoint string) string {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	scheme, addr, named := strings.Cut(endpoint, "://")
	if !named {
		addr = endpoint
	}
	secure := scheme == "https" || !named && s.cfg.TLS != nil // as the client takes it
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "it is not an address: write it as https://etcd-1:2379"
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return dialWords(err)
	}
	defer conn.Close()
	cfg := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // nothing is sent: it only shows whether it speaks TLS
	if secure && s.cfg.TLS != nil {
		cfg = s.cfg.TLS.Clone()
	} else if secure {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if cfg.ServerName == "" {
		cfg.ServerName = host
	}
	over := tls.Client(conn, cfg)
	err = over.HandshakeContext(ctx)
	switch {
	case !secure:
		return plainWords(err)
	case err != nil:
		return tlsWords(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(probeWithin / 4)) // it would tell of a missing certificate now
	_, err = over.Read(make([]byte, 1))
	return agreedWords(err)
}

func dialWords(err error) string {
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused: see that etcd runs there, and etcd.endpoints (ETCD_ENDPOINTS)"
	case errors.As(err, &name):
		return "its name is not known: see etcd.endpoints (ETCD_ENDPOINTS)"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "nothing answers there: see the address, and firewalls between"
	}
	return err.Error()
}

// silent is what is said of an endpoint with which nothing seems wrong.
const silent = "it takes connections and does not answer: see that its members are well and have a leader (etcdctl endpoint health)"

// plainWords tells of an endpoint without TLS from a handshake that was tried.
func plainWords(err error) string {
	if err != nil && !strings.Contains(err.Error(), "remote error: tls") {
		return silent
	}
	return "it speaks TLS: write https://, and set etcd.ca_file (and cert_file and key_file where it asks for them)"
}

// tlsWords tells of an endpoint with TLS from a handshake that failed.
func tlsWords(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var old x509.CertificateInvalidError
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case plain || hungUp(err): // etcd does on what it does not understand
		return "it does not speak TLS: write http://, and leave etcd.ca_file, cert_file and key_file out"
	case errors.As(err, &unknown):
		return "its certificate is by an authority that is not trusted: set etcd.ca_file to that authority's"
	case errors.As(err, &wrong):
		return "its certificate is for another name: " + wrong.Error()
	case errors.As(err, &old):
		return "its certificate is not good: " + old.Error()
	}
	return agreedWords(err)
}

// agreedWords tells of an endpoint from what came after the handshake: with TLS 1.3
// our side of it is over before the other has seen our certificate.
func agreedWords(err error) string {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "remote error: tls"):
		return "it refuses our certificate, or asks for one (" + err.Error() + "): set etcd.cert_file and key_file to one of its authority"
	case hungUp(err):
		return "it speaks TLS and hangs up at once: if it asks for a certificate, set etcd.cert_file and key_file to one of its authority; if it is a proxy, see that there is an etcd behind it"
	}
	return silent
}

// hungUp says whether the other side ended the connection without a word.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
