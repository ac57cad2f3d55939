package pki

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pause"
)

// Node holds a node's key and certificate. It also holds the authority's certificate, with which the node verifies
// servers. The node's private key never leaves the machine. The key and both certificates are files in one directory,
// readable only by their owner. A Node is safe for concurrent use.
type Node struct {
	Name string
	dir  string
	key  *ecdsa.PrivateKey
	now  func() time.Time

	mu        sync.RWMutex
	cert      *tls.Certificate // nil before it has joined
	authority *x509.Certificate
}

// OpenNode reads the node's files, and creates the node's key if it does not exist.
func OpenNode(dir, name string, now func() time.Time) (*Node, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory for certificates: %w", err)
	}
	key, err := keyFile(filepath.Join(dir, nodeName+".key"))
	if err != nil {
		return nil, err
	}
	n := &Node{Name: name, dir: dir, key: key, now: now}
	leaf, err := ReadCertificate(filepath.Join(dir, nodeName+".crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w (delete this certificate file, and start the agent with --join)", err)
	}
	authority, err := ReadCertificate(filepath.Join(dir, AuthorityFile))
	if err != nil {
		return nil, fmt.Errorf("%w (delete the file %s, and start the agent with --join)", err, filepath.Join(dir, nodeName+".crt"))
	}
	if err = n.check(leaf); err != nil {
		return nil, err
	}
	n.cert, n.authority = chain(leaf, authority.Raw, key), authority
	return n, nil
}

// This method rejects a certificate that belongs to another node or another key.
func (n *Node) check(leaf *x509.Certificate) error {
	node, _, err := NodeOf(leaf)
	if err != nil {
		return err
	}
	if node != n.Name {
		return ares.Errorf(ares.Invalid, "the certificate in %s belongs to node %s, not to node %s: start the agent with --node %s, or use another state directory for node %s", n.dir, node, n.Name, node, n.Name)
	}
	if own, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(n.key.Public()) {
		return ares.Errorf(ares.Invalid, "the certificate and the key in %s do not belong together: delete the certificate file, and start the agent with --join", n.dir)
	}
	return nil
}

// Joined reports whether the node has a valid certificate.
func (n *Node) Joined() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.cert != nil && n.now().Before(n.cert.Leaf.NotAfter)
}

// NotJoinedReason returns the reason why the node has no valid certificate.
func (n *Node) NotJoinedReason() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	make := fmt.Sprintf("make a token with `ares node token create --node %s` and start the agent with --join", n.Name)
	if n.cert == nil {
		return ares.Errorf(ares.Unauthentic, "node %s has not joined: %s", n.Name, make)
	}
	return ares.Errorf(ares.Unauthentic, "the certificate of node %s expired at %s and was not renewed in time: %s", n.Name, n.cert.Leaf.NotAfter.Format(time.RFC3339), make)
}

// RenewAt returns the time at which the certificate should be renewed.
func (n *Node) RenewAt() time.Time {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return RenewAt(n.cert.Leaf)
}

// Ends returns the time at which the certificate expires.
func (n *Node) Ends() time.Time {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.cert.Leaf.NotAfter
}

// Request creates a certificate request for the node's key.
func (n *Node) Request() ([]byte, error) { return Request(n.key) }

// Store writes a new certificate and the certificate of the authority that signed it.
func (n *Node) Store(certificate, authority []byte) error {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return fmt.Errorf("read the certificate that the server issued: %w", err)
	}
	signer, err := x509.ParseCertificate(authority)
	if err != nil {
		return fmt.Errorf("read the CA certificate that the server sent: %w", err)
	}
	if err = leaf.CheckSignatureFrom(signer); err != nil {
		return fmt.Errorf("the issued certificate is not signed by the certificate authority that the server sent: %w", err)
	}
	if err = n.check(leaf); err != nil {
		return err
	}
	// Write the certificate last, because its presence means that the other files
	// are complete.
	err = WriteAuthority(n.dir, encodeCertificate(authority))
	if err == nil {
		err = replace(filepath.Join(n.dir, nodeName+".crt"), encodeCertificate(certificate), 0o600)
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cert, n.authority = chain(leaf, authority, n.key), signer
	return nil
}

// While a node waits for the renewal time, it reads the clock at least once every lookAtMost. An administrator may
// change the clock during that time. The constant tryAgain is the first pause between two attempts to renew the
// certificate.
const (
	lookAtMost = time.Minute
	tryAgain   = time.Second
)

// Renew waits until the certificate is due for renewal. It requests a new certificate until a request succeeds, and
// stores the new certificate. Renew adds jitter, so that nodes that joined together do not all renew at the same
// moment. Renew returns an error when ctx ends or the request is rejected.
func (n *Node) Renew(ctx context.Context, ask func(ctx context.Context, request []byte) (certificate, authority []byte, err error)) error {
	left := n.Ends().Sub(n.RenewAt())
	due := n.RenewAt().Add(rand.N(left/8 + 1))
	for wait := due.Sub(n.now()); wait > 0; wait = due.Sub(n.now()) {
		if !pause.For(ctx, min(wait, lookAtMost)) {
			return ctx.Err()
		}
	}
	for again := tryAgain; ; again = min(2*again, left/10+tryAgain) {
		request, err := n.Request()
		if err != nil {
			return err
		}
		certificate, authority, err := ask(ctx, request)
		if err == nil {
			return n.Store(certificate, authority)
		}
		if code := ares.CodeOf(err); code == ares.Unauthentic || code == ares.Forbidden || !n.Joined() {
			return err
		}
		if !pause.For(ctx, again) {
			return ctx.Err()
		}
	}
}

// Client returns the TLS configuration with which the node connects to servers. The node presents
// its certificate, and accepts only servers that its authority has certified. If the argument
// "trust" is not nil, servers are verified with that configuration instead.
func (n *Node) Client(trust *tls.Config) *tls.Config {
	n.mu.RLock()
	defer n.mu.RUnlock()
	out := &tls.Config{MinVersion: tls.VersionTLS13}
	switch {
	case trust != nil:
		out = trust.Clone()
	case n.authority != nil:
		out.RootCAs = x509.NewCertPool()
		out.RootCAs.AddCert(n.authority)
	default:
		out.RootCAs = x509.NewCertPool() // trusts no server yet
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		n.mu.RLock()
		defer n.mu.RUnlock()
		if n.cert == nil {
			return &tls.Certificate{}, nil
		}
		return n.cert, nil
	}
	return out
}
