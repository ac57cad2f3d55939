package api

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/pki"
	"github.com/ares-scheduler/ares/store"
)

// clusterExample returns the example in the OpenAPI document of a method of ClustersService.
func clusterExample(t *testing.T, method string) json.RawMessage {
	t.Helper()
	for _, operations := range readOpenAPI(t).Paths {
		for _, op := range operations {
			if op.OperationID == "ClustersService_"+method && op.RequestBody != nil {
				return op.RequestBody.Content["application/json"].Example
			}
		}
	}
	t.Fatalf("ClustersService_%s has no example", method)
	return nil
}

// TestAuditOfClusters sends the examples of the methods with which a hub manages clusters. Each call has one audit entry, which
// names the cluster and has its digests.
func TestAuditOfClusters(t *testing.T) {
	l := newLedger()
	var owns atomic.Bool // east owns jobs
	f := newFortress(t, func(c *Config) {
		c.Audit = l
		c.Trust.Hub = true
		c.Federation = service.Federation{Hub: true, CertLife: time.Hour, Owned: func(context.Context) (map[string]service.OwnedJobs, error) {
			if owns.Load() {
				return map[string]service.OwnedJobs{"east": {Jobs: 3, Staying: 1}}, nil
			}
			return nil, nil
		}}
	})
	recorded := []string{}
	check := func(action string, was, is bool) {
		t.Helper()
		recorded = append(recorded, action)
		e := l.one(t, action)
		if e.Action != action || e.Object != "cluster/east" || e.Status != audit.Done || e.Code != "" || (e.Before != "") != was || (e.After != "") != is {
			t.Errorf("%s is recorded as %+v", action, e)
		}
	}
	call := func(method, path, action string, was bool) answer {
		t.Helper()
		a := f.do("POST", path, string(clusterExample(t, method)))
		if a.code >= 300 {
			t.Fatalf("%s answered %d %s", path, a.code, a.body)
		}
		check(action, was, true)
		return a
	}
	join := func(token string) *pki.ClusterIdentity {
		t.Helper()
		key, err := pki.NewKey()
		must(t, err)
		request, err := pki.Request(key)
		must(t, err)
		got, err := apipb.NewClustersServiceClient(f.anonymous()).JoinCluster(t.Context(), &apipb.JoinClusterRequest{
			Token: token, Request: request, StoreId: "store-of-east", Tenants: []string{"default"}, FederatedTenants: []string{"default"},
		})
		must(t, err)
		check("JOIN_CLUSTER", false, true)
		id, err := pki.NewClusterIdentity(key, got.GetCertificate(), got.GetAuthority())
		must(t, err)
		return id
	}

	token, _ := call("RegisterCluster", "/api/v1/clusters", "REGISTER_CLUSTER", false).json["token"].(string)
	east := f.connect(join(token).TLS())
	call("CordonCluster", "/api/v1/clusters/east/cordon", "CORDON_CLUSTER", true)
	_, err := f.store.UpdateCluster(t.Context(), "east", func(c *store.Cluster) error {
		c.Penalty, c.PenaltyAt, c.Damped = 4000, time.Now(), true
		return nil
	})
	must(t, err)
	call("UncordonCluster", "/api/v1/clusters/east/uncordon", "UNCORDON_CLUSTER", true)
	if c, err := f.store.Cluster(t.Context(), "east"); err != nil || c.Damped || c.Penalty != 0 {
		t.Errorf("an uncordoned cluster still counts as flapping: %+v, %v", c, err)
	}
	call("DrainCluster", "/api/v1/clusters/east/drain", "DRAIN_CLUSTER", true)
	drain := func(confirm string) answer {
		t.Helper()
		defer l.take()
		return f.do("POST", "/api/v1/clusters/east/drain", map[string]any{"stop": true, "confirm": confirm})
	}
	owns.Store(true)
	f.refused(drain(""), 400, ares.Invalid)
	f.refused(drain("west"), 400, ares.Invalid)
	if got := drain("east"); got.json["stops_jobs"] != true || got.json["state"] != "draining" {
		t.Errorf("a drain that stops jobs is answered %v", got)
	}
	if got := f.do("GET", "/api/v1/clusters/east", nil); got.json["staying_jobs"] != 1.0 || got.json["jobs"] != 3.0 {
		t.Errorf("the jobs of a drained cluster: %v", got)
	}
	if got := f.do("POST", "/api/v1/clusters/east/cordon", map[string]any{}); got.json["stops_jobs"] == true || got.json["staying_jobs"] == 1.0 {
		t.Errorf("a cordon after the drain is answered %v", got)
	}
	owns.Store(false)
	l.take()
	_, err = apipb.NewClustersServiceClient(east).EndMembership(t.Context(), &apipb.EndMembershipRequest{})
	must(t, err)
	check("END_MEMBERSHIP", true, true)
	if _, err = apipb.NewClustersServiceClient(east).EndMembership(t.Context(), &apipb.EndMembershipRequest{}); ares.CodeOf(apipb.FromStatus(err)) != ares.Unauthentic {
		t.Errorf("the certificate of a cluster that has left is answered %v", err)
	}
	l.take()

	token, _ = call("RegisterCluster", "/api/v1/clusters", "REGISTER_CLUSTER", false).json["token"].(string)
	join(token)
	f.refused(f.do("POST", "/api/v1/clusters/east/declare-dead", map[string]any{"confirm": "west"}), 400, ares.Invalid)
	l.take()
	call("DeclareClusterDead", "/api/v1/clusters/east/declare-dead", "DECLARE_CLUSTER_DEAD", true)
	call("LeaveCluster", "/api/v1/clusters/east/leave", "LEAVE_CLUSTER", true)
	for _, action := range ofClusters {
		if !slices.Contains(recorded, action) && !strings.HasSuffix(action, "_HUB") {
			t.Errorf("%s was not called", action)
		}
	}
}

// TestAuditOfMembership checks the audit entries of a cluster that joins a hub and leaves it.
func TestAuditOfMembership(t *testing.T) {
	var member *apipb.Membership
	h, l := audited(t, func(c *Config) {
		c.Federation = service.Federation{
			Join: func(_ context.Context, req *apipb.JoinHubRequest) (*apipb.Membership, error) {
				member = &apipb.Membership{Name: "east", Hub: req.GetHub()}
				return member, nil
			},
			Leave: func(context.Context) error {
				member = nil
				return nil
			},
			Membership: func(context.Context) (*apipb.Membership, error) { return member, nil },
		}
	})
	for _, c := range []struct {
		method, action string
		was, is        bool
	}{{"POST", "JOIN_HUB", false, true}, {"DELETE", "LEAVE_HUB", true, false}} {
		var body any
		if c.method == "POST" {
			body = string(clusterExample(t, "JoinHub"))
		}
		if a := h.do(c.method, "/api/v1/membership", body); a.code >= 300 {
			t.Fatalf("%s answered %d %s", c.action, a.code, a.body)
		}
		if e := l.one(t, c.action); e.Action != c.action || e.Object != "hub/east" || (e.Before != "") != c.was || (e.After != "") != c.is {
			t.Errorf("%s is recorded as %+v", c.action, e)
		}
	}
}

// keepCluster writes a cluster's copy of what its hub says about a cluster.
func keepCluster(t *testing.T, s *store.Store, c store.Cluster, more ...store.ClusterMetadata) {
	t.Helper()
	_, err := s.UpdateMembership(t.Context(), func(m *store.Membership) error {
		m.Name, m.HubStore, m.At = "west", "hub", time.Unix(1e9, 0).UTC()
		return nil
	})
	must(t, err)
	value, err := store.EncodeClusterCopy(&c)
	must(t, err)
	must(t, s.ChangeClusterMetadata(t.Context(), "hub", func([]store.ClusterMetadata) []store.ClusterMetadata {
		return append(more, store.ClusterMetadata{Cluster: c.Name, ByHub: true, Revision: 1, Value: value})
	}))
}

// TestCopiesOfClusters reads clusters in a cluster that has joined a hub: from its copy, with the age of the copy, and without the
// tenants of other clusters and the number of their jobs. Entries that cannot be read are left out.
func TestCopiesOfClusters(t *testing.T) {
	h := newHouse(t)
	said, err := proto.Marshal(&apipb.ClusterDescription{Nodes: 4, Gpus: []*apipb.ModelCount{{Model: "H100", Count: 32}}})
	must(t, err)
	keepCluster(t, h.store, store.Cluster{
		Name: "east", Decided: store.ClusterCordoned, Reason: "moves", Region: "eu", LocalTenants: []string{"chemistry"}, FederatedTenants: []string{"vision"},
	}, store.ClusterMetadata{Cluster: "east", Value: string(said)}, store.ClusterMetadata{Cluster: "north", ByHub: true, Value: "\xff"})
	a := h.do("GET", "/api/v1/clusters", nil)
	var got struct{ Clusters []map[string]any }
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Clusters) != 1 {
		t.Fatalf("%v: %s", err, a.body)
	}
	c := got.Clusters[0]
	if c["name"] != "east" || c["state"] != "cordoned" || c["reason"] != "moves" || c["region"] != "eu" || c["copied_at"] != "2001-09-09T01:46:40Z" {
		t.Errorf("the copy is %v", c)
	}
	if d, _ := c["description"].(map[string]any); d["nodes"] != 4.0 {
		t.Errorf("the cluster says of itself %v", c["description"])
	}
	if strings.Contains(a.body, "chemistry") || strings.Contains(a.body, "vision") {
		t.Errorf("tenants of another cluster are shown: %s", a.body)
	}
	_, err = h.store.UpdateMembership(t.Context(), func(m *store.Membership) error { m.HeardAt = time.Unix(1e9+1, 0).UTC(); return nil })
	must(t, err)
	if a = h.do("GET", "/api/v1/clusters/east", nil); a.json["copied_at"] != "2001-09-09T01:46:41Z" {
		t.Errorf("the age counts from %v", a.json["copied_at"])
	}
	h.refused(h.do("GET", "/api/v1/clusters/south", nil), 404, ares.NotFound)
	_, err = h.store.UpdateMembership(t.Context(), func(m *store.Membership) error { m.Mode = "federated"; return nil })
	must(t, err)
	if at, err := time.Parse(time.RFC3339, h.do("GET", "/api/v1/clusters/east", nil).json["copied_at"].(string)); err != nil || time.Since(at) > time.Hour {
		t.Errorf("while the hub answers, the copy is of %v, %v", at, err)
	}
}
