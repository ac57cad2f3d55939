package api

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pki"
)

// TestANodeIsWhatItsTokenGrants checks the whole way of a grant: from the administrator's join token to the labels that jobs select, and to
// the rejection of a node that claims more.
func TestANodeIsWhatItsTokenGrants(t *testing.T) {
	f := newFortress(t)
	admin := apipb.NewTrustServiceClient(f.anonymous())
	grant := &apipb.NodeGrant{Labels: map[string]string{"ares.io/pool": "dev"}, MaxGpus: 1, GpuModel: "H100", MaxCpuCores: 8}
	made, err := admin.CreateJoinToken(as(t.Context(), adminToken), &apipb.CreateJoinTokenRequest{NodeId: "n1", Grant: grant})
	must(t, err)
	if made.GetJoinToken().GetGrant().GetLabels()["ares.io/pool"] != "dev" {
		t.Errorf("the token grants %v", made.GetJoinToken().GetGrant())
	}
	n1, err := pki.OpenNode(t.TempDir(), "n1", time.Now)
	must(t, err)
	must(t, f.joinBy(n1, made.GetToken()))
	agents := apipb.NewAgentServiceClient(f.connect(n1.Client(nil)))
	open := func(n *apipb.NodeInfo) (*apipb.OpenSessionResponse, error) {
		n.NodeId = "n1"
		return agents.OpenSession(t.Context(), &apipb.OpenSessionRequest{Node: n, Instance: "0123456789abcdef"})
	}
	gpu := func(id, model string) *apipb.DeviceInfo {
		return &apipb.DeviceInfo{DeviceId: id, Type: "gpu", Model: model}
	}
	for _, c := range []struct {
		node *apipb.NodeInfo
		says string
	}{
		{&apipb.NodeInfo{Labels: map[string]string{"ares.io/pool": "prod"}}, "ares node label n1 ares.io/pool=prod"},
		{&apipb.NodeInfo{Labels: map[string]string{"ares.io/trusted": "yes"}}, "not granted the label ares.io/trusted=yes"},
		{&apipb.NodeInfo{Devices: []*apipb.DeviceInfo{gpu("a", "H100"), gpu("b", "H100")}}, "at most 1"},
		{&apipb.NodeInfo{Devices: []*apipb.DeviceInfo{gpu("a", "B200")}}, "grants only \"H100\""},
		{&apipb.NodeInfo{CpuCores: 9}, "offers 9 CPU cores"},
	} {
		_, err = open(c.node)
		refusedAs(t, err, codes.PermissionDenied, c.says)
	}
	_, err = open(&apipb.NodeInfo{CpuCores: 1 << 30})
	refusedAs(t, err, codes.InvalidArgument, "node.cpu_cores")
	_, err = open(&apipb.NodeInfo{CpuCores: 8, Labels: map[string]string{"zone": "a"}, Devices: []*apipb.DeviceInfo{gpu("a", "H100")}})
	must(t, err)
	labels := func() map[string]string {
		t.Helper()
		now, err := f.store.Revision(t.Context())
		must(t, err)
		must(t, f.view.WaitFor(t.Context(), now))
		return f.view.Node("n1").Node.Labels
	}
	if got := labels(); got["ares.io/pool"] != "dev" || got["zone"] != "a" {
		t.Errorf("its labels are %v", got)
	}
	answer, err := admin.LabelNode(as(t.Context(), adminToken), &apipb.LabelNodeRequest{NodeId: "n1", Labels: map[string]string{"ares.io/pool": "prod"}})
	must(t, err)
	if answer.GetGrant().GetLabels()["ares.io/pool"] != "prod" || answer.GetGrant().GetMaxGpus() != 1 || labels()["ares.io/pool"] != "prod" {
		t.Errorf("granted is %v, its labels are %v", answer.GetGrant(), labels())
	}
	_, err = admin.LabelNode(t.Context(), &apipb.LabelNodeRequest{NodeId: "n1"})
	refusedAs(t, err, codes.Unauthenticated)
	_, err = apipb.NewTrustServiceClient(f.connect(n1.Client(nil))).LabelNode(t.Context(), &apipb.LabelNodeRequest{NodeId: "n1", Labels: map[string]string{"ares.io/pool": "mine"}})
	refusedAs(t, err, codes.PermissionDenied)
	_, err = admin.LabelNode(as(t.Context(), adminToken), &apipb.LabelNodeRequest{NodeId: "nobody"})
	refusedAs(t, err, codes.NotFound, "there is no node")
	_, err = admin.CreateJoinToken(as(t.Context(), adminToken), &apipb.CreateJoinTokenRequest{Grant: &apipb.NodeGrant{MaxGpus: 1000}})
	refusedAs(t, err, codes.InvalidArgument, "grant.max_gpus")
}
