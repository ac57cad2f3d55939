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

// probeWithin is the time limit for probing one endpoint.
const probeWithin = 2 * time.Second

// maxProbed is the maximum number of endpoints that are probed.
const maxProbed = 5

// checkReachable reads one key from etcd and returns the etcd client's error unchanged.
func (s *Store) checkReachable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	start := time.Now()
	_, err := s.client.Get(ctx, planKey)
	s.observe("get", time.Since(start), err)
	return err
}

// explainUnreachable explains why the external etcd could not be used at the start. The etcd client
// only reports a timeout, so explainUnreachable probes each endpoint. The client's own error comes
// last in the message.
func (s *Store) explainUnreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return storeError("reach the store", err)
	}
	if why := authProblem(err, s.cfg.Username); why != "" {
		return fmt.Errorf("%w (%w)", ares.Errorf(ares.Unavailable, "etcd at %s: %s", strings.Join(s.cfg.Endpoints, ", "), why), err)
	}
	var found []string
	for _, endpoint := range s.cfg.Endpoints[:min(len(s.cfg.Endpoints), maxProbed)] {
		found = append(found, endpoint+": "+s.probe(ctx, endpoint))
	}
	if more := len(s.cfg.Endpoints) - maxProbed; more > 0 {
		found = append(found, fmt.Sprintf("and %d more were not checked", more))
	}
	return fmt.Errorf("%w (%w)", ares.Errorf(ares.Unavailable, "etcd did not answer within %v: %s", s.timeout, strings.Join(found, "; ")), err)
}

// authProblem describes an authentication error from etcd. The function returns "" for
// any other error.
func authProblem(err error, user string) string {
	for _, text := range []struct {
		err error
		why string
	}{
		{rpctypes.ErrAuthFailed, fmt.Sprintf("it rejects user %q or the password: check etcd.username and etcd.password (ARES_ETCD_PASSWORD)", user)},
		{rpctypes.ErrUserEmpty, "it requires a user: set etcd.username and etcd.password (ARES_ETCD_PASSWORD)"},
		{rpctypes.ErrPermissionDenied, fmt.Sprintf("user %q may not read and write there: grant it a role with readwrite on all keys (etcdctl role grant-permission ROLE readwrite --prefix '')", user)},
	} {
		if errors.Is(err, text.err) {
			return text.why
		}
	}
	return ""
}

// This method checks whether one endpoint accepts connections. It also checks whether client and
// endpoint agree on the use of TLS.
func (s *Store) probe(ctx context.Context, endpoint string) string {
	ctx, cancel := context.WithTimeout(ctx, probeWithin)
	defer cancel()
	scheme, addr, named := strings.Cut(endpoint, "://")
	if !named {
		addr = endpoint
	}
	secure := scheme == "https" || !named && s.cfg.TLS != nil // same rule as in the client
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return "it is not an address: write it as https://etcd-1:2379"
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return dialProblem(err)
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
		return plaintextProblem(err)
	case err != nil:
		return tlsProblem(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(probeWithin / 4)) // a missing certificate would be reported within this time
	_, err = over.Read(make([]byte, 1))
	return postHandshakeProblem(err)
}

func dialProblem(err error) string {
	var name *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection was refused: check that etcd runs there, and etcd.endpoints (ETCD_ENDPOINTS)"
	case errors.As(err, &name):
		return "its host name is unknown: check etcd.endpoints (ETCD_ENDPOINTS)"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "nothing answers there: check the address and firewalls"
	}
	return err.Error()
}

// This is the message for an endpoint that does not answer and has no other
// visible problem.
const unresponsive = "it accepts connections but does not answer: check that its members are healthy and have a leader (etcdctl endpoint health)"

// plaintextProblem describes the problem of an endpoint that is configured without TLS. The
// parameter `err` is the result of a TLS handshake with that endpoint.
func plaintextProblem(err error) string {
	if err != nil && !strings.Contains(err.Error(), "remote error: tls") {
		return unresponsive
	}
	return "it speaks TLS: write https://, and set etcd.ca_file (and cert_file and key_file if it requires them)"
}

// tlsProblem describes why the TLS handshake with an endpoint failed.
func tlsProblem(err error) string {
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var old x509.CertificateInvalidError
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	switch {
	case plain || isClosedByPeer(err): // etcd closes the connection when it does not understand the input
		return "it does not speak TLS: write http://, and leave etcd.ca_file, cert_file and key_file out"
	case errors.As(err, &unknown):
		return "its certificate is signed by an unknown authority: set etcd.ca_file to that authority's certificate"
	case errors.As(err, &wrong):
		return "its certificate is for another name: " + wrong.Error()
	case errors.As(err, &old):
		return "its certificate is not valid: " + old.Error()
	}
	return postHandshakeProblem(err)
}

// postHandshakeProblem diagnoses an endpoint from its answer after the TLS handshake. With TLS 1.3,
// the client completes the handshake before the server has checked the client's certificate.
func postHandshakeProblem(err error) string {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "remote error: tls"):
		return "it rejects our certificate, or requires one (" + err.Error() + "): set etcd.cert_file and key_file to one of its authority"
	case isClosedByPeer(err):
		return "it speaks TLS and hangs up at once: if it requires a certificate, set etcd.cert_file and key_file to one of its authority; if it is a proxy, check that there is an etcd behind it"
	}
	return unresponsive
}

// isClosedByPeer reports whether the other side closed the connection without an answer.
func isClosedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}
