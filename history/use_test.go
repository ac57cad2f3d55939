package history_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/history"
	"github.com/ares-scheduler/ares/history/historytest"
)

// TestUsageStaysInItsMonth preempts a job more often than a run keeps attempts. Each month is billed three days after its end, from
// the run of that time. The bills must add up to the usage of the whole job, and each must equal the month's usage at the end.
func TestUsageStaysInItsMonth(t *testing.T) {
	for _, every := range []time.Duration{5 * time.Hour, 36 * time.Hour, 101 * time.Hour} {
		t.Run(every.String(), func(t *testing.T) { usageStaysInItsMonth(t, every) })
	}
}

func usageStaysInItsMonth(t *testing.T, every time.Duration) {
	const gpus = 2
	now := time.Date(2026, 10, 20, 7, 0, 0, 0, time.UTC)
	job := &ares.Job{Spec: ares.Spec{GPUs: gpus, Checkpoint: ares.Checkpoint{Enabled: true}}.WithDefaults(), ID: historytest.ID("long"), AcceptedAt: now}
	run := ares.NewRun(now)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	seats := []ares.Seat{{Node: "n1", Shares: []ares.Share{{Device: "h100@eu", Milli: 1000}, {Device: "h100@eu", Index: 1, Milli: 1000}}}}
	byMonth := func(r *ares.Run) map[string]int64 {
		sums := map[string]int64{}
		for _, p := range history.Parts(job, r, historytest.Kinds, now) {
			if p.Model != "h100" || p.Region != "eu" {
				t.Errorf("usage of %+v, want h100 in eu", p.Kind)
			}
			sums[p.Day[:len("2006-01")]] += p.GPUMilliseconds
		}
		return sums
	}
	billed, closes, total := map[string]int64{}, time.Date(2026, 11, 4, 0, 0, 0, 0, time.UTC), int64(0)
	for n := ares.Fence(1); closes.Year() == 2026; n++ {
		must(run.Place(seats, 0, now))
		run.Attempts[len(run.Attempts)-1].Fence = n
		must(run.Claim(job, n, 0, "n1", now.Add(20*time.Minute))) // the devices are allocated before the job runs
		now = now.Add(every)
		total += gpus * every.Milliseconds()
		if !now.Before(closes) {
			month := closes.AddDate(0, -1, 0).Format("2006-01")
			billed[month] = byMonth(new(run.Clone()))[month]
			closes = closes.AddDate(0, 1, 0)
		}
		if closes.Year() > 2026 {
			must(run.Finish(job, n, 0, ares.RankResult{Outcome: ares.OutcomeSucceeded}, now))
			break
		}
		must(run.RequestStop(ares.Stop{Why: ares.StopPreempt, At: now}))
		must(run.Finish(job, n, 0, ares.RankResult{Outcome: ares.OutcomeStopped}, now))
		must(run.Release(n, 0))
		must(run.Ready(now))
	}
	atEnd, sum := byMonth(&run), int64(0)
	for month, ms := range atEnd {
		sum += ms
		if was, closed := billed[month]; closed && was != ms {
			t.Errorf("%s was billed with %d GPU-hours and has %d at the end", month, was/3600_000, ms/3600_000)
		}
	}
	for month, ms := range billed {
		if ms == 0 || atEnd[month] == 0 {
			t.Errorf("%s was billed with %d ms and has %d at the end", month, ms, atEnd[month])
		}
	}
	if sum != total {
		t.Errorf("the months have %d GPU-hours together, but the job used %d", sum/3600_000, total/3600_000)
	}
}

// TestUsageDroppedByAnEarlierVersion checks a run whose attempts were dropped without their months. The day of acceptance is never in a
// later month than the usage, so this usage is not billed twice.
func TestUsageDroppedByAnEarlierVersion(t *testing.T) {
	f := historytest.Made{ID: "earlier", Edit: func(j *ares.Job, r *ares.Run) {
		r.Ran, j.AcceptedAt = 5*time.Hour, historytest.Noon.AddDate(0, -2, 0)
		r.DroppedUsage = []ares.MonthUsage{{First: historytest.Noon.AddDate(0, -1, 0), GPUMilli: 1000 * time.Hour.Milliseconds(), Ran: time.Hour}}
	}}.Finished()
	got := history.Parts(f.Job, f.Run, f.Kinds, historytest.Noon)
	day := historytest.Noon.AddDate(0, -2, 0).Format(time.DateOnly)
	if len(got) != 3 || got[0].Day != day || got[0].GPUMilliseconds != 4*time.Hour.Milliseconds() || got[1].GPUMilliseconds != time.Hour.Milliseconds() {
		t.Errorf("the usage is %+v", got)
	}
}

// TestUsageAtAHub runs a job in two clusters, one after the other. The hub, which knows neither the nodes nor their devices, must
// count what the two clusters count together.
func TestUsageAtAHub(t *testing.T) {
	now := time.Date(2026, 5, 31, 23, 0, 0, 0, time.UTC)
	job := &ares.Job{Spec: ares.Spec{GPUs: 2, GPUModel: "H100"}.WithDefaults(), ID: historytest.ID("moved"), AcceptedAt: now}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sum := func(j *ares.Job, r *ares.Run, kinds history.Kinds) (n int64) {
		for _, p := range history.Parts(j, r, kinds, now) {
			n += p.GPUMilliseconds
		}
		return n
	}
	none := func(string, string) history.Kind { return history.Kind{} }
	hub, want := ares.NewRun(now), int64(0)
	run := func(outcome ares.Outcome) ares.Run { // an attempt of 90 minutes in a cluster
		r := ares.NewRun(now)
		must(r.Place([]ares.Seat{{Node: "n1", Shares: []ares.Share{{Device: "h100@eu", Milli: 1000}, {Device: "h100@eu", Index: 1, Milli: 1000}}}}, 0, now))
		r.Attempts[0].Fence = 7
		must(r.Claim(job, 7, 0, "n1", now))
		now = now.Add(90 * time.Minute)
		if outcome == ares.OutcomeStopped {
			must(r.RequestStop(ares.Stop{Why: ares.StopPreempt, At: now}))
		}
		must(r.Finish(job, 7, 0, ares.RankResult{Outcome: outcome}, now))
		must(r.Release(7, 0))
		r.Revision = 9
		return r
	}
	for i, cluster := range []string{"east", "west"} {
		base := hub.Base()
		must(hub.Bind(cluster, int64(i+1), now))
		outcome := []ares.Outcome{ares.OutcomeStopped, ares.OutcomeSucceeded}[i]
		owner := run(outcome)
		want += sum(job, &owner, historytest.Kinds)
		if _, err := hub.Mirror(&base, &owner); err != nil {
			t.Fatal(err)
		}
		if outcome == ares.OutcomeStopped {
			must(hub.Unbind(job, false, "returned", now))
		}
	}
	parts := history.Parts(job, &hub, none, now)
	if got := sum(job, &hub, none); got != want || want != 2*2*90*60_000 || hub.Phase != ares.Succeeded || parts[0].Model != "H100" {
		t.Errorf("the hub counts %d GPU-milliseconds, and its clusters %d: %+v", got, want, parts)
	}

	array := &ares.Job{Spec: ares.Spec{GPUs: 2, GPUModel: "H100", Array: ares.Array{Count: 3}}.WithDefaults(), ID: historytest.ID("array"), AcceptedAt: now}
	copied := ares.NewRun(now)
	base := copied.Base()
	must(copied.Bind("east", 3, now))
	own := ares.NewRun(now)
	own.Phase, own.FinishedAt, own.Revision = ares.Succeeded, now, 9
	want = 0
	for range array.Array.Count {
		r := run(ares.OutcomeSucceeded)
		want += sum(job, &r, historytest.Kinds)
		own.AddElements(&r)
	}
	if n := sum(array, &own, historytest.Kinds); n != 0 {
		t.Errorf("the array itself counts %d in its cluster, besides its elements", n)
	}
	if _, err := copied.Mirror(&base, &own); err != nil {
		t.Fatal(err)
	}
	if got := sum(array, &copied, none); got != want {
		t.Errorf("the hub counts %d GPU-milliseconds of the array, and its cluster %d", got, want)
	}
}
