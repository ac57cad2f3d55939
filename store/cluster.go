package store

import (
	"context"
	"crypto/subtle"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// MaxClusters is the maximum number of clusters that a hub knows.
const MaxClusters = 1000

// ClusterState is what is known of a member of the federation: what administrators decided, and whether it answers.
type ClusterState string

// These are the states of a cluster.
const (
	ClusterRegistered  ClusterState = "registered"  // it may join, and has not joined yet
	ClusterReady       ClusterState = "ready"       // it gets offers
	ClusterUnreachable ClusterState = "unreachable" // like ready, but it does not answer
	ClusterCordoned    ClusterState = "cordoned"    // it gets no offers, and keeps what it owns
	ClusterDraining    ClusterState = "draining"    // cordoned, and it returns what waits there
	ClusterDead        ClusterState = "dead"        // declared dead: what it owned was taken away
	ClusterLeft        ClusterState = "left"        // it has left
)

// ClusterStates lists the states of a cluster.
func ClusterStates() []ClusterState {
	return []ClusterState{ClusterRegistered, ClusterReady, ClusterUnreachable, ClusterCordoned, ClusterDraining, ClusterDead, ClusterLeft}
}

// Cluster is a member of the federation, as the hub knows it.
type Cluster struct {
	Name string
	// Store and Incarnation identify the cluster's store and its last restore. Only the store that has joined may speak
	// for the cluster.
	Store, Incarnation string
	// Reconciling is true while the hub compares its grants with those of a new incarnation. The cluster claims nothing
	// meanwhile: a late claim of the earlier incarnation would otherwise be bound to it.
	Reconciling bool
	// Decided is the state without regard to whether the cluster answers. It is never ClusterUnreachable.
	Decided ClusterState
	// Stops says that a drain also stops the jobs that run in the cluster. It is false in other states.
	Stops      bool
	StateSince time.Time
	By, Reason string
	Region     string
	Labels     map[string]string
	Prices     map[string]int64 // millionths of the currency for a GPU hour, by GPU model
	Version    string
	// Unreachable says that the cluster does not answer, and HealthSince since when it does or does not.
	Unreachable bool
	HealthSince time.Time
	// Penalty is the number of points for lost connections at the time PenaltyAt. While Damped is true, the hub makes no
	// offers to the cluster.
	Penalty   float64
	PenaltyAt time.Time
	Damped    bool
	// Cookie is the cookie of the cluster's last session. PendingCookie is the one that the cluster was told and has not
	// confirmed yet.
	Cookie, PendingCookie string
	// Refused says why the hub last refused a store that spoke in the cluster's name, at RefusedAt. It is empty after the next session.
	Refused      string
	RefusedAt    time.Time
	SeenRevision int64 // the highest revision of the cluster's store that the hub has seen
	RegisteredAt time.Time
	JoinedAt     time.Time
	// CertifiedFrom is the revision of the last join. Certificates of earlier revisions are refused.
	CertifiedFrom int64
	// Since is higher for each later membership under this name: it is the revision of the record before the cluster joined,
	// or came back after it was declared dead.
	Since int64
	// Known is true when this membership is stored outside the hub, in a roster. The cluster gets no job before: a hub that is
	// restored from a backup before the join would not know whom to ask for the job (F6).
	Known            bool
	FederatedTenants []string
	LocalTenants     []string
	TokenHash        []byte
	TokenExpiresAt   time.Time
	tokenKey         []byte // fingerprint of the key that used the token
	// Described is higher after each change of what administrators wrote about the cluster, also after a restore of the hub: it is
	// the revision of the store before the change. It is 0 in a cluster of which a restored hub knows only the name.
	Described int64
	Revision  int64
	read      int64 // the revision of the store when the record was read, while it is changed
}

// State returns what users read: the decided state, or unreachable if that is ready and the cluster does not answer.
func (c *Cluster) State() ClusterState {
	if c.Decided == ClusterReady && c.Unreachable {
		return ClusterUnreachable
	}
	return c.Decided
}

// GetsOffers reports whether the hub may offer jobs to the cluster.
func (c *Cluster) GetsOffers() bool { return c.State() == ClusterReady && !c.Damped && c.Known }

// MayOwn reports whether the cluster may claim a job. A cordoned cluster may finish a claim that it began before.
func (c *Cluster) MayOwn() bool {
	return c.Decided == ClusterReady || c.Decided == ClusterCordoned || c.Decided == ClusterDraining
}

// HasJoined reports whether the cluster is a member.
func (c *Cluster) HasJoined() bool {
	return c.MayOwn() || c.Decided == ClusterDead
}

// Begin makes the cluster a new member: no roster names this membership yet.
func (c *Cluster) Begin(now time.Time) {
	c.Since, c.Known = c.Revision, false
	c.Decided, c.StateSince, c.By, c.Reason, c.Stops = ClusterReady, now, "", "", false
}

// Runs reports whether the cluster runs jobs of a tenant of the hub.
func (c *Cluster) Runs(tenant string) bool { return !slices.Contains(c.LocalTenants, tenant) }

// ValidClusterName reports whether a cluster may have this name. A join token contains the name between two points, so
// a name has no points.
func ValidClusterName(name string) bool { return ares.ValidName(name) && !strings.Contains(name, ".") }

// NoCluster is the error for a cluster that the hub does not know.
func NoCluster(name string) error {
	return ares.Errorf(ares.NotFound, "there is no cluster %s: list the clusters with `ares cluster list`", ares.Clip(name)).At("name")
}

// Cluster reads one cluster with a linearizable read.
func (s *Store) Cluster(ctx context.Context, name string) (Cluster, error) {
	c, err := s.readCluster(ctx, name)
	c.read = 0
	return c, err
}

func (s *Store) readCluster(ctx context.Context, name string) (Cluster, error) {
	if !ValidClusterName(name) {
		return Cluster{}, NoCluster(name)
	}
	got, err := s.get(ctx, clusterKey(name))
	if err != nil {
		return Cluster{}, err
	}
	if len(got.Kvs) == 0 {
		return Cluster{}, NoCluster(name)
	}
	rec, err := unmarshal(clusterKey(name), got.Kvs[0].Value)
	if err != nil {
		return Cluster{}, err
	}
	c := clusterOf(rec.GetCluster(), name, got.Kvs[0].ModRevision)
	c.read = got.Header.Revision
	return c, nil
}

// Clusters reads all clusters, ordered by name, with a linearizable read.
func (s *Store) Clusters(ctx context.Context) ([]Cluster, error) {
	out, _, err := s.ClustersAt(ctx)
	return out, err
}

// ClustersAt is Clusters. It also returns the revision at which the clusters were read.
func (s *Store) ClustersAt(ctx context.Context) ([]Cluster, int64, error) {
	list, revision, err := s.records(ctx, clustersKey)
	var out []Cluster
	for _, r := range list {
		out = append(out, clusterOf(r.GetCluster(), r.name, r.revision))
	}
	return out, revision, err
}

// RegisterCluster lets a cluster join with a token. A cluster that is known keeps its state until it joins again. The
// result is the cluster as it is now.
func (s *Store) RegisterCluster(ctx context.Context, c Cluster) (Cluster, error) {
	if !ValidClusterName(c.Name) {
		return Cluster{}, ares.Errorf(ares.Invalid, "%q is not a valid cluster name: use up to 63 letters, digits, '-' and '_'", ares.Clip(c.Name)).At("name")
	}
	return Retry(maxTries, func() (Cluster, error) {
		all, revision, err := s.ClustersAt(ctx)
		if err != nil {
			return Cluster{}, err
		}
		next := c
		next.Decided, next.StateSince, next.Described = ClusterRegistered, c.RegisteredAt, revision
		if i := slices.IndexFunc(all, func(o Cluster) bool { return o.Name == c.Name }); i >= 0 {
			next = all[i]
			was := next
			next.TokenHash, next.TokenExpiresAt, next.tokenKey = c.TokenHash, c.TokenExpiresAt, nil
			if c.Region != "" {
				next.Region = c.Region
			}
			if len(c.Labels) > 0 {
				next.Labels = c.Labels
			}
			if len(c.Prices) > 0 {
				next.Prices = c.Prices
			}
			if !next.isDescribedAs(&was) {
				next.Described = revision
			}
		} else if len(all) >= MaxClusters {
			return Cluster{}, ares.Errorf(ares.LimitReached, "there are %d clusters, which is the limit", len(all))
		}
		return s.putCluster(ctx, next)
	})
}

// JoinCluster records that a cluster joins with its token and a key, and returns the cluster. Its revision is the one of
// the cluster's certificate. The argument `join` has the name, the store, the version, the tenants and the
// hash of the token. The function `check` may reject the join after the token was accepted. The same store may repeat the
// request with the same key, because the answer may have been lost.
func (s *Store) JoinCluster(ctx context.Context, join Cluster, key []byte, check func() error, now time.Time) (Cluster, error) {
	return s.UpdateCluster(ctx, join.Name, func(c *Cluster) error {
		switch {
		case len(c.TokenHash) == 0 || subtle.ConstantTimeCompare(c.TokenHash, join.TokenHash) != 1 || !c.TokenExpiresAt.After(now):
			return badClusterToken()
		case len(c.tokenKey) > 0 && (c.Store != join.Store || subtle.ConstantTimeCompare(c.tokenKey, key) != 1):
			return ares.Errorf(ares.Unauthentic, "the join token of cluster %s was already used, and each token works for only one join: make a new one with `ares cluster register %s` at the hub", c.Name, c.Name)
		case c.MayOwn() && c.Store != join.Store:
			return ares.Errorf(ares.Conflict, "cluster %s is %s and has another store: if that store is gone for good, run `ares cluster declare-dead %s` at the hub first; otherwise register this cluster under another name", c.Name, c.State(), c.Name)
		}
		if len(c.tokenKey) > 0 && c.MayOwn() {
			return nil // repeated
		}
		if err := check(); err != nil {
			return err
		}
		if c.Store != join.Store {
			c.forgetStore()
		}
		was := *c
		if c.Begin(now); was.MayOwn() { // the membership goes on, and a roster may name it
			c.Since, c.Known = was.Since, was.Known
		}
		c.tokenKey, c.CertifiedFrom, c.JoinedAt = key, c.Revision, now
		c.Store, c.Version = join.Store, join.Version
		c.FederatedTenants, c.LocalTenants = join.FederatedTenants, join.LocalTenants
		c.Unreachable, c.HealthSince = true, now // until it opens a session
		return nil
	})
}

// forgetStore removes what is known of the cluster's store, until its first session.
func (c *Cluster) forgetStore() {
	c.Incarnation, c.Cookie, c.PendingCookie, c.SeenRevision = "", "", "", 0
}

// badClusterToken returns the same error for an unknown cluster, an expired token and a wrong secret.
func badClusterToken() error {
	return ares.Errorf(ares.Unauthentic, "this join token is unknown or no longer valid: make a new one with `ares cluster register NAME` at the hub")
}

// UpdateCluster changes a cluster with the function `change`, which is called again if the cluster changed in between.
// If the function changes nothing, nothing is written.
func (s *Store) UpdateCluster(ctx context.Context, name string, change func(*Cluster) error) (Cluster, error) {
	return Retry(maxTries, func() (Cluster, error) {
		c, err := s.readCluster(ctx, name)
		if err != nil {
			return Cluster{}, err
		}
		was := c
		was.Labels, was.Prices = maps.Clone(c.Labels), maps.Clone(c.Prices)
		before, err := marshal(clusterRecord(&was))
		if err != nil {
			return Cluster{}, err
		}
		if err = change(&c); err != nil {
			return Cluster{}, err
		}
		if !c.isDescribedAs(&was) {
			c.Described = c.read
		}
		c.read = 0
		if after, err := marshal(clusterRecord(&c)); err != nil || after == before {
			return c, err
		}
		return s.putCluster(ctx, c)
	})
}

// putCluster writes a cluster if its record is still the one that was read.
func (s *Store) putCluster(ctx context.Context, c Cluster) (Cluster, error) {
	value, err := marshal(clusterRecord(&c))
	if err != nil {
		return Cluster{}, err
	}
	resp, err := s.txn(ctx, "write cluster",
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(clusterKey(c.Name)), "=", c.Revision)},
		[]clientv3.Op{clientv3.OpPut(clusterKey(c.Name), value)}, nil)
	switch {
	case err != nil:
		return Cluster{}, err
	case !resp.Succeeded:
		return Cluster{}, Conflict{ares.Errorf(ares.Exhausted, "cluster %s keeps changing: try again", c.Name)}
	}
	c.Revision = resp.Header.Revision
	return c, nil
}

func clusterRecord(c *Cluster) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Cluster{Cluster: &storepb.Cluster{
		Store: c.Store, Incarnation: c.Incarnation, State: string(c.Decided), StateSince: micros(c.StateSince), By: c.By, Reason: c.Reason,
		Region: c.Region, Labels: c.Labels, Prices: c.Prices, Version: c.Version, Unreachable: c.Unreachable, HealthSince: micros(c.HealthSince),
		Penalty: c.Penalty, PenaltyAt: micros(c.PenaltyAt), Damped: c.Damped, Cookie: c.Cookie, PendingCookie: c.PendingCookie,
		SeenRevision: c.SeenRevision, RegisteredAt: micros(c.RegisteredAt), JoinedAt: micros(c.JoinedAt), CertifiedFrom: c.CertifiedFrom,
		FederatedTenants: c.FederatedTenants, LocalTenants: c.LocalTenants,
		TokenHash: c.TokenHash, TokenExpiresAt: micros(c.TokenExpiresAt), TokenKey: c.tokenKey, Reconciling: c.Reconciling,
		Since: c.Since, Known: c.Known, Stops: c.Stops, Described: c.Described,
		Refused: c.Refused, RefusedAt: micros(c.RefusedAt),
	}}}
}

func clusterOf(m *storepb.Cluster, name string, revision int64) Cluster {
	return Cluster{
		Name: name, Store: m.GetStore(), Incarnation: m.GetIncarnation(), Decided: ClusterState(m.GetState()), StateSince: fromMicros(m.GetStateSince()),
		By: m.GetBy(), Reason: m.GetReason(), Region: m.GetRegion(), Labels: maps.Clone(m.GetLabels()), Prices: maps.Clone(m.GetPrices()), Version: m.GetVersion(),
		Unreachable: m.GetUnreachable(), HealthSince: fromMicros(m.GetHealthSince()),
		Penalty: m.GetPenalty(), PenaltyAt: fromMicros(m.GetPenaltyAt()), Damped: m.GetDamped(), Cookie: m.GetCookie(), PendingCookie: m.GetPendingCookie(),
		SeenRevision: m.GetSeenRevision(), RegisteredAt: fromMicros(m.GetRegisteredAt()), JoinedAt: fromMicros(m.GetJoinedAt()), CertifiedFrom: m.GetCertifiedFrom(),
		FederatedTenants: slices.Clone(m.GetFederatedTenants()), LocalTenants: slices.Clone(m.GetLocalTenants()),
		TokenHash: m.GetTokenHash(), TokenExpiresAt: fromMicros(m.GetTokenExpiresAt()), tokenKey: m.GetTokenKey(), Reconciling: m.GetReconciling(), Revision: revision,
		Since: m.GetSince(), Known: m.GetKnown(), Stops: m.GetStops(), Described: m.GetDescribed(),
		Refused: m.GetRefused(), RefusedAt: fromMicros(m.GetRefusedAt()),
	}
}
