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
