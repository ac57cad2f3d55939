package api

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

// revokedWithin is how often a server reads the revocations: by then, and the
// time the store takes to answer, a revoked certificate has ended everywhere.
const revokedWithin = 2 * time.Second

// staleAfter is how long the revocations that were read are believed while the
// store does not answer.
const staleAfter = 5 * time.Minute

// presented is the certificate of a connection, nil without one. TLS has
// verified that it is of our authority and that the other side has its key.
func presented(ctx context.Context) *x509.Certificate {
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

// certifiedAt is the store's revision at which the certificate of a call was
// issued, 0 for a caller that did not come by one.
func certifiedAt(ctx context.Context) (int64, error) {
	leaf := presented(ctx)
	if leaf == nil || identityOf(ctx).Kind != ares.ByCert {
		return 0, nil
	}
	_, revision, err := pki.NodeOf(leaf)
	return revision, err
}

// admitsAgent refuses agents on other machines that come with the node token,
// which all share and which speaks for any node.
func (t *Trust) admitsAgent(ctx context.Context, who *ares.Identity) error {
	if t.AllowNodeToken || who.Node != "" || onThisMachine(ctx) {
		return nil
	}
	return ares.Errorf(ares.Forbidden, "the node token is for this machine alone: let the node join by a token of its own (`ares node token create`), or set pki.allow_node_token")
}

// onThisMachine says whether a call comes from the machine it is served on: over
// the loopback, or from the very address that it came to.
func onThisMachine(ctx context.Context) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return true // within the process
	}
	from, ok := p.Addr.(*net.TCPAddr)
	if !ok {
		return true // neither TCP nor beyond the machine
	}
	to, ok := p.LocalAddr.(*net.TCPAddr)
	return from.IP.IsLoopback() || ok && from.IP.Equal(to.IP)
}

// Trust is by what certificates are issued and judged.
type Trust struct {
	Authority *pki.Authority
	Store     *store.Store
	// NodeLife is how long the certificate of a node is good.
	NodeLife time.Duration
	// AllowNodeToken lets agents on other machines in by the node token.
	AllowNodeToken bool
	// Serving is what this server shows, nil where it has no TLS; Given whether
	// that is a file of its owner's.
	Serving *pki.Serving
	Given   bool
	Now     func() time.Time

	loading sync.Mutex // so that what is read later counts
	known   atomic.Pointer[revoked]
}

// revoked is the revocations as they were read.
type revoked struct {
	at    map[string]int64 // revision by node
	read  time.Time
	after chan struct{} // closed when they are others
}

// Load reads the revocations. Before the first time no certificate is good.
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
	for node, rev := range next.at { // order-free: any
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

// Run keeps the revocations known until ctx ends.
func (t *Trust) Run(ctx context.Context) error {
	tick := time.NewTicker(revokedWithin)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			// The store's absence is told elsewhere; here what is known grows old.
			_ = t.Load(ctx)
		}
	}
}

func (t *Trust) changed() <-chan struct{} {
	if known := t.known.Load(); known != nil {
		return known.after
	}
	return nil
}

// identify says whom a certificate speaks for, if it is still good.
func (t *Trust) identify(_ context.Context, leaf *x509.Certificate) (ares.Identity, error) {
	node, revision, err := pki.NodeOf(leaf)
	if err != nil {
		return ares.Identity{}, err
	}
	known, now := t.known.Load(), t.Now()
	switch {
	case known == nil || now.Sub(known.read) > staleAfter:
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the certificate cannot be checked: the store does not answer; try again")
	case now.After(leaf.NotAfter):
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "the certificate of node %s ended at %s: connect again with the renewed one, or join again", node, leaf.NotAfter.Format(time.RFC3339))
	case revision < known.at[node]:
		return ares.Identity{}, store.Revoked(node)
	}
	return ares.Identity{
		Name: "node:" + node, Kind: ares.ByCert, Bindings: []ares.Binding{{Role: ares.AgentRole}}, Until: leaf.NotAfter, Node: node,
	}, nil
}
