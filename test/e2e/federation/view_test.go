package federation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// This function starts a hub of two servers that share a store.
func startHubOfTwo(t *testing.T) *federation {
	t.Helper()
	f := &federation{t: t, members: map[string]*cluster.Cluster{}}
	f.hub = cluster.Start(t, cluster.Servers(2), cluster.Etcd(1), cluster.TLS(), cluster.Config("role: global\n"+fast))
	f.admin = f.hub.Client()
	return f
}

// The method `joinBoth` joins a cluster to both servers of the hub.
func (f *federation) joinBoth(name string) {
	f.t.Helper()
	token := must(f.t, f.hub, "cluster", "register", name)
	must(f.t, f.members[name], "join", "--global", f.hub.Servers[0].At.GRPC+","+f.hub.Servers[1].At.GRPC, "--token", token, "--federated", "default")
	f.await(name, "ready")
}

// The method `command` starts a command at one server of the hub.
func (f *federation) command(name string, at int, args ...string) *cluster.Process {
	p := cluster.NewProcess(f.t, f.hub.Dir, cluster.Command{
		Name: name, Split: true, Argv: append([]string{f.hub.Ares, "--data-dir", f.hub.Servers[at].Dir}, args...),
	})
	f.t.Cleanup(p.End)
	return p
}

// awaitState waits until the hub shows a job in a state, in a cluster.
func (f *federation) awaitState(id, cluster_, state string) {
	f.t.Helper()
	live.Await(f.t, cluster.Patience, "job "+id+" to be "+state, func() (bool, string) {
		job, err := f.admin.Job(f.t.Context(), id)
		return job.GetState() == state && job.GetCluster() == cluster_, fmt.Sprint(job, err)
	})
}

// count prints numbered lines until a file exists.
const count = `i=0; until test -e "$1"; do echo "line $i"; i=$((i+1)); sleep 0.02; done; echo end`

// TestLogsThroughTheHub follows the output of a job through both servers of a hub, while the server of the job's cluster is killed
// and started again. No line may be lost or repeated.
func TestLogsThroughTheHub(t *testing.T) {
	t.Parallel()
	f := startHubOfTwo(t)
	east := f.start("east", "dgx-h100")
	f.joinBoth("east")
	stop := filepath.Join(t.TempDir(), "stop")
	id := f.submit(&apipb.JobSpec{Name: "counts", Command: []string{"sh", "-c", count, "sh", stop}, GpuCount: 1, Members: 2, GangScheduling: new(true)})
	f.awaitState(id, "east", string(ares.Running))
	readers := map[string]*cluster.Process{
		"one":     f.command("one", 0, "job", "logs", id, "--follow"),
		"other":   f.command("other", 1, "job", "logs", id, "--follow"),
		"all":     f.command("all", 1, "job", "logs", id, "--follow", "--all-ranks"),
		"matches": f.command("matches", 0, "job", "logs", id, "--follow", "--grep", "5$"),
	}
	read := func(text string) {
		t.Helper()
		for name, p := range readers {
			live.Await(t, cluster.Patience, name+" to read "+text, func() (bool, string) { return strings.Contains(p.Out(), text), p.Out() + p.Log() })
		}
	}
	read("line 5\n")
	east.Servers[0].Kill()
	east.Servers[0].Start()
	east.Servers[0].AwaitReady()
	east.AwaitOnline("east-1")
	printed := func() string { return must(t, east, "job", "logs", id, "--tail", "1") }
	live.Await(t, cluster.Patience, "the cluster to have output", func() (bool, string) {
		out, bad, err := run(t, east, "job", "logs", id, "--tail", "1")
		return err == nil, out + bad
	})
	last := printed()
	live.Await(t, cluster.Patience, "the job to print more", func() (bool, string) { now := printed(); return now != last, now })
	if err := os.WriteFile(stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, p := range readers {
		if state := p.Exit(cluster.Patience); !state.Success() {
			t.Errorf("%s ended with %s\n%s", name, state, p.Log())
		}
	}
	whole := must(t, east, "job", "logs", id) + "\n"
	for _, name := range []string{"one", "other"} {
		if out := readers[name].Out(); out != whole {
			t.Errorf("%s has read %d bytes, and the job has printed %d", name, len(out), len(whole))
		}
	}
	matching := ""
	for line := range strings.Lines(whole) {
		if strings.HasSuffix(line, "5\n") {
			matching += line
		}
	}
	if out := readers["matches"].Out(); out != matching {
		t.Errorf("the matching lines are\n%s\nwant\n%s", out, matching)
	}
	second := must(t, east, "job", "logs", id, "--rank", "1") + "\n"
	if out := readers["all"].Out(); strings.Count(out, "\n") != strings.Count(whole, "\n")+strings.Count(second, "\n") || strings.Count(out, "r01| end\n") != 1 {
		t.Errorf("of all ranks, %d lines were read", strings.Count(out, "\n"))
	}
	// The same job after its end, in parts.
	if out := must(t, f.hub, "job", "logs", id, "--rank", "1", "--tail", "1"); out != "end" {
		t.Errorf("the last line is %q", out)
	}
	if out := must(t, f.hub, "job", "logs", id, "--since", "10m"); out+"\n" != whole {
		t.Errorf("since 10m: %d bytes", len(out))
	}
	refused(t, f.hub, "has ranks 0 to 1", "job", "logs", id, "--rank", "7")
	if status, body, err := rest(f.hub.Servers[1], "/api/v1/jobs/"+id+"/logs?tail_lines=1"); err != nil || status != 200 || body != "end\n" {
		t.Errorf("over REST: %d %q, %v", status, body, err)
	}
}

// TestOneView reads jobs of a cluster through both servers of the hub: why a job waits, its events and its latest state. Then the
// cluster is killed, and the answers must say so.
func TestOneView(t *testing.T) {
	t.Parallel()
	f := startHubOfTwo(t)
	east := f.start("east", "dgx-h100")
	f.joinBoth("east")
	running := f.submit(&apipb.JobSpec{Name: "runs", Command: []string{"sh", "-c", "echo hello; sleep 1000"}, GpuCount: 8, MaxRuntimeMinutes: 8})
	f.awaitState(running, "east", string(ares.Running))
	waiting := f.submit(&apipb.JobSpec{Name: "waits", Command: []string{"true"}, GpuCount: 8})
	f.awaitState(waiting, "east", string(ares.Pending)) // the cluster has claimed it ahead
	once := client.Options{Attempts: 1}
	for i, s := range f.hub.Servers {
		c := f.hub.ClientWith(once, s)
		e, err := c.Explain(t.Context(), waiting)
		if err != nil || len(e.GetBlockers()) == 0 || len(e.GetHolders()) != 1 || e.GetHolders()[0].GetJobId() != running || e.GetEta() == nil {
			t.Errorf("server %d explains %v, %v", i, e, err)
		}
		job, err := c.ConsistentJob(t.Context(), running)
		if err != nil || job.GetStaleReason() != "" || job.GetAsOfRevision() == "" || job.AsOfAgeSeconds == nil || job.GetState() != string(ares.Running) {
			t.Errorf("server %d shows %v, %v", i, job, err)
		}
		events, err := c.Events(t.Context(), running)
		text := fmt.Sprint(events.GetEvents())
		if err != nil || events.GetStaleReason() != "" || !strings.Contains(text, "accepted") || !strings.Contains(text, string(ares.Running)) {
			t.Errorf("server %d has the events %s, %v", i, text, err)
		}
	}
	if out := must(t, f.hub, "job", "get", running, "--consistent"); !strings.Contains(out, "Cluster      east\n") {
		t.Errorf("ares job get --consistent prints\n%s", out)
	}
	f.refuseOthers(running)

	for _, p := range append([]*cluster.Process{east.Servers[0].Process}, east.Agents...) {
		p.Kill()
	}
	f.await("east", "unreachable")
	for i, s := range f.hub.Servers {
		c := f.hub.ClientWith(once, s)
		if _, err := c.Explain(t.Context(), waiting); !isUnreachable(err) {
			t.Errorf("server %d explains a waiting job of a lost cluster: %v", i, err)
		}
		if err := c.Logs(t.Context(), running, client.LogOptions{}, &strings.Builder{}); !isUnreachable(err) {
			t.Errorf("server %d reads logs of a lost cluster: %v", i, err)
		}
		job, err := c.ConsistentJob(t.Context(), running)
		if err != nil || job.GetState() != string(ares.Running) || !strings.Contains(job.GetStaleReason(), "cannot be reached since") || job.GetAsOfAgeSeconds() <= 0 {
			t.Errorf("server %d shows a job of a lost cluster as %v, %v", i, job, err)
		}
		events, err := c.Events(t.Context(), running)
		if err != nil || len(events.GetEvents()) < 2 || !strings.Contains(events.GetStaleReason(), "cannot be reached since") {
			t.Errorf("server %d has the events %v, %v", i, events, err)
		}
		if e, err := c.Explain(t.Context(), running); err != nil || len(e.GetPlacements()) != 1 {
			t.Errorf("server %d explains a running job of a lost cluster by %v, %v", i, e, err)
		}
	}
	status, body, err := rest(f.hub.Servers[0], "/api/v1/jobs/"+running+"?consistent=true")
	if err != nil || status != 200 || !strings.Contains(body, `"stale_reason"`) || !strings.Contains(body, "cluster east cannot be reached") || !strings.Contains(body, `"as_of_age_seconds"`) {
		t.Errorf("over REST: %d %s, %v", status, body, err)
	}
	if status, body, err = rest(f.hub.Servers[0], "/api/v1/jobs/"+running+"/logs"); err != nil || status != 503 || !strings.Contains(body, "declare-dead east") {
		t.Errorf("logs over REST: %d %s, %v", status, body, err)
	}
}

// The function `rest` makes a REST call as an administrator.
func rest(s *cluster.Server, path string) (status int, body string, err error) {
	return s.GetAs(s.File("admin.token"), path)
}

// isUnreachable reports whether an error says since when the cluster cannot be reached, and what to do.
func isUnreachable(err error) bool {
	return ares.CodeOf(err) == ares.Unavailable && strings.Contains(err.Error(), "cluster east cannot be reached since ") && strings.Contains(err.Error(), "declare-dead east")
}

// refuseOthers reads a job of the default tenant with a token of another tenant, which must get the answer for a job that
// does not exist.
func (f *federation) refuseOthers(id string) {
	f.t.Helper()
	ctx := f.t.Context()
	if _, err := f.admin.CreateTenant(ctx, &apipb.Tenant{Id: "lab", Name: "Lab"}); err != nil {
		f.t.Fatal(err)
	}
	made, err := f.admin.CreateToken(ctx, &apipb.CreateTokenRequest{TenantId: "lab", Name: "eve", Bindings: []*apipb.Binding{{Role: string(ares.TenantAdmin), TenantId: "lab"}}})
	if err != nil {
		f.t.Fatal(err)
	}
	eve := f.hub.ClientWith(client.Options{Token: made.GetToken(), Attempts: 1})
	_, explained := eve.Explain(ctx, id)
	_, events := eve.Events(ctx, id)
	_, got := eve.ConsistentJob(ctx, id)
	for call, err := range map[string]error{
		"logs": eve.Logs(ctx, id, client.LogOptions{}, &strings.Builder{}), "explain": explained, "events": events, "get": got,
	} {
		if ares.CodeOf(err) != ares.NotFound || strings.Contains(err.Error(), "east") {
			f.t.Errorf("%s of another tenant's job: %v", call, err)
		}
	}
}

// TestUsageAtTheHub compares the usage of a job at the hub with that in its cluster.
func TestUsageAtTheHub(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east := f.start("east", "dgx-h100")
	f.join("east", "--region", "eu-east")
	began := time.Now().UTC().Format(time.DateOnly)
	id := f.submit(&apipb.JobSpec{Name: "used", Command: []string{"sh", "-c", "sleep 1; exit 3"}, GpuCount: 3, GpuModel: "H100", Retry: &apipb.RetryPolicy{MaxRetries: new(int32(1)), InitialBackoffSeconds: 0.1}})
	if job, err := f.admin.Wait(t.Context(), id); err != nil || job.GetState() != string(ares.Failed) || len(job.GetAttempts()) != 2 {
		t.Fatalf("%v, %v", job, err)
	}
	there, err := east.Client().Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	here, err := f.admin.Job(t.Context(), id)
	if err != nil || here.GetUse().GetGpuHours() != there.GetUse().GetGpuHours() || here.GetUse().GetGpuHours() < 2*3*1.0/3600 {
		t.Errorf("the job has used %v at the hub and %v in its cluster, %v", here.GetUse(), there.GetUse(), err)
	}
	query := &apipb.GetUsageRequest{By: []string{"model"}, From: began}
	hours := func(c *client.Client) (string, float64) {
		t.Helper()
		used, err := c.Usage(t.Context(), query)
		if err != nil || len(used.GetRows()) != 1 {
			t.Fatalf("%v, %v", used, err)
		}
		return used.GetRows()[0].GetGpuModel(), used.GetRows()[0].GetGpuHours()
	}
	_, own := hours(east.Client())
	if model, sum := hours(f.admin); sum != own || sum != here.GetUse().GetGpuHours() || model != "H100" {
		t.Errorf("the hub has used %v GPU-hours of model %q, and the cluster %v", sum, model, own)
	}
	list, err := f.admin.Jobs(t.Context(), &apipb.ListJobsRequest{All: true})
	if err != nil || len(list.GetJobs()) != 1 || list.GetJobs()[0].GetCluster() != "east" || list.GetJobs()[0].GetUse().GetGpuHours() != own {
		t.Errorf("the hub lists %v, %v", list, err)
	}
	if out := must(t, f.hub, "job", "list", "--all"); !strings.Contains(out, "east") {
		t.Errorf("ares job list --all prints\n%s", out)
	}
}
