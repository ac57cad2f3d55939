package service

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// Federation is the part of a server that knows other clusters.
type Federation struct {
	// Hub is true for a server of the hub. The other servers belong to a member, or to a cluster without a hub.
	Hub bool
	// CertLife is how long the certificates of clusters are valid. Only a hub needs it.
	CertLife time.Duration
	// Owned counts the hub's jobs that each cluster owns. It may be nil.
	Owned func(ctx context.Context) (map[string]OwnedJobs, error)
	// Join and Leave begin and end this cluster's membership, and Membership returns it. They are nil at a hub.
	Join       func(ctx context.Context, req *apipb.JoinHubRequest) (*apipb.Membership, error)
	Leave      func(ctx context.Context) error
	Membership func(ctx context.Context) (*apipb.Membership, error)
	// Owners asks the clusters that own jobs of this hub. It is nil in a cluster.
	Owners Owners
}

// OwnedJobs counts the jobs that a cluster owns.
type OwnedJobs struct {
	Jobs    int
	Staying int // those that no drain moves to another cluster
}

type clustersService struct {
	apipb.UnimplementedClustersServiceServer
	*Services
	*pipeline.Trust
}

// requireHub rejects a call that only a hub can answer.
func (d *clustersService) requireHub() error {
	if d.Cfg.Federation.Hub {
		return nil
	}
	return ares.Errorf(ares.FeatureDisabled, "this server is not a hub: make the call at a server with `role: global`, for example with --server")
}

// requireMember rejects a call that only a server of a cluster can answer.
func (d *clustersService) requireMember() error {
	if !d.Cfg.Federation.Hub {
		return nil
	}
	return ares.Errorf(ares.FeatureDisabled, "this server is a hub (role: global), and a hub joins no other hub: make the call at a server of the cluster that joins or leaves")
}

// RegisterCluster implements apipb.ClustersServiceServer.
func (d *clustersService) RegisterCluster(ctx context.Context, req *apipb.RegisterClusterRequest) (*apipb.RegisterClusterResponse, error) {
	if err := d.requireHub(); err != nil {
		return nil, err
	}
	life := cmp.Or(time.Duration(req.GetTtlSeconds())*time.Second, defaultJoinLife)
	if life < minJoinLife {
		return nil, ares.Errorf(ares.Invalid, "ttl_seconds: must be %d or more, got %d", int(minJoinLife.Seconds()), req.GetTtlSeconds()).At("ttl_seconds")
	}
	if err := checkClusterFields(req); err != nil {
		return nil, err
	}
	token := pki.NewClusterToken(req.GetName(), d.Authority.Hash())
	now := pipeline.WholeMicros(d.Now())
	c, err := d.Trust.Store.RegisterCluster(ctx, store.Cluster{
		Name: req.GetName(), Region: req.GetRegion(), Labels: req.GetLabels(), Prices: req.GetPrices(), By: pipeline.CallerName(ctx), RegisteredAt: now,
		TokenHash: token.Hash(), TokenExpiresAt: now.Add(life),
	})
	if err != nil {
		return nil, err
	}
	m := d.cluster(ctx, &c)
	pipeline.AuditChange(ctx, "", nil, m)
	return &apipb.RegisterClusterResponse{Token: token.String(), ExpiresAt: apipb.Timestamp(c.TokenExpiresAt), Cluster: m}, nil
}

func checkClusterFields(req *apipb.RegisterClusterRequest) error {
	var p ares.Problems
	if r := req.GetRegion(); r != "" && !ares.ValidName(r) {
		p.Add("region", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_'", ares.Clip(r))
	}
	for _, key := range slices.Sorted(maps.Keys(req.GetLabels())) {
		value := req.GetLabels()[key]
		if !ares.ValidName(key) || len(value) > 253 {
			p.Add("labels", "%q is not a label: use names of up to 63 letters, digits, '.', '-' and '_', and values of up to 253 characters", ares.Clip(key))
		}
	}
	for _, model := range slices.Sorted(maps.Keys(req.GetPrices())) {
		if model == "" || req.GetPrices()[model] < 0 {
			p.Add("prices", "the price of %q must not be negative, and the model must not be empty", ares.Clip(model))
		}
	}
	return p.Err()
}

// ListClusters implements apipb.ClustersServiceServer.
func (d *clustersService) ListClusters(ctx context.Context, _ *apipb.ListClustersRequest) (*apipb.ListClustersResponse, error) {
	if !d.Cfg.Federation.Hub {
		list, err := d.copies(ctx)
		return &apipb.ListClustersResponse{Clusters: list}, err
	}
	all, err := d.Trust.Store.Clusters(ctx)
	if err != nil {
		return nil, err
	}
	said, err := d.descriptions(ctx)
	if err != nil {
		return nil, err
	}
	owned, err := d.ownedJobs(ctx)
	if err != nil {
		return nil, err
	}
	out := &apipb.ListClustersResponse{}
	for i := range all {
		m := d.count(d.cluster(ctx, &all[i]), owned)
		m.Description = said[m.GetName()]
		out.Clusters = append(out.Clusters, m)
	}
	return out, nil
}

// GetCluster implements apipb.ClustersServiceServer.
func (d *clustersService) GetCluster(ctx context.Context, req *apipb.GetClusterRequest) (*apipb.GetClusterResponse, error) {
	if !d.Cfg.Federation.Hub {
		m, err := d.copyOf(ctx, req.GetName())
		return &apipb.GetClusterResponse{Cluster: m}, err
	}
	c, err := d.Trust.Store.Cluster(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	owned, err := d.ownedJobs(ctx)
	if err != nil {
		return nil, err
	}
	m := d.count(d.cluster(ctx, &c), owned)
	said, err := d.descriptions(ctx)
	if err != nil {
		return nil, err
	}
	m.Description = said[c.Name]
	loans, err := d.Trust.Store.Loans(ctx)
	if err != nil {
		return nil, err
	}
	to := visibilityOf(ctx)
	for i := range loans {
		if loans[i].Cluster == c.Name && to.sees(loans[i].Tenant, "") {
			m.Loans = append(m.Loans, newLoan(&loans[i], d.Now()))
		}
	}
	return &apipb.GetClusterResponse{Cluster: m}, nil
}

// CordonCluster implements apipb.ClustersServiceServer. It also ends a drain.
func (d *clustersService) CordonCluster(ctx context.Context, req *apipb.CordonClusterRequest) (*apipb.CordonClusterResponse, error) {
	m, err := d.decide(ctx, req.GetName(), store.ClusterCordoned, false, req.GetReason())
	return &apipb.CordonClusterResponse{Cluster: m}, err
}

// UncordonCluster implements apipb.ClustersServiceServer.
func (d *clustersService) UncordonCluster(ctx context.Context, req *apipb.UncordonClusterRequest) (*apipb.UncordonClusterResponse, error) {
	m, err := d.decide(ctx, req.GetName(), store.ClusterReady, false, "")
	return &apipb.UncordonClusterResponse{Cluster: m}, err
}

// DrainCluster implements apipb.ClustersServiceServer. The hub's leader then asks the cluster for its jobs.
func (d *clustersService) DrainCluster(ctx context.Context, req *apipb.DrainClusterRequest) (*apipb.DrainClusterResponse, error) {
	if req.GetStop() && req.GetConfirm() != req.GetName() {
		return nil, ares.Errorf(ares.Invalid, "confirm: must be the name of the cluster again, because every job that runs there is stopped, and what it has not saved in a checkpoint is lost").At("confirm")
	}
	m, err := d.decide(ctx, req.GetName(), store.ClusterDraining, req.GetStop(), req.GetReason())
	return &apipb.DrainClusterResponse{Cluster: m}, err
}

// DeclareClusterDead implements apipb.ClustersServiceServer. The hub's leader then takes the cluster's jobs away.
func (d *clustersService) DeclareClusterDead(ctx context.Context, req *apipb.DeclareClusterDeadRequest) (*apipb.DeclareClusterDeadResponse, error) {
	if req.GetConfirm() != req.GetName() {
		return nil, ares.Errorf(ares.Invalid, "confirm: must be the name of the cluster again, because a living cluster that is declared dead may run its jobs at the same time as the cluster that gets them next").At("confirm")
	}
	m, err := d.decide(ctx, req.GetName(), store.ClusterDead, false, req.GetReason())
	return &apipb.DeclareClusterDeadResponse{Cluster: m}, err
}

// LeaveCluster implements apipb.ClustersServiceServer.
func (d *clustersService) LeaveCluster(ctx context.Context, req *apipb.LeaveClusterRequest) (*apipb.LeaveClusterResponse, error) {
	m, err := d.leave(ctx, req.GetName())
	return &apipb.LeaveClusterResponse{Cluster: m}, err
}

// EndMembership implements apipb.ClustersServiceServer.
func (d *clustersService) EndMembership(ctx context.Context, _ *apipb.EndMembershipRequest) (*apipb.EndMembershipResponse, error) {
	m, err := d.leave(ctx, pipeline.IdentityOf(ctx).Cluster)
	return &apipb.EndMembershipResponse{Cluster: m}, err
}

// The method `leave` ends a membership. A cluster that owns jobs must return or finish them first. A cordoned cluster
// cannot get another one meanwhile.
func (d *clustersService) leave(ctx context.Context, name string) (*apipb.Cluster, error) {
	if err := d.requireHub(); err != nil {
		return nil, err
	}
	c, err := d.Trust.Store.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	if c.Decided == store.ClusterReady {
		return nil, ares.Errorf(ares.Conflict, "cluster %s still gets jobs: drain it first with `ares cluster drain %s` at the hub", c.Name, c.Name)
	}
	if c.MayOwn() {
		owned, err := d.ownedJobs(ctx)
		if err != nil {
			return nil, err
		}
		if n := owned[c.Name].Jobs; n > 0 {
			return nil, ares.Errorf(ares.Conflict, "cluster %s still owns %d jobs of the hub: wait until they have ended (`ares cluster get %s`), or cancel them", c.Name, n, c.Name)
		}
	}
	return d.decide(ctx, name, store.ClusterLeft, false, "")
}

// The method `decide` writes what an administrator decides about a cluster. With `stops`, a drain also stops running jobs.
func (d *clustersService) decide(ctx context.Context, name string, to store.ClusterState, stops bool, reason string) (*apipb.Cluster, error) {
	if err := d.requireHub(); err != nil {
		return nil, err
	}
	now, by := pipeline.WholeMicros(d.Now()), pipeline.CallerName(ctx)
	var before *apipb.Cluster
	c, err := d.Trust.Store.UpdateCluster(ctx, name, func(c *store.Cluster) error {
		before = d.cluster(ctx, c)
		if err := mayBecome(c, to); err != nil {
			return err
		}
		if c.Decided != to || c.Stops != stops || c.Reason != reason {
			c.Decided, c.Stops, c.StateSince, c.By, c.Reason = to, stops, now, by, reason
		}
		if to == store.ClusterReady { // the administrator knows that the connection is stable again
			c.Penalty, c.PenaltyAt, c.Damped = 0, time.Time{}, false
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if to == store.ClusterLeft { // this server rejects the cluster's certificate at once, the others when they read the clusters next
		if err = d.Load(ctx); err != nil {
			return nil, err
		}
	}
	m := d.cluster(ctx, &c)
	pipeline.AuditChange(ctx, "", before, m)
	if owned, unread := d.ownedJobs(ctx); unread == nil {
		d.count(m, owned)
	}
	return m, nil
}

// mayBecome returns an error unless an administrator may give the state to the cluster.
func mayBecome(c *store.Cluster, to store.ClusterState) error {
	switch {
	case c.Decided == to, c.MayOwn():
		return nil
	case to == store.ClusterLeft:
		return nil // registered or dead: the name is given up
	case c.Decided == store.ClusterDead:
		return ares.Errorf(ares.Conflict, "cluster %s was declared dead at %s: it is ready again when it comes back, or with a new store when it joins with a token from `ares cluster register %s`", c.Name, c.StateSince.Format(time.RFC3339), c.Name)
	}
	return ares.Errorf(ares.Conflict, "cluster %s is %s, not a member: it joins with a token from `ares cluster register %s`", c.Name, c.Decided, c.Name)
}

// JoinCluster implements apipb.ClustersServiceServer. The join token is the caller's only credential.
func (d *clustersService) JoinCluster(ctx context.Context, req *apipb.JoinClusterRequest) (*apipb.JoinClusterResponse, error) {
	if err := d.requireHub(); err != nil {
		return nil, err
	}
	token, err := pki.ParseClusterToken(req.GetToken())
	if err != nil {
		return nil, err
	}
	if req.GetStoreId() == "" {
		return nil, ares.Errorf(ares.Invalid, "store_id: must identify the store of the cluster").At("store_id")
	}
	key, err := pki.KeyOf(req.GetRequest())
	if err != nil {
		return nil, err
	}
	print, err := pki.Fingerprint(key)
	if err != nil {
		return nil, err
	}
	own, _, err := d.Trust.Store.Identity(ctx)
	if err != nil {
		return nil, err
	}
	if req.GetStoreId() == own.Store {
		return nil, ares.Errorf(ares.Conflict, "this cluster and the hub have the same store: a hub needs a store of its own")
	}
	now := d.Now()
	c, err := d.Trust.Store.JoinCluster(ctx, store.Cluster{
		Name: token.Cluster, Store: req.GetStoreId(), Version: req.GetVersion(), TokenHash: token.Hash(),
		FederatedTenants: req.GetFederatedTenants(), LocalTenants: req.GetLocalTenants(),
	}, print, d.tenantsMatch(req), now)
	if err != nil {
		return nil, err
	}
	cert, err := d.Authority.IssueCluster(req.GetRequest(), c.Name, c.Revision, now, d.Cfg.Federation.CertLife)
	if err != nil {
		return nil, err
	}
	d.Cfg.Log.Info("cluster joined", "cluster", c.Name)
	r := &pipeline.CallOf(ctx).Entry
	r.Object, r.After = "cluster/"+c.Name, audit.Digest(cert)
	return &apipb.JoinClusterResponse{
		Name: c.Name, Certificate: cert, Authority: d.Authority.Certificate.Raw, StoreId: own.Store,
	}, nil
}

// tenantsMatch returns a function that rejects a join if hub and cluster have a tenant of the same name, and the request does
// not say whether they are the same tenant. It is called after the token was checked, so that nobody else learns the names
// of the hub's tenants.
func (d *clustersService) tenantsMatch(req *apipb.JoinClusterRequest) func() error {
	return func() error {
		var both []string
		for _, id := range req.GetTenants() {
			if d.Cfg.View.Tenant(id) != nil && !slices.Contains(req.GetFederatedTenants(), id) && !slices.Contains(req.GetLocalTenants(), id) {
				both = append(both, id)
			}
		}
		if len(both) == 0 {
			return nil
		}
		slices.Sort(both)
		first := both[0]
		return ares.Errorf(ares.Conflict, "the hub and this cluster both have tenants with the names %s: for each, add --federated %s if the hub's jobs of that tenant may run here under that name, or --local %s if it is another tenant", strings.Join(both, ", "), first, first).At("federated_tenants")
	}
}

// RenewClusterCertificate implements apipb.ClustersServiceServer.
func (d *clustersService) RenewClusterCertificate(ctx context.Context, req *apipb.RenewClusterCertificateRequest) (*apipb.RenewClusterCertificateResponse, error) {
	if err := d.requireHub(); err != nil {
		return nil, err
	}
	leaf := pipeline.ClientCertificate(ctx)
	if leaf == nil || pipeline.IdentityOf(ctx).Cluster == "" {
		return nil, ares.Errorf(ares.CertificateRequired, "only a cluster with a certificate can renew it: join the hub first, with a token from `ares cluster register`")
	}
	c, err := d.Trust.Store.Cluster(ctx, pipeline.IdentityOf(ctx).Cluster)
	if err != nil {
		return nil, err
	}
	revision, err := d.Trust.Store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	cert, err := d.Authority.IssueCluster(req.GetRequest(), c.Name, revision, d.Now(), d.Cfg.Federation.CertLife)
	if err != nil {
		return nil, err
	}
	r := &pipeline.CallOf(ctx).Entry
	r.Object, r.Before, r.After = "cluster/"+c.Name, audit.Digest(leaf.Raw), audit.Digest(cert)
	return &apipb.RenewClusterCertificateResponse{Certificate: cert, Authority: d.Authority.Certificate.Raw}, nil
}

// GetMembership implements apipb.ClustersServiceServer. A cluster without a hub has none.
func (d *clustersService) GetMembership(ctx context.Context, _ *apipb.GetMembershipRequest) (*apipb.GetMembershipResponse, error) {
	if d.Cfg.Federation.Membership == nil {
		return &apipb.GetMembershipResponse{}, nil
	}
	m, err := d.Cfg.Federation.Membership(ctx)
	return &apipb.GetMembershipResponse{Membership: m}, err
}

// JoinHub implements apipb.ClustersServiceServer.
func (d *clustersService) JoinHub(ctx context.Context, req *apipb.JoinHubRequest) (*apipb.JoinHubResponse, error) {
	if err := d.requireMember(); err != nil {
		return nil, err
	}
	if d.Cfg.Federation.Join == nil {
		return nil, ares.Errorf(ares.FeatureDisabled, "this server cannot join a hub")
	}
	m, err := d.Cfg.Federation.Join(ctx, req)
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, "", nil, m)
	return &apipb.JoinHubResponse{Membership: m}, nil
}

// LeaveHub implements apipb.ClustersServiceServer.
func (d *clustersService) LeaveHub(ctx context.Context, _ *apipb.LeaveHubRequest) (*apipb.LeaveHubResponse, error) {
	if err := d.requireMember(); err != nil {
		return nil, err
	}
	if d.Cfg.Federation.Leave == nil {
		return nil, ares.Errorf(ares.FeatureDisabled, "this server cannot leave a hub")
	}
	before, err := d.Cfg.Federation.Membership(ctx)
	if err != nil {
		return nil, err
	}
	if err = d.Cfg.Federation.Leave(ctx); err != nil {
		return nil, err
	}
	pipeline.CallOf(ctx).Entry.Object = "hub/" + before.GetName()
	pipeline.AuditChange(ctx, "", before, nil)
	return &apipb.LeaveHubResponse{Message: "this cluster has left the hub"}, nil
}

// ownedJobs counts the hub's jobs that each cluster owns.
func (d *clustersService) ownedJobs(ctx context.Context) (map[string]OwnedJobs, error) {
	if d.Cfg.Federation.Owned == nil {
		return nil, nil
	}
	return d.Cfg.Federation.Owned(ctx)
}

// The method `count` adds to a cluster how many jobs it owns.
func (d *clustersService) count(m *apipb.Cluster, owned map[string]OwnedJobs) *apipb.Cluster {
	n := owned[m.GetName()]
	m.Jobs = int32(n.Jobs)
	if m.GetState() == string(store.ClusterDraining) {
		m.StayingJobs = int32(n.Staying)
	}
	return m
}

// The method `cluster` converts a cluster to its public form. Only a caller that sees all tenants learns the names of tenants.
func (d *clustersService) cluster(ctx context.Context, c *store.Cluster) *apipb.Cluster {
	m := &apipb.Cluster{
		Name: c.Name, State: string(c.State()), StateSince: apipb.Timestamp(c.StateSince), Region: c.Region, Labels: c.Labels, Prices: c.Prices,
		Version: c.Version, JoinedAt: apipb.Timestamp(c.JoinedAt), Reason: c.Reason, ChangedBy: c.By, Damped: c.Damped, Penalty: c.Penalty,
		Unlisted: c.MayOwn() && !c.Known, StopsJobs: c.Decided == store.ClusterDraining && c.Stops,
		Refused: c.Refused, RefusedAt: apipb.Timestamp(c.RefusedAt),
	}
	switch {
	case c.HealthSince.IsZero():
	case c.Unreachable:
		m.UnreachableSince = apipb.Timestamp(c.HealthSince)
	default:
		m.ReachableSince = apipb.Timestamp(c.HealthSince)
	}
	if who := pipeline.IdentityOf(ctx); who.Cluster != "" || roles.Allows(who, roles.ServerRead, "", "") {
		m.FederatedTenants, m.LocalTenants, m.StoreId, m.Incarnation = c.FederatedTenants, c.LocalTenants, c.Store, c.Incarnation
	}
	return m
}
