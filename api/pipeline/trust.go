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

// ErrHub is the error for a node that wants to join a hub.
func ErrHub() error {
	return ares.Errorf(ares.FeatureDisabled, "this server is a hub (role: global), which has clusters and no nodes: start the agent with --server of a cluster, and join that cluster to the hub with `ares join --global`")
}

// admitsAgent rejects every agent at a hub, and an agent on another machine if the agent uses the node
// token. All agents share the node token, and it is valid for any node.
func (t *Trust) admitsAgent(ctx context.Context, who *ares.Identity) error {
	if t.Hub {
		return ErrHub()
	}
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

// clusterPrefix is the beginning of the name of a cluster that has authenticated with its certificate.
const clusterPrefix = "cluster:"

// Trust issues and checks the certificates of nodes and of member clusters.
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
	// Hub is true for the servers of a hub, which have members and no nodes.
	Hub bool
	Now func() time.Time

	loading sync.Mutex // so that the latest read wins
	known   atomic.Pointer[revoked]
}

// The type `revoked` holds the revocations that the server read most recently.
type revoked struct {
	at map[string]int64 // store revision of the revocation, by node
	// clusters has the members of a hub, by name.
	clusters map[string]store.Cluster
	read     time.Time
	after    chan struct{} // closed when the revocations have changed
}

// The method `cluster` returns a member of the hub, or the zero value.
func (r *revoked) cluster(name string) *store.Cluster {
	if r == nil {
		return &store.Cluster{}
	}
	c := r.clusters[name]
	return &c
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
	if t.Hub {
		clusters, err := t.Store.Clusters(ctx)
		if err != nil {
			return err
		}
		next.clusters = map[string]store.Cluster{}
		for _, c := range clusters {
			next.clusters[c.Name] = c
		}
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
	for name, c := range next.clusters { // order-free: any change counts
		before := was.cluster(name)
		newer = newer || before.HasJoined() && !c.HasJoined() || before.CertifiedFrom < c.CertifiedFrom
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
func (t *Trust) Identify(ctx context.Context, leaf *x509.Certificate) (ares.Identity, error) {
	if pki.IsCluster(leaf) {
		return t.identifyCluster(ctx, leaf)
	}
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

// identifyCluster returns the identity of a member cluster. A cluster that has left, and a certificate from before the
// cluster's last join, are rejected. A cluster that was declared dead is not: it must be told so.
func (t *Trust) identifyCluster(ctx context.Context, leaf *x509.Certificate) (ares.Identity, error) {
	name, revision, err := pki.ClusterOf(leaf)
	if err != nil {
		return ares.Identity{}, err
	}
	if !t.Hub {
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "this server is not a hub, so cluster %s cannot be its member", name)
	}
	known, now := t.known.Load(), t.Now()
	if c := known.cluster(name); !c.HasJoined() {
		if err = t.Load(ctx); err != nil { // the cluster may have joined at another server a moment ago
			return ares.Identity{}, err
		}
		known = t.known.Load()
	}
	c, is := known.clusters[name]
	switch {
	case now.Sub(known.read) > StaleAfter:
		return ares.Identity{}, ares.Errorf(ares.Unavailable, "the certificate cannot be checked, because the store does not respond: try again")
	case now.After(leaf.NotAfter):
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "the certificate of cluster %s expired at %s: join again, with a token from `ares cluster register %s`", name, leaf.NotAfter.Format(time.RFC3339), name)
	case !is || !c.HasJoined() || revision < c.CertifiedFrom:
		return ares.Identity{}, ares.Errorf(ares.Unauthentic, "cluster %s is no member of this hub with this certificate: join again, with a token from `ares cluster register %s`", name, name)
	}
	return ares.Identity{
		Name: clusterPrefix + name, Kind: ares.ByCert, Bindings: []ares.Binding{{Role: ares.MemberRole}}, Until: leaf.NotAfter, Cluster: name,
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
