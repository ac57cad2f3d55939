package job

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

func sampleJob() *apipb.Job {
	return &apipb.Job{
		JobId: "job-1", Name: "train \x1b]0;owned\x07\x1b[31mme\nnow", TenantId: "vision", Queue: "default", State: "pending",
		Reason: "waiting for another place", Priority: 500, PriorityClass: "normal", Members: 2, GpuCount: 4, CpuCores: 8,
		Command: []string{"python", "train.py", "it's"}, CreatedAt: at(-3700), Retries: 1,
		WaitingFor: []string{"8 GPUs: 2 free", "tenant limit"},
		Stop:       &apipb.StopIntent{Why: "cancel", By: "ann", At: at(-5)},
		Progress:   &apipb.JobProgress{Percent: 42.5, Message: "epoch 3", At: at(-2)},
		Result:     &apipb.JobResult{Outcome: "failed", ExitCode: 7, Reason: "exit status 7"},
		Attempts: []*apipb.Attempt{{
			Number: 1, Fence: "41", StartedAt: at(-100), EndedAt: at(-40), Outcome: "failed", Reason: "exit status 7",
			Seats: []*apipb.JobSeat{
				{Rank: 0, Node: "a", Gpus: []int32{0, 1, 2, 6}, State: "released", Outcome: "failed", ExitCode: 7},
				{Rank: 1, Node: "b", State: "voided"},
			},
		}},
	}
}

func TestJobSheet(t *testing.T) {
	t.Setenv("TZ", "UTC")
	a, out := newTestCommands()
	a.writeJob(out, sampleJob(), true)
	got := strings.ReplaceAll(out.String(), at(-3700).AsTime().Local().Format(time.RFC3339), "THEN")
	want := `Job          job-1
Name         train me now
State        pending
Reason       waiting for another place
Waits for    - 8 GPUs: 2 free
             - tenant limit
Stopping     cancel by ann, requested 5.0s ago
Progress     42.5 % epoch 3 (2.0s ago)
Result       failed: exit code 7, exit status 7
Retries      1
Tenant       vision
Queue        default
Priority     500 (normal)
Asks         2 members, each: 4 GPUs, 8 CPU cores
Command      python train.py 'it'\''s'
Created      THEN (1h01m ago)

ATTEMPT  RANK  NODE  GPUS   SEAT      OUTCOME  EXIT  RAN  FENCE  REASON
1        0     a     0-2,6  released  failed   7     60s  41     exit status 7
1        1     b     -      voided                   60s  41     exit status 7
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestJobShowsLimitAndNotifications checks that a user sees the time limit, which "ares update" changes, and the notifications.
func TestJobShowsLimitAndNotifications(t *testing.T) {
	a, out := newTestCommands()
	j := sampleJob()
	j.Spec = &apipb.JobSpec{MaxRuntimeMinutes: 90, Notify: []string{"end,fail=mail"}}
	a.writeJob(out, j, false)
	for _, want := range []string{"\nTime limit   1h30m for each attempt\n", "\nNotify       - end,fail=mail\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

func TestJobTable(t *testing.T) {
	a, out := newTestCommands()
	a.WriteTable(out, a.jobTable(&apipb.ListJobsResponse{Jobs: []*apipb.Job{sampleJob(), {JobId: "job-22", Name: "überlang", State: "running"}}, Total: new(int32(5))}, false))
	want := `ID      NAME          TENANT  STATE    PRIORITY  GPUS  AGE    REASON
job-1   train me now  vision  pending  500       2x4   1h01m  8 GPUs: 2 free; tenant limit
job-22  überlang              running  0         0     -
2 of 5 jobs; show more with --limit N
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	out.Reset()
	a.Color = true
	a.WriteTable(out, a.jobTable(&apipb.ListJobsResponse{Jobs: []*apipb.Job{sampleJob()}}, false))
	if !strings.Contains(out.String(), "\x1b[33mpending\x1b[0m") || strings.Contains(out.String(), "owned") {
		t.Errorf("colors: %q", out)
	}
}

// TestJobTableOfHub checks that the jobs of a hub are listed with their clusters.
func TestJobTableOfHub(t *testing.T) {
	a, out := newTestCommands()
	jobs := []*apipb.Job{{JobId: "job-1", Name: "here", State: "running", Cluster: "east"}, {JobId: "job-2", Name: "waits", State: "pending"}}
	a.WriteTable(out, a.jobTable(&apipb.ListJobsResponse{Jobs: jobs}, false))
	want := `ID     NAME   TENANT  STATE    PRIORITY  GPUS  CLUSTER  AGE  REASON
job-1  here           running  0         0     east     -
job-2  waits          pending  0         0              -
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

// TestJobShowsConstraints checks that `ares job get` shows constraints in the syntax of
// --constraint.
func TestJobShowsConstraints(t *testing.T) {
	var out strings.Builder
	rs := []*apipb.NodeRequirement{{Key: "gpu.memory", Operator: ">=", Values: []string{"80G"}}, {Key: "spot", Operator: "DoesNotExist"}}
	(&commands{&command.App{}}).writeJob(&out, &apipb.Job{Spec: &apipb.JobSpec{Placement: &apipb.Placement{NodeRequirements: rs}}}, true)
	if !strings.Contains(out.String(), "\nConstraints  gpu.memory>=80G, !spot\n") {
		t.Error(out.String())
	}
	out.Reset()
	if (&commands{&command.App{}}).writeJob(&out, &apipb.Job{}, true); strings.Contains(out.String(), "Constraints") {
		t.Error(out.String())
	}
}

func TestAnEndedJobSaysWhetherItMetItsDeadline(t *testing.T) {
	due := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state string
		ended time.Duration
		want  string
	}{
		{"succeeded", -time.Minute, "2030-01-02T12:00:00Z: met"},
		{"succeeded", 2 * time.Minute, "2030-01-02T12:00:00Z: missed, the job ended 2m00s late"},
		{"failed", -time.Minute, "2030-01-02T12:00:00Z: the job ended before it, but did not succeed"},
	} {
		j := &apipb.Job{State: c.state, Spec: &apipb.JobSpec{Deadline: timestamppb.New(due)}, FinishedAt: timestamppb.New(due.Add(c.ended))}
		if got := deadlineKept(j); got != c.want {
			t.Errorf("%s after %s: %q, want %q", c.state, c.ended, got, c.want)
		}
	}
	if got := deadlineKept(&apipb.Job{Spec: &apipb.JobSpec{}, FinishedAt: timestamppb.New(due)}); got != "" {
		t.Errorf("no deadline was set: %q", got)
	}
}

func TestWriteExplanation(t *testing.T) {
	e := &apipb.Explanation{
		JobId: "job-1", Queue: "training", Rank: 2, Of: 5,
		Blockers: []*apipb.Blocker{{Kind: "nodes", Count: 3, Of: 40, Detail: "GPU model"}, {Kind: "quota", Detail: "tenant quota 16 of 16"}},
		Remedies: []*apipb.Remedy{
			{Steps: []*apipb.Step{{Kind: "raise_quota", Text: "raise the quota by 2"}, {Kind: "uncordon_node", Target: "n1"}}},
			{Steps: []*apipb.Step{{Text: "end job-7"}}},
		},
		Ahead:   []*apipb.Ahead{{TenantId: "vision", Jobs: 1, First: "job-9"}, {Jobs: 3}},
		Holders: []*apipb.Holder{{TenantId: "vision", JobId: "job-7", Gpus: 8, Nodes: 1}, {Gpus: 1, Nodes: 2}},
	}
	var out bytes.Buffer
	(&commands{&command.App{Printer: output.Printer{Now: time.Now}}}).writeExplanation(&out, e)
	want := `Job          job-1
Queue        training
In line      2 of 5 in queue training
Waits for    - 3 of 40 nodes: GPU model
             - tenant quota 16 of 16
Would help   - raise the quota by 2, and uncordon_node n1
             - end job-7
Ahead        - 1 job of tenant vision, next job-9
             - 3 jobs of other tenants
Held         - 8 GPUs on 1 node by job-7
             - 1 GPU on 2 nodes by other tenants
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	out.Reset()
	uncolored().writeJob(&out, &apipb.Job{JobId: "job-1", State: "pending", WaitingFor: []string{"tenant quota 16 of 16"}, Explanation: e}, true)
	for _, want := range []string{
		"Waits for    - tenant quota 16 of 16\n", "In line      2 of 5 in queue training\n",
		"Would help   raise the quota by 2, and uncordon_node n1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the job shows no %q in\n%s", want, out.String())
		}
	}
	out.Reset()
	(&commands{&command.App{Printer: output.Printer{Now: time.Now}}}).writeExplanation(&out, &apipb.Explanation{JobId: "job-1"})
	if !strings.Contains(out.String(), "nothing: the next cycle can place it") {
		t.Errorf("a job that nothing keeps shows\n%s", out.String())
	}
}

func TestAPlacedJobShowsItsScoreByParts(t *testing.T) {
	var out bytes.Buffer
	uncolored().writeJob(&out, &apipb.Job{JobId: "job-1", State: "running", Attempts: []*apipb.Attempt{{Number: 1, Score: 1}, {
		Number: 2, Score: 2300, PlacementScore: &apipb.PlacementScore{
			Level: "leaf", Domain: "leaf-1", Availability: 900, Alignment: 800, Utilization: 700, History: 600, Weighted: 810,
			StrandedMilli: -250, BandwidthMbps: 300_000, FirstFitMbps: 100_000,
		},
	}}}, true)
	for _, want := range []string{
		"Score        2300\n", "Within       leaf leaf-1\n", "Strands      -0.250 GPUs\n",
		"Domain       810 of 1000: availability 900, alignment 800, utilization 700, history 600\n",
		"Bandwidth    300000 MB/s at the slowest link, 3.00 times the 100000 of a first fit\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in\n%s", want, out.String())
		}
	}
}

// TestForecastTexts checks the lines about a predicted runtime: without an estimate, without a median, and for a running
// job that is late.
func TestForecastTexts(t *testing.T) {
	for name, c := range map[string]struct {
		of   *apipb.RuntimeForecast
		want string
	}{
		"nothing":     {nil, ""},
		"no estimate": {&apipb.RuntimeForecast{Basis: "no estimate: no run"}, "Runtime      no estimate: no run\n"},
		"wide":        {&apipb.RuntimeForecast{P90Seconds: new(3600.0), Basis: "2 runs"}, "Runtime      p90 1h00m of similar jobs\nBy           2 runs\n"},
		"waiting": {
			&apipb.RuntimeForecast{P50Seconds: new(60.0), P90Seconds: new(120.0), Basis: "9 runs"},
			"Runtime      median 60s, p90 2m00s of similar jobs\nBy           9 runs\n",
		},
		"running": {
			&apipb.RuntimeForecast{P50Seconds: new(60.0), P90Seconds: new(120.0), Basis: "9 runs", P50End: at(10), P90End: at(70)},
			"Runtime      median 60s, p90 2m00s of similar jobs\nBy           9 runs\nEnds         in 10s (median), in 70s (p90)\n",
		},
		"late": {
			&apipb.RuntimeForecast{P50Seconds: new(60.0), P90Seconds: new(120.0), Basis: "9 runs", P50End: at(-70), P90End: at(-10)},
			"Runtime      median 60s, p90 2m00s of similar jobs\nBy           9 runs\nEnds         late: 10s past the p90 runtime of earlier runs\n",
		},
	} {
		a, out := newTestCommands()
		a.writeForecast(output.NewSheet(out), c.of)
		if out.String() != c.want {
			t.Errorf("%s: %q, want %q", name, out.String(), c.want)
		}
	}
}

// sampleClusters are what a hub expects of four clusters.
func sampleClusters() []*apipb.ClusterOutlook {
	return []*apipb.ClusterOutlook{
		{
			Cluster: "east", Region: "eu-east", Verdict: "chosen", Rank: 1, GpuModel: "H100", Fits: true, StartsAt: at(0),
			Cost: &apipb.ClusterCost{TotalMicros: 20_000_000, ComputeMicros: 20_000_000},
		},
		{
			Cluster: "north", Verdict: "possible", GpuModel: "H100", StartsAt: at(300),
			Cost:     &apipb.ClusterCost{TotalMicros: 16_088_434, ComputeMicros: 16_000_000, WaitingMicros: 83_334, EgressMicros: 5_000, TransferMicros: 100},
			Blockers: []*apipb.ClusterBlocker{{Kind: "capacity", Detail: "2 of its 8 devices of model H100 are free now, and the job needs 8"}},
		},
		{
			Cluster: "south", Region: "us-south", Verdict: "blocked",
			Blockers: []*apipb.ClusterBlocker{{Kind: "cordoned", Detail: "it is cordoned"}, {Kind: "residency", Detail: "the data s3://a\x1b[31m must stay in region eu-east, and it is in region us-south"}},
		},
	}
}

// clusterTable is how sampleClusters are shown.
const clusterTable = `
CLUSTER  REGION    VERDICT   GPUS  STARTS          COST   COMPUTE  EGRESS  WAITING  TRANSFER
east     eu-east   chosen    H100  now             20.00  20.00    0.00    0.00     0.00
north    -         possible  H100  in about 5m00s  16.09  16.00    <0.01   0.08     <0.01
south    us-south  blocked   -     -               -      -        -       -        -

Blockers     - north: 2 of its 8 devices of model H100 are free now, and the job needs 8
             - south: it is cordoned
             - south: the data s3://a must stay in region eu-east, and it is in region us-south
`

// TestHubPlan checks what "ares job plan" shows at a hub.
func TestHubPlan(t *testing.T) {
	all := sampleClusters()
	quota := &apipb.Explanation{Queue: "default", Blockers: []*apipb.Blocker{{Kind: "quota", Detail: "tenant limit"}}}
	for _, c := range []struct {
		plan *apipb.PlanJobResponse
		want string
	}{
		{&apipb.PlanJobResponse{Placed: true, Clusters: all}, "The hub would offer the job to cluster east first, which could start it now.\n" + clusterTable},
		{&apipb.PlanJobResponse{Explanation: quota, Clusters: all}, "The job would wait at the hub.\nQueue        default\nWaits for    - tenant limit\n" + clusterTable},
		{&apipb.PlanJobResponse{Explanation: &apipb.Explanation{}, Clusters: []*apipb.ClusterOutlook{{Cluster: "a", Rank: 1}}}, "The job would wait: no cluster has enough free capacity now.\n"},
		{&apipb.PlanJobResponse{Explanation: &apipb.Explanation{}, Clusters: all[2:]}, "The job would wait: no cluster can run it now.\n"},
	} {
		a, out := newTestCommands()
		a.writePlan(out, c.plan)
		if !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("got\n%s\nwant\n%s", out, c.want)
		}
	}
}

// TestExplainedClusters checks what "ares job explain" shows at a hub for a job that no cluster owns.
func TestExplainedClusters(t *testing.T) {
	all := sampleClusters()
	show := func() string {
		a, out := newTestCommands()
		a.writeExplanation(out, &apipb.Explanation{JobId: "hub-1", Queue: "default", State: "pending", Clusters: all})
		return out.String()
	}
	const head = "Job          hub-1\nQueue        default\nWaits for    "
	if got, want := show(), head+"the next offer, to east\n"+clusterTable; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	all[0].Offered = true
	if got, want := show(), head+"an answer from east\n"+clusterTable; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	all = all[1:]
	all[0].Rank, all[0].Verdict = 1, "chosen"
	if got := show(); !strings.HasPrefix(got, head+"free capacity in a cluster that may run it\n") {
		t.Error(got)
	}
	all = all[1:]
	if got := show(); !strings.HasPrefix(got, head+"a cluster that can run it\n") {
		t.Error(got)
	}
}
