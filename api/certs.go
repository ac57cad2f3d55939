package api

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// revokedWithin is how often a server reads the revocations: by then, and the
// time the store takes to answer, a revoked certificate has ended everywhere.
const revokedWithin = 2 * time.Second

// certificate is what a caller proved by TLS.
type certificate struct {
	node     string
	revision int64 // of the store, when it was issued
	until    time.Time
}

type certificateKey struct{}

// certificateOf is the certificate by which the caller was identified.
func certificateOf(ctx context.Context) (certificate, bool) {
	c, ok := ctx.Value(certificateKey{}).(certificate)
	return c, ok
}

// identify finds out who makes a gRPC call: by the token it sent, or by the
// certificate of its connection where it sent none.
func (d *Doors) identify(ctx context.Context) (context.Context, error) {
	token := bearerOf(metadata.ValueFromIncomingContext(ctx, "authorization"))
	if c, ok := presented(ctx); ok && token == "" {
		if err := d.cfg.Trust.check(c); err != nil {
			return ctx, err
		}
		ctx = context.WithValue(ctx, certificateKey{}, c)
		return withIdentity(ctx, Identity{Name: "node:" + c.node, Role: RoleNode}), nil
	}
	who, err := d.cfg.Auth.Check(ctx, token)
	if err == nil && who.Role == RoleNode && !d.cfg.Trust.AllowNodeToken && !onThisMachine(ctx) {
		err = ares.Errorf(ares.Forbidden, "the node token is for this machine alone: let the node join by a token of its own (`ares node token create`), or set pki.allow_node_token")
	}
	if err != nil {
		return ctx, err
	}
	return withIdentity(ctx, who), nil
}

// recheckCaller says whether who was let in may stay.
func (d *Doors) recheckCaller(ctx context.Context, who Identity) error {
	if c, ok := certificateOf(ctx); ok {
		return d.cfg.Trust.check(c)
	}
	return d.cfg.Auth.Recheck(ctx, who)
}

// revocations is closed when a certificate may have been revoked.
func (d *Doors) revocations(ctx context.Context) <-chan struct{} {
	if _, ok := certificateOf(ctx); ok {
		return d.cfg.Trust.changed()
	}
	return nil
}

// presented is the node certificate of a connection. TLS has verified that it
// is of our authority and that the other side has its key.
func presented(ctx context.Context) (certificate, bool) {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return certificate{}, false
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return certificate{}, false
	}
	leaf := info.State.VerifiedChains[0][0]
	node, revision, err := pki.NodeOf(leaf)
	return certificate{node: node, revision: revision, until: leaf.NotAfter}, err == nil
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

// speaksFor refuses a node what it says in another's name. A message that does
// not say in whose name it is sent is refused, too.
func speaksFor(ctx context.Context, m any) error {
	c, ok := certificateOf(ctx)
	if !ok {
		return nil
	}
	node := ""
	switch m := m.(type) {
	case *apipb.RenewCertificateRequest:
		return nil // it is given what its certificate says
	case *apipb.ServeFilesRequest:
		if m.GetRef() == nil {
			return nil // the first has one, or is refused; the others are of the same stream
		}
		node = m.GetRef().GetNodeId()
	case interface{ GetRef() *apipb.SessionRef }:
		node = m.GetRef().GetNodeId()
	case interface{ GetNode() *apipb.NodeInfo }:
		node = m.GetNode().GetNodeId()
	}
	if node != c.node {
		return ares.Errorf(ares.Forbidden, "the certificate is that of node %s, which may not speak for %q: each node joins with a token of its own", c.node, clip(node))
	}
	return nil
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

// check says whether a certificate is still good.
func (t *Trust) check(c certificate) error {
	known := t.known.Load()
	now := t.Now()
	switch {
	case known == nil || now.Sub(known.read) > staleAfter:
		return ares.Errorf(ares.Unavailable, "the certificate cannot be checked: the store does not answer; try again")
	case now.After(c.until):
		return ares.Errorf(ares.Unauthentic, "the certificate of node %s ended at %s: connect again with the renewed one, or join again", c.node, c.until.Format(time.RFC3339))
	case c.revision < known.at[c.node]:
		return store.Revoked(c.node)
	}
	return nil
}
