package pipeline

import (
	"context"
	"crypto/x509"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// revokedWithin is the interval at which a server reads the list of revoked
// certificates from the store. After a revocation, every server rejects the
// certificate within this interval plus the store's response time.
const revokedWithin = 2 * time.Second

// If the store does not answer, a server continues to use the last revocations that it read, but no
// longer than StaleAfter.
const StaleAfter = 5 * time.Minute

// ClientCertificate returns the certificate of a connection, or nil if there is
// none. TLS has already verified that the cluster's authority issued the
// certificate and that the client has its private key.
func ClientCertificate(ctx context.Context) *x509.Certificate {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0]
}

// CertifiedAt returns the store's revision at which the call's certificate was
// issued, or 0 if the caller used no certificate.
func CertifiedAt(ctx context.Context) (int64, error) {
	leaf := ClientCertificate(ctx)
	if leaf == nil || IdentityOf(ctx).Kind != ares.ByCert {
		return 0, nil
	}
	_, revision, err := pki.NodeOf(leaf)
	return revision, err
}

// admitsAgent rejects an agent on another machine if the agent uses the node
// token. All agents share the node token, and it is valid for any node.
func (t *Trust) admitsAgent(ctx context.Context, who *ares.Identity) error {
	if t.AllowNodeToken || who.Node != "" || onThisMachine(ctx) {
		return nil
	}
	return ares.Errorf(ares.Forbidden, "the shared node token is valid only on the server's machine: use a join token (`ares node token create`), or set pki.allow_node_token")
}

// onThisMachine reports whether a call comes from the machine that this server
// runs on. A call from the same machine uses the loopback interface, or its
// source and destination addresses are equal.
func onThisMachine(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return true // a call within the process
	}
	from, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return true // the connection does not use TCP, so it is local
	}
	to, ok := p.LocalAddr.(*net.TCPAddr)
	return from.IP.IsLoopback() || ok && from.IP.Equal(to.IP)
}

// nodePrefix is the beginning of the name of a node that has authenticated with its certificate. No user can have such a name.
const nodePrefix = "node:"

// Trust issues and checks the certificates of nodes.
type Trust struct {
	Authority *pki.Authority
	Store     *store.Store
	// NodeLife is how long a node's certificate is valid.
	NodeLife time.Duration
	// AllowNodeToken lets agents on other machines use the node token.
	AllowNodeToken bool
	// Serving is the certificate that this server presents, or nil without TLS. The field Given is
	// true if the operator supplied the server's certificate as a file.
	Serving *pki.Serving
	Given   bool
	Now     func() time.Time

	loading sync.Mutex // so that the latest read wins
	known   atomic.Pointer[revoked]
}

// The type `revoked` holds the revocations that the server read most recently.
type revoked struct {
	at    map[string]int64 // store revision of the revocation, by node
	read  time.Time
	after chan struct{} // closed when the revocations have changed
}

// Load reads the revocations from the store. Until Load has succeeded once, the
// server accepts no client certificate.
func (t *Trust) Load(ctx context.Context) error {
	t.loading.Lock()
	defer t.loading.Unlock()
	list, err := t.Store.Revocations(ctx)
	if err != nil {
		return err
	}
	next := &revoked{at: map[string]int64{}, read: t.Now(), after: make(chan struct{})}
	for _, r := range list {
		next.at[r.Node] = r.Revision
	}
	was := t.known.Load()
	if was == nil {
		t.known.Store(next)
		return nil
	}
	newer := false
	for node, rev := range next.at { // order-free: any change counts
		newer = newer || was.at[node] < rev
	}
	if !newer {
		next.after = was.after
	}
	t.known.Store(next)
	if newer {
		close(was.after)
	}
	return nil
}

// Run reads the revocations periodically until ctx ends.
func (t *Trust) Run(ctx context.Context) error {
	tick := time.NewTicker(revokedWithin)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// Ignore the error, because another part of the server reports an
			// unavailable store. If the store does not answer, Trust keeps using the
			// revocations that it read before.
			_ = t.Load(ctx)
		}
	}
}

func (t *Trust) Changed() <-chan struct{} {
	if known := t.known.Load(); known != nil {
		return known.after
	}
	return nil
}

// Identify returns the identity in a certificate if the certificate is still
// valid.
func (t *Trust) Identify(_ context.Context, leaf *x509.Certificate) (ares.Identity, error) {
	node, revision, err := pki.NodeOf(leaf)
	if err != nil {
		return ares.Identity{}, err
	}
	known, now := t.known.Load(), t.Now()
	switch {
	case known == nil || now.Sub(known.read) > StaleAfter:
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the certificate cannot be checked, because the store does not respond: try again")
	case now.After(leaf.NotAfter):
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "the certificate of node %s expired at %s: connect again with the renewed certificate, or join again", node, leaf.NotAfter.Format(time.RFC3339))
	case revision < known.at[node]:
		return ares.Identity{}, store.Revoked(node)
	}
	return ares.Identity{
		Name: nodePrefix + node, Kind: ares.ByCert, Bindings: []ares.Binding{{Role: ares.AgentRole}}, Until: leaf.NotAfter, Node: node,
	}, nil
}

// Revoke revokes a node's certificates. This server rejects the revoked
// certificates immediately, and other servers reject them when they next read
// the revocations.
func (t *Trust) Revoke(ctx context.Context, node, reason string) (store.Revocation, error) {
	now := WholeMicros(t.Now())
	r, err := t.Store.Revoke(ctx, store.Revocation{Node: node, By: CallerName(ctx), At: now, Reason: reason}, now.Add(-pki.MaxNodeLife-pki.Backdate))
	if err == nil {
		err = t.Load(ctx)
	}
	return r, err
}
