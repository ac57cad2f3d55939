package federation

import (
	"fmt"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// describe returns a plan or an explanation in short: verdict and kinds of blockers of each cluster, in their order.
func describe(all []*apipb.ClusterOutlook) string {
	var out []string
	for _, c := range all {
		s := c.GetCluster() + ":" + c.GetVerdict()
		for _, b := range c.GetBlockers() {
			s += "," + b.GetKind()
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// awaitPlan waits until a server of the hub plans a job in one way.
func (f *federation) awaitPlan(at *client.Client, spec *apipb.JobSpec, want string) (p *apipb.PlanJobResponse) {
	f.t.Helper()
	live.Await(f.t, cluster.Patience, "the plan "+want, func() (bool, string) {
		var err error
		p, err = at.Plan(f.t.Context(), spec)
		return err == nil && describe(p.GetClusters()) == want, fmt.Sprint(describe(p.GetClusters()), err)
	})
	return p
}

// TestPlanAtTheHub plans jobs at both servers of a hub with three clusters, one of them cordoned. Then it submits one of the jobs,
// which no cluster can run, and asks why it waits.
func TestPlanAtTheHub(t *testing.T) {
	t.Parallel()
	f := startHubOfTwo(t)
	f.start("east", "dgx-h100")
	f.start("west", "dgx-a100")
	for name, flags := range map[string][]string{"east": {"--region", "eu-east", "--price", "H100=2.50"}, "west": {"--region", "us-west", "--price", "A100=1.20"}} {
		token := must(t, f.hub, append([]string{"cluster", "register", name}, flags...)...)
		must(t, f.members[name], "join", "--global", f.hub.Servers[0].At.GRPC+","+f.hub.Servers[1].At.GRPC, "--token", token, "--federated", "default")
		f.await(name, "ready")
	}
	must(t, f.hub, "cluster", "register", "north")
	spec := func(edit func(*apipb.JobSpec)) *apipb.JobSpec {
		s := &apipb.JobSpec{Name: "planned", Command: []string{"true"}, GpuCount: 8, MaxRuntimeMinutes: 60}
		edit(s)
		return s
	}
	resident := spec(func(s *apipb.JobSpec) {
		s.GpuModel, s.Data = "A100", []*apipb.DataSet{{Uri: "s3://genomes", Region: "eu-east", Bytes: 1 << 40}}
	})
	plain := spec(func(*apipb.JobSpec) {})
	for _, s := range f.hub.Servers {
		c := f.hub.ClientWith(client.Options{Attempts: 1}, s)
		p := f.awaitPlan(c, plain, "west:chosen east:candidate north:blocked,registered")
		if first := p.GetClusters()[0]; !p.GetPlaced() || p.GetExplanation() != nil || !first.GetFits() || first.GetCost().GetTotalMicros() != 9_600_000 || first.GetCost().GetComputeMicros() != 9_600_000 {
			t.Errorf("%v", p)
		}
		p = f.awaitPlan(c, resident, "east:blocked,model north:blocked,registered,residency west:blocked,residency")
		if p.GetPlaced() || len(p.GetExplanation().GetBlockers()) > 0 {
			t.Errorf("%v", p)
		}
		f.awaitPlan(c, spec(func(s *apipb.JobSpec) { s.Members, s.GangScheduling = 2, new(true) }), "east:blocked,too_small north:blocked,registered west:blocked,too_small")
		f.awaitPlan(c, spec(func(s *apipb.JobSpec) { s.Placement = &apipb.Placement{Regions: []string{"eu-east"}} }), "east:chosen north:blocked,registered,region west:blocked,region")
	}
	if out := must(t, f.hub, "job", "plan", "--gpus", "8", "--", "true"); !strings.Contains(out, "The hub would offer the job to cluster west first, which could start it now.") || !strings.Contains(out, "north: it has not joined yet") {
		t.Errorf("ares job plan prints\n%s", out)
	}
	must(t, f.hub, "cluster", "cordon", "west", "--reason", "a secret of the administrator")
	f.awaitPlan(f.admin, plain, "east:chosen north:blocked,registered west:blocked,cordoned")

	id := f.submit(resident)
	for _, s := range f.hub.Servers {
		e, err := f.hub.ClientWith(client.Options{Attempts: 1}, s).Explain(t.Context(), id)
		if got := describe(e.GetClusters()); err != nil || got != "east:blocked,model north:blocked,registered,residency west:blocked,cordoned,residency" || len(e.GetBlockers())+len(e.GetRemedies()) > 0 {
			t.Errorf("the job waits because of %s: %v, %v", got, e, err)
		}
	}
	out := must(t, f.hub, "job", "explain", id)
	for _, want := range []string{"Waits for    a cluster that can run it", "west: it is cordoned", "the data s3://genomes must stay in region eu-east, and it is in region us-west", "east: it has no devices of model A100"} {
		if !strings.Contains(out, want) {
			t.Errorf("ares job explain does not print %q\n%s", want, out)
		}
	}
	if strings.Contains(out, "secret") {
		t.Errorf("ares job explain prints an administrator's reason\n%s", out)
	}
	status, body, err := rest(f.hub.Servers[1], "/api/v1/jobs/"+id+"/explain")
	if err != nil || status != 200 || !strings.Contains(body, `"residency"`) || !strings.Contains(body, `"clusters"`) {
		t.Errorf("over REST: %d %s, %v", status, body, err)
	}
	f.refuseOthers(id)
	// A job that a cluster owns is explained by that cluster.
	owned := f.submit(&apipb.JobSpec{Name: "owned", Command: []string{"sleep", "1000"}, GpuCount: 8})
	f.awaitState(owned, "east", string(ares.Running))
	live.Await(t, cluster.Patience, "the owner's explanation", func() (bool, string) {
		e, err := f.admin.Explain(t.Context(), owned)
		return err == nil && len(e.GetPlacements()) == 1 && len(e.GetClusters()) == 0, fmt.Sprint(e, err)
	})
	if p := f.awaitPlan(f.admin, plain, "east:chosen,capacity north:blocked,registered west:blocked,cordoned"); p.GetPlaced() || p.GetClusters()[0].GetCost().GetWaitingMicros() == 0 {
		t.Errorf("%v", p)
	}
}
