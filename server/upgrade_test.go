package server_test

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
)

// This archive contains a data directory of an earlier version, with one object of
// every kind. The program testdata/upgrade/make created the data directory at commit
// 949e3a0.
const earlier = "testdata/upgrade/949e3a0.tar.gz"

// These are the jobs of the earlier data directory. A job's ID is derived from its request ID.
const (
	earlierSucceeded = "job-77zudn3id27r4hkiwsj5vz7r"
	earlierFailed    = "job-w4vd6frvkagc3mnpyqj63e6a"
	earlierRetried   = "job-t3wcmbu2lxi7gnriwhtxjfeo"
	earlierCancelled = "job-pomlbxts2yii6dmuhmzejxok"
	earlierRunning   = "job-33aaqu76y46necgxufeb25dz"
	earlierArray     = "job-p2elsm5bsdhifwz6nkyquegi"
	earlierQueued    = "job-karalrwl4ayb2h6eij2rg66x"
	earlierAfter     = "job-55aaikaf7akbmmnwrw4ixlge"
)

// TestADataDirectoryOfAnEarlierVersionGoesOn checks that a server reads the data of an earlier version. If somebody renames a key,
// a field or a file, an object is missing and the test fails.
func TestADataDirectoryOfAnEarlierVersionGoesOn(t *testing.T) {
	_, c := up(t, "v100-4", func(cfg *server.Config) {
		cfg.DataDir = unpack(t, earlier)
		cfg.History.RetentionDays, cfg.Audit.KeepDays, cfg.Jobs.RememberDays = 0, 0, 3660
		cfg.Isolation.AllowUntrusted = true // the earlier version stored no jobs as trusted
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	t.Run("tenants and queues", func(t *testing.T) { earlierTenants(ctx, t, c) })
	t.Run("access", func(t *testing.T) { earlierAccess(ctx, t, c) })
	t.Run("nodes", func(t *testing.T) { earlierNodes(ctx, t, c) })
	t.Run("ended jobs", func(t *testing.T) { earlierEnded(ctx, t, c) })
	t.Run("history", func(t *testing.T) { earlierHistory(ctx, t, c) })
	t.Run("audit", func(t *testing.T) {
		got, err := c.VerifyAudit(ctx)
		if err != nil || !got.Ok || count(t, got.Entries) < 20 || count(t, got.Signed) < 20 {
			t.Errorf("the audit log verifies as %v, %v", got, err)
		}
	})
	t.Run("live jobs", func(t *testing.T) { earlierLive(ctx, t, c) })
}

func earlierTenants(ctx context.Context, t *testing.T, c *client.Client) {
	tenant := value(c.Tenant(ctx, "vision"))(t)
	if tenant.Name != "Vision team" || tenant.GetMaxGpus() != 3 || tenant.GetPriorityTier() != "critical" ||
		tenant.GetFairShareWeight() != 2.5 || tenant.GetGpuHoursPerMonth() != 500 || tenant.GetCreatedAt() == nil {
		t.Errorf("the tenant is %v", tenant)
	}
	if len(tenant.Quotas) != 1 || tenant.Quotas[0].NominalGpus != 2 || tenant.Quotas[0].GetBorrowingLimit() != 1 || tenant.Quotas[0].GetLendingLimit() != 1 {
		t.Errorf("its quotas are %v", tenant.Quotas)
	}
	if q := value(c.Queue(ctx, "vision", "training"))(t); q.GetWeight() != 3 || q.GetMaxGpus() != 2 {
		t.Errorf("the queue is %v", q)
	}
	if q := value(c.Queue(ctx, "vision", "night"))(t); q.GetParent() != "training" || q.GetMaxGpus() != 1 {
		t.Errorf("the queue under it is %v", q)
	}
}

func earlierAccess(ctx context.Context, t *testing.T, c *client.Client) {
	p := value(c.Policy(ctx, "", "no-long-names"))(t)
	if p.On != "submission" || p.Rule != "size(job.name) <= 40" || p.Action != "REJECT_JOB" || p.Why == "" || p.Broken != "" {
		t.Errorf("the policy is %v", p)
	}
	bindings := value(c.Bindings(ctx, "vision", "group:vision"))(t)
	if len(bindings.Bindings) != 1 || bindings.Bindings[0].Role != "submitter" || bindings.Bindings[0].Queue != "training" {
		t.Errorf("the bindings are %v", bindings.Bindings)
	}
	tokens := value(c.Tokens(ctx, "vision"))(t)
	i := slices.IndexFunc(tokens.Tokens, func(k *apipb.Token) bool { return k.Name == "ci" })
	if expired := time.Now().After(time.Date(2027, 11, 17, 0, 0, 0, 0, time.UTC)); i < 0 && !expired {
		t.Errorf("the tokens are %v", tokens.Tokens)
	}
	if authority := value(c.Authority(ctx))(t); len(authority.String()) == 0 {
		t.Error("the certificate authority is gone")
	}
}

func earlierNodes(ctx context.Context, t *testing.T, c *client.Client) {
	if n := value(c.Node(ctx, "here"))(t); n.State != "cordoned" || n.CordonedBy == "" || n.GpusTotal != 4 {
		t.Errorf("the node is %v", n)
	}
	r := value(c.Reservation(ctx, "disks"))(t)
	if r.Why != "disk swap" || r.NodeSelector["pool"] != "new" || r.Until.AsTime().Sub(r.From.AsTime()) != 30*24*time.Hour {
		t.Errorf("the reservation is %v", r)
	}
	topology := value(c.Topology(ctx))(t)
	if len(topology.Domains) != 2 || len(topology.Switches) != 1 || topology.MaxNodesPerLeaf != 4 ||
		!slices.ContainsFunc(topology.Domains, func(d *apipb.Domain) bool {
			return d.Name == "leaf-1" && d.Parent == "north" && slices.Equal(d.Nodes, []string{"here"})
		}) {
		t.Errorf("the topology is %v", topology)
	}
}

func earlierEnded(ctx context.Context, t *testing.T, c *client.Client) {
	for _, want := range []struct {
		id, name, state string
		attempts        int
		exit            int32
	}{
		{earlierSucceeded, "succeeded", "succeeded", 1, 0},
		{earlierFailed, "failed", "failed", 1, 3},
		{earlierRetried, "retried", "failed", 2, 4},
		{earlierCancelled, "cancelled", "cancelled", 1, 0},
	} {
		j := value(c.Job(ctx, want.id))(t)
		if j.Name != want.name || j.State != want.state || j.TenantId != "vision" || j.Queue != "training" || j.GpuCount != 1 ||
			len(j.Attempts) != want.attempts || j.SubmittedBy == "" || j.FinishedAt == nil {
			t.Errorf("the job %s is %v", want.name, j)
			continue
		}
		last := j.Attempts[want.attempts-1]
		if last.Fence == "" || len(last.Seats) != 1 || last.Seats[0].Node != "here" || last.PlacementScore == nil || last.ExitCode != want.exit && want.exit != 0 {
			t.Errorf("the last attempt of the job %s is %v", want.name, last)
		}
	}
	j := value(c.Job(ctx, earlierSucceeded))(t)
	if j.Spec.Labels["team"] != "a" || j.Spec.RequestId != "succeeded" {
		t.Errorf("what was asked for is %v", j.Spec)
	}
	// Repeating the original request must still return the same job.
	again := value(c.Submit(ctx, &apipb.JobSpec{
		Name: "failed", TenantId: "vision", Queue: "training", RequestId: "failed", GpuCount: 1,
		Retry: &apipb.RetryPolicy{MaxRetries: new(int32)}, Command: []string{"sh", "-c", "exit 3"},
	}))(t)
	if again.JobId != earlierFailed {
		t.Errorf("the request of the job %s is accepted as a new job: %v", earlierFailed, again)
	}
}

func earlierHistory(ctx context.Context, t *testing.T, c *client.Client) {
	prices := value(c.Prices(ctx))(t)
	if len(prices.Prices) != 2 || !slices.ContainsFunc(prices.Prices, func(p *apipb.Price) bool {
		return p.GpuModel == "v100" && p.From == "2026-01-31" && p.PricePerGpuHour == 2.5
	}) {
		t.Errorf("the prices are %v", prices.Prices)
	}
	var used *apipb.UsageRow
	for _, row := range value(c.Usage(ctx, &apipb.GetUsageRequest{By: []string{"tenant"}}))(t).Rows {
		if row.TenantId == "vision" {
			used = row
		}
	}
	if used == nil || used.Jobs < 5 || used.GpuHours <= 0 || used.Cost <= 0 {
		t.Errorf("the tenant's use is %v", used)
	}
}

// earlierLive starts the node of the earlier data directory again. Unfinished attempts are then lost and retried, and
// the waiting jobs run.
func earlierLive(ctx context.Context, t *testing.T, c *client.Client) {
	if j := value(c.Job(ctx, earlierQueued))(t); j.State != "pending" || j.PriorityClass != "high" || j.GpuCount != 2 {
		t.Errorf("the queued job is %v", j)
	}
	// A job keeps the default of the version that accepted it. The supervisor of a running job uses it, so the leader must wait as long.
	if j := value(c.Job(ctx, earlierQueued))(t); j.Spec.LostAfterSeconds != 30 {
		t.Errorf("a job of the earlier version has a lost_after of %d s, want 30 s", j.Spec.LostAfterSeconds)
	}
	if j := value(c.Job(ctx, earlierAfter))(t); j.State != "pending" || !slices.Equal(j.Spec.After, []string{earlierQueued}) {
		t.Errorf("the job after it is %v", j)
	}
	value(c.Uncordon(ctx, "here"))(t)
	for _, id := range []string{earlierRunning, earlierArray, earlierQueued, earlierAfter} {
		if j := value(c.Wait(ctx, id))(t); j.State != "succeeded" {
			t.Errorf("the job %s (%s) is %s: %s", j.Name, id, j.State, j.Reason)
		}
	}
	if j := value(c.Job(ctx, earlierRunning))(t); len(j.Attempts) != 2 || j.Attempts[0].Outcome == "" || count(t, j.Attempts[0].Fence) >= count(t, j.Attempts[1].Fence) {
		t.Errorf("the attempts of the job that ran are %v", j.Attempts)
	}
	if j := value(c.Job(ctx, earlierArray))(t); j.Elements.GetSucceeded() != 3 {
		t.Errorf("the elements of the array are %v", j.Elements)
	}
}

// This function writes the files of a compressed tar archive into a new directory.
func unpack(t *testing.T, archive string) string {
	t.Helper()
	f := value(os.Open(archive))(t)
	defer func() { _ = f.Close() }()
	files := tar.NewReader(value(gzip.NewReader(f))(t))
	dir := value(os.OpenRoot(t.TempDir()))(t)
	defer func() { _ = dir.Close() }()
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir.Name()
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(h.Name)
		if h.Typeflag == tar.TypeDir {
			if err := dir.MkdirAll(name, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		out := value(dir.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600))(t)
		if _, err := io.Copy(out, files); err != nil { //nolint:gosec // the archive is a fixture of this package
			t.Fatal(err)
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// This function returns the result of a call that must succeed, as in value(f())(t).
func value[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func count(t *testing.T, number string) int {
	t.Helper()
	return value(strconv.Atoi(number))(t)
}
