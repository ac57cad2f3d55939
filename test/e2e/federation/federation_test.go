package federation

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A federation is a hub and its clusters.
type federation struct {
	t       *testing.T
	hub     *cluster.Cluster
	members map[string]*cluster.Cluster
	admin   *client.Client // of the hub
}

// fast are the settings of every server, so that a lost cluster is noticed soon.
const fast = "federation: {heartbeat_ms: 500}\n"

// This function starts a hub without clusters.
func startHub(t *testing.T, opts ...cluster.Option) *federation {
	t.Helper()
	f := &federation{t: t, members: map[string]*cluster.Cluster{}}
	f.hub = cluster.Start(t, append(opts, cluster.Servers(1), cluster.TLS(), cluster.Config("role: global\n"+fast))...)
	f.admin = f.hub.Client()
	return f
}

// The method `start` starts a cluster with one node of simulated GPUs. The cluster does not join yet.
func (f *federation) start(name, gpus string, opts ...cluster.Option) *cluster.Cluster {
	f.t.Helper()
	c := cluster.Start(f.t, append(opts, cluster.Servers(1), cluster.Config(fast))...)
	node := name + "-1"
	c.StartAgentWith(node, []string{"--token-file", filepath.Join(c.Servers[0].Dir, server.NodeTokenFile), "--mock", gpus}, c.Servers[0])
	c.AwaitOnline(node)
	f.members[name] = c
	return c
}

// The function `run` runs a command at the server of a cluster, as an administrator on its machine.
func run(t *testing.T, c *cluster.Cluster, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.Ares, append([]string{"--data-dir", c.Servers[0].Dir}, args...)...)
	var out, bad strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &bad
	err = cmd.Run()
	return strings.TrimSpace(out.String()), strings.TrimSpace(bad.String()), err
}

// must fails the test if a command failed.
func must(t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, bad, err := run(t, c, args...)
	if err != nil {
		t.Fatalf("ares %s: %v\n%s\n%s", strings.Join(args, " "), err, out, bad)
	}
	return out
}

// refused fails the test unless a command failed with a text.
func refused(t *testing.T, c *cluster.Cluster, text string, args ...string) {
	t.Helper()
	if out, bad, err := run(t, c, args...); err == nil || !strings.Contains(bad, text) {
		t.Errorf("ares %s: %v, want an error with %q\n%s\n%s", strings.Join(args, " "), err, text, out, bad)
	}
}

// The method `join` registers a cluster at the hub and joins it.
func (f *federation) join(name string, flags ...string) {
	f.t.Helper()
	token := must(f.t, f.hub, append([]string{"cluster", "register", name}, flags...)...)
	must(f.t, f.members[name], "join", "--global", f.hub.Servers[0].At.GRPC, "--token", token, "--federated", "default")
}

// await waits until the hub shows a cluster in a state. A cluster that is ready then also gets offers.
func (f *federation) await(name, state string) {
	f.t.Helper()
	live.Await(f.t, cluster.Patience, "cluster "+name+" to be "+state, func() (bool, string) {
		c, err := f.admin.Cluster(f.t.Context(), name)
		return c.GetState() == state && (state != "ready" || !c.GetUnlisted()), fmt.Sprint(c, err)
	})
}

func (f *federation) submit(spec *apipb.JobSpec) string {
	f.t.Helper()
	made, err := f.admin.Submit(f.t.Context(), spec)
	if err != nil {
		f.t.Fatal(err)
	}
	return made.GetJobId()
}

// TestJobsRunWhereTheirModelIs joins two clusters with different GPUs to a hub. Each job that is submitted to the hub names
// one of the two models, or the region of one of them, and must run in that cluster.
func TestJobsRunWhereTheirModelIs(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	models := map[string]string{"east": "H100", "west": "A100"}
	for name, profile := range map[string]string{"east": "dgx-h100", "west": "dgx-a100"} {
		f.start(name, profile)
	}
	began := time.Now()
	for name := range models {
		f.join(name, "--region", "eu-"+name)
	}
	where := map[string]string{} // by job
	for i := range 10 {
		for name, model := range models {
			spec := &apipb.JobSpec{Name: fmt.Sprintf("%s-%d", name, i), Command: []string{"echo", "hello"}, GpuCount: 1, GpuModel: model}
			if i%5 == 0 { // the hub decides about regions: no node has a label
				spec.GpuModel, spec.Placement = "", &apipb.Placement{Regions: []string{"eu-" + name}}
				spec.Data = []*apipb.DataSet{{Uri: "s3://data", Region: "eu-" + name, Bytes: 1 << 30}}
			}
			where[f.submit(spec)] = name
		}
	}
	first := time.Duration(0)
	for id, name := range where {
		job, err := f.admin.Wait(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = time.Since(began)
		}
		if job.GetState() != string(ares.Succeeded) {
			t.Errorf("job %s, for %s, is %s: %s", id, name, job.GetState(), job.GetReason())
		}
		if _, err = f.members[name].Client().Job(t.Context(), id); err != nil {
			t.Errorf("job %s is not in cluster %s: %v", id, name, err)
		}
		for other, c := range f.members {
			if other == name {
				continue
			}
			if _, err = c.Client().Job(t.Context(), id); ares.CodeOf(err) != ares.NotFound {
				t.Errorf("job %s, for %s, is in cluster %s: %v", id, name, other, err)
			}
		}
		for _, c := range []*cluster.Cluster{f.hub, f.members[name]} {
			if out := must(t, c, "job", "logs", id); out != "hello" {
				t.Errorf("the output of job %s of cluster %s is %q", id, name, out)
			}
		}
	}
	t.Logf("from the first join to the end of the first job: %s", first)
	list := must(t, f.hub, "cluster", "list")
	if !strings.Contains(list, "east") || !strings.Contains(list, "eu-west") || strings.Count(list, "ready") != 2 {
		t.Errorf("the hub lists\n%s", list)
	}
}

// TestJoining checks what an administrator is told when a join cannot work, and that a cluster leaves and joins again.
func TestJoining(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east := f.start("east", "dgx-h100")
	hub := f.hub.Servers[0].At.GRPC
	refused(t, f.hub, "has clusters and no nodes", "node", "token", "create")
	refused(t, east, "this server is not a hub", "cluster", "register", "west")
	refused(t, f.hub, "a hub joins no other hub", "join", "--global", hub, "--token", "x")
	refused(t, east, "not the join token of a cluster", "join", "--global", hub, "--token", "x")
	token := must(t, f.hub, "cluster", "register", "east")
	refused(t, east, "tenants with the names default", "join", "--global", hub, "--token", token)
	forged := token[:len(token)-1] + "0"
	if forged == token {
		forged = token[:len(token)-1] + "1"
	}
	refused(t, east, "matches the CA hash", "join", "--global", hub, "--token", forged, "--federated", "default")
	must(t, east, "join", "--global", "https://"+hub, "--token", token, "--federated", "default")
	must(t, east, "join", "--global", hub, "--token", token, "--federated", "default") // the same again changes nothing
	f.await("east", "ready")
	if said := must(t, east, "cluster", "hub"); !strings.Contains(said, hub) || !strings.Contains(said, "east") {
		t.Errorf("the cluster says of its hub\n%s", said)
	}
	west := f.start("west", "dgx-a100")
	refused(t, west, "already used", "join", "--global", hub, "--token", token, "--federated", "default")

	id := f.submit(&apipb.JobSpec{Name: "first", Command: []string{"true"}, GpuCount: 1})
	if job, err := f.admin.Wait(t.Context(), id); err != nil || job.GetState() != string(ares.Succeeded) {
		t.Fatalf("%v, %v", job, err)
	}
	refused(t, east, "drain it first", "cluster", "leave")
	must(t, f.hub, "cluster", "drain", "east")
	must(t, east, "cluster", "leave")
	f.await("east", "left")
	if said := must(t, east, "cluster", "hub"); !strings.Contains(said, "joined no hub") {
		t.Errorf("after it left, the cluster says\n%s", said)
	}
	f.join("east")
	f.await("east", "ready")
	id = f.submit(&apipb.JobSpec{Name: "second", Command: []string{"true"}, GpuCount: 1})
	if job, err := f.admin.Wait(t.Context(), id); err != nil || job.GetState() != string(ares.Succeeded) {
		t.Fatalf("%v, %v", job, err)
	}
}

// TestALostClusterKeepsItsJobs kills a cluster that runs a job of the hub. The job stays with the cluster until an administrator
// declares it dead; then it runs elsewhere.
func TestALostClusterKeepsItsJobs(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east := f.start("east", "dgx-h100")
	f.join("east")
	f.await("east", "ready")
	id := f.submit(&apipb.JobSpec{Name: "long", Command: []string{"sleep", "1000"}, GpuCount: 1, GpuModel: "H100"})
	live.Await(t, cluster.Patience, "the job to run", func() (bool, string) {
		job, err := f.admin.Job(t.Context(), id)
		return job.GetState() == string(ares.Running), fmt.Sprint(job, err)
	})
	f.start("west", "dgx-h100")
	f.join("west")
	f.await("west", "ready")
	for _, p := range append([]*cluster.Process{east.Servers[0].Process}, east.Agents...) {
		p.Kill()
	}
	f.await("east", "unreachable")
	if job, err := f.admin.Job(t.Context(), id); err != nil || job.GetState() != string(ares.Running) {
		t.Errorf("the job of the lost cluster is %v, %v", job, err)
	}
	refused(t, f.hub, "--yes", "cluster", "declare-dead", "east")
	must(t, f.hub, "cluster", "declare-dead", "east", "--yes", "--reason", "fire")
	live.Await(t, cluster.Patience, "the job to run in the other cluster", func() (bool, string) {
		job, err := f.members["west"].Client().Job(t.Context(), id)
		return job.GetState() == string(ares.Running), fmt.Sprint(job, err)
	})
	if _, err := f.admin.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	job, err := f.admin.Wait(t.Context(), id)
	if err != nil || job.GetState() != string(ares.Cancelled) {
		t.Errorf("the cancelled job is %v, %v", job, err)
	}
}
