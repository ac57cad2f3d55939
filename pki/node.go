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
)

// Node is a node's own side: the key that it has made and never sends, the
// certificate it was given for it, and the authority it knows servers by. All
// are in files of one directory, for their owner alone. It is safe for
// concurrent use.
type Node struct {
	Name string
	dir  string
	key  *ecdsa.PrivateKey
	now  func() time.Time

	mu        sync.RWMutex
	cert      *tls.Certificate // nil before it has joined
	authority *x509.Certificate
}

// OpenNode reads what a node has, and makes its key where it has none.
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
		return nil, fmt.Errorf("%w (delete it and join again with --join)", err)
	}
	authority, err := ReadCertificate(filepath.Join(dir, AuthorityFile))
	if err != nil {
		return nil, fmt.Errorf("%w (delete %s and join again with --join)", err, filepath.Join(dir, nodeName+".crt"))
	}
	if err = n.check(leaf); err != nil {
		return nil, err
	}
	n.cert, n.authority = chain(leaf, authority.Raw, key), authority
	return n, nil
}

// check refuses a certificate that is another node's or of another key.
func (n *Node) check(leaf *x509.Certificate) error {
	node, _, err := NodeOf(leaf)
	if err != nil {
		return err
	}
	if node != n.Name {
		return ares.Errorf(ares.Invalid, "the certificate in %s is that of node %s, not of %s: start the agent with --node %s, or give %s a state directory of its own", n.dir, node, n.Name, node, n.Name)
	}
	if own, ok := leaf.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !own.Equal(n.key.Public()) {
		return ares.Errorf(ares.Invalid, "the certificate in %s is not of the key beside it: delete it and join again with --join", n.dir)
	}
	return nil
}

// Joined says whether the node has a certificate that is still good.
func (n *Node) Joined() bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.cert != nil && n.now().Before(n.cert.Leaf.NotAfter)
}

// Lacks says why a node that is not joined is not.
func (n *Node) Lacks() error {
	n.mu.RLock()
	defer n.mu.RUnlock()
	make := fmt.Sprintf("make a token with `ares node token create --node %s` and start the agent with --join", n.Name)
	if n.cert == nil {
		return ares.Errorf(ares.Unauthentic, "node %s has not joined: %s", n.Name, make)
	}
	return ares.Errorf(ares.Unauthentic, "the certificate of node %s ended at %s, before it was renewed: %s", n.Name, n.cert.Leaf.NotAfter.Format(time.RFC3339), make)
}

// RenewAt is when the certificate is to be renewed, Ends when it is not good
// any more.
func (n *Node) RenewAt() time.Time {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return RenewAt(n.cert.Leaf)
}

// Ends is until when the certificate is good.
func (n *Node) Ends() time.Time {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.cert.Leaf.NotAfter
}

// Request asks for a certificate of the node's key.
func (n *Node) Request() ([]byte, error) { return Request(n.key) }

// Take keeps a certificate that was given, and the authority that signed it.
func (n *Node) Take(certificate, authority []byte) error {
	leaf, err := x509.ParseCertificate(certificate)
	if err != nil {
		return fmt.Errorf("read the certificate that was given: %w", err)
	}
	signer, err := x509.ParseCertificate(authority)
	if err != nil {
		return fmt.Errorf("read the authority that was given: %w", err)
	}
	if err = leaf.CheckSignatureFrom(signer); err != nil {
		return fmt.Errorf("the certificate that was given is not of its authority: %w", err)
	}
	if err = n.check(leaf); err != nil {
		return err
	}
	// The certificate last: it is what says that there is the rest.
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

// How long a node waits between two looks at the clock, which may be set, and
// between two tries to renew.
const (
	lookAtMost = time.Minute
	tryAgain   = time.Second
)

// Renew waits until the certificate is due, asks for the next until it has it,
// and keeps it. A fleet that joined at once does not come back at once. It ends
// with an error when ctx does or ask is refused.
func (n *Node) Renew(ctx context.Context, ask func(ctx context.Context, request []byte) (certificate, authority []byte, err error)) error {
	left := n.Ends().Sub(n.RenewAt())
	due := n.RenewAt().Add(rand.N(left/8 + 1))
	for wait := due.Sub(n.now()); wait > 0; wait = due.Sub(n.now()) {
		if err := pause(ctx, min(wait, lookAtMost)); err != nil {
			return err
		}
	}
	for again := tryAgain; ; again = min(2*again, left/10+tryAgain) {
		request, err := n.Request()
		if err != nil {
			return err
		}
		certificate, authority, err := ask(ctx, request)
		if err == nil {
			return n.Take(certificate, authority)
		}
		if code := ares.CodeOf(err); code == ares.Unauthentic || code == ares.Forbidden || !n.Joined() {
			return err
		}
		if err = pause(ctx, again); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Client is how the node speaks to servers: with its certificate, and to those
// alone that are certified by its authority, or as trust says where it is given.
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
		out.RootCAs = x509.NewCertPool() // nobody yet
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
