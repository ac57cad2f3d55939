package ares_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

func grantedJob(mode ares.Mode) *ares.Job {
	j := &ares.Job{ID: ares.NewHubJobID("t", "r"), Origin: &ares.Origin{Hub: "hub", Epoch: 7}}
	j.Mode = mode
	return j
}

// TestHubJobID checks that the IDs of a hub's jobs have a name space of their own.
func TestHubJobID(t *testing.T) {
	id := ares.NewHubJobID("t", "r")
	if !ares.ValidJobID(string(id)) {
		t.Errorf("%s is not a job ID", id)
	}
	for what, other := range map[string]ares.JobID{
		"the same request in a member": ares.NewJobID("t", "r"), "another request": ares.NewHubJobID("t", "s"), "a shifted request": ares.NewHubJobID("tr", ""),
		"an element": ares.ElementID("t", 0), "a tenant that looks like the prefix": ares.NewJobID("hub ", "tr"),
	} {
		if id == other {
			t.Errorf("%s has the same ID", what)
		}
	}
	if id != ares.NewHubJobID("t", "r") {
		t.Error("the same request has two IDs")
	}
}

// place places an attempt of one rank and returns it with a fence.
func place(t *testing.T, r *ares.Run, f ares.Fence) *ares.Attempt {
	t.Helper()
	if err := r.Place([]ares.Seat{{Node: "a"}}, 0, t0); err != nil {
		t.Fatal(err)
	}
	r.Last().Fence = f
	return r.Last()
}

// TestFencingToken checks rule F12: the tokens of a granted job only grow, over attempts, restores and grants.
func TestFencingToken(t *testing.T) {
	local, r := &ares.Job{}, ares.NewRun(t0)
	if token := r.FencingToken(local, place(t, &r, 99)); token != 99 {
		t.Errorf("the token of a local job is %d, and its fence 99", token)
	}
	j, r := grantedJob(ares.Restart), ares.NewRun(t0)
	last := int64(0)
	grows := func(what string, token int64) {
		t.Helper()
		if token <= last {
			t.Errorf("%s: the token %d follows %d", what, token, last)
		}
		last = token
	}
	a := place(t, &r, 1000)
	grows("the first attempt", r.FencingToken(j, a))
	if last>>16 != 7 {
		t.Errorf("the token %d does not begin with the epoch", last)
	}
	for range 2 {
		if changed, err := r.Restore(j, t0); err != nil || !changed {
			t.Fatalf("restored: %t, %v", changed, err)
		}
	}
	next := ares.Attempt{Number: r.Placed + 1, Fence: 3}
	if token := r.FencingToken(j, &next); token < last+2000 {
		t.Errorf("the token %d follows %d and two restores", token, last)
	}
	grows("after two restores", r.FencingToken(j, &next))
	many := ares.Attempt{Number: 1 << 20}
	grows("very many attempts", r.FencingToken(j, &many))
	j.Origin.Epoch, r = 8, ares.NewRun(t0)
	grows("the next grant", r.FencingToken(j, place(t, &r, 1)))
}

// TestReturn checks rule F3 for each state of a run.
func TestReturn(t *testing.T) {
	failed := func(t *testing.T, j *ares.Job, released bool) ares.Run {
		t.Helper()
		r := ares.NewRun(t0)
		a := place(t, &r, 5)
		if err := r.Claim(j, 5, 0, "a", t0); err != nil {
			t.Fatal(err)
		}
		if err := r.Finish(j, 5, 0, ares.RankResult{Outcome: ares.OutcomeLost}, t0); err != nil {
			t.Fatal(err)
		}
		if released {
			a = r.Last()
			a.Seats[0].State = ares.SeatReleased
		}
		return r
	}
	for what, c := range map[string]struct {
		job  *ares.Job
		run  func(*testing.T, *ares.Job) ares.Run
		want bool
	}{
		"waits":                 {grantedJob(ares.Restart), func(*testing.T, *ares.Job) ares.Run { return ares.NewRun(t0) }, true},
		"at_most_once waits":    {grantedJob(ares.AtMostOnce), func(*testing.T, *ares.Job) ares.Run { return ares.NewRun(t0) }, true},
		"was submitted here":    {&ares.Job{}, func(*testing.T, *ares.Job) ares.Run { return ares.NewRun(t0) }, false},
		"an attempt under way":  {grantedJob(ares.Restart), func(t *testing.T, _ *ares.Job) ares.Run { r := ares.NewRun(t0); place(t, &r, 5); return r }, false},
		"a process may live":    {grantedJob(ares.Restart), func(t *testing.T, j *ares.Job) ares.Run { return failed(t, j, false) }, false},
		"waits again":           {grantedJob(ares.Restart), func(t *testing.T, j *ares.Job) ares.Run { return failed(t, j, true) }, true},
		"not confirmed":         {grantedJob(ares.Restart), func(*testing.T, *ares.Job) ares.Run { r := ares.NewRun(t0); r.Unconfirmed = true; return r }, false},
		"an array with element": {grantedJob(ares.Restart), func(*testing.T, *ares.Job) ares.Run { r := ares.NewRun(t0); r.Next = 1; return r }, false},
		"at_most_once placed": {grantedJob(ares.AtMostOnce), func(*testing.T, *ares.Job) ares.Run {
			r := ares.NewRun(t0)
			r.Placed = 1
			return r
		}, false},
	} {
		r := c.run(t, c.job)
		err := r.Return(c.job, "full", t0)
		if got := err == nil; got != c.want {
			t.Errorf("%s: returned %t (%v), want %t", what, got, err, c.want)
		}
		if err == nil && (r.Phase != ares.Returned || !r.Phase.Final() || r.FinishedAt != t0) {
			t.Errorf("%s: it is %s", what, r.Phase)
		}
		if err != nil && ares.CodeOf(err) != ares.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	element := grantedJob(ares.Restart).Element(3)
	r := ares.NewRun(t0)
	if err := r.Return(element, "full", t0); ares.CodeOf(err) != ares.Conflict {
		t.Errorf("an element alone was returned: %v", err)
	}
}

// TestMirrorKeepsUsage checks that the usage of an earlier owner stays in the hub's run.
func TestMirrorKeepsUsage(t *testing.T) {
	hub := ares.NewRun(t0)
	hub.Ran, hub.Placed, hub.Retries = 5, 2, 1
	hub.DroppedUsage = []ares.MonthUsage{{First: t0, GPUMilli: 10, Ran: 5}}
	base := hub.Base()
	if err := hub.Bind("west", 7, t0); err != nil {
		t.Fatal(err)
	}
	owner := ares.NewRun(t0)
	place(t, &owner, 5)
	owner.Ran, owner.Retries, owner.Revision = 3, 2, 9
	owner.DroppedUsage = []ares.MonthUsage{{First: t0.AddDate(0, 0, 1), GPUMilli: 4, Ran: 3}}
	for range 2 { // the second copy must not add the usage again
		if _, err := hub.Mirror(&base, &owner); err != nil {
			t.Fatal(err)
		}
		owner.Revision++
	}
	if hub.Ran != 8 || hub.Placed != 3 || hub.Retries != 3 || hub.Last().Number != 3 || len(hub.DroppedUsage) != 1 || hub.DroppedUsage[0].GPUMilli != 14 {
		t.Errorf("the copy is %+v", hub)
	}
	if base.DroppedUsage[0].GPUMilli != 10 {
		t.Error("the copy has changed what happened before")
	}
}

// TestReturnedDependency checks that a returned job meets no dependency on its end: it may end in another cluster.
func TestReturnedDependency(t *testing.T) {
	for _, d := range []ares.DependencyType{ares.AfterOK, ares.AfterNotOK, ares.AfterAny, ares.AfterCorr, ares.AfterStart} {
		if got := d.State(ares.Returned, false); got != ares.DependencyNever {
			t.Errorf("%s on a returned job is %d", d, got)
		}
	}
	if ares.Singleton.State(ares.Returned, false) != ares.DependencyMet || ares.AfterStart.State(ares.Returned, true) != ares.DependencyMet {
		t.Error("a returned job holds back a job that only waits for its start or its absence")
	}
}

// TestMirrorKeepsAttempts moves a job through several clusters. The hub must keep the last attempts, with their clusters and numbers,
// and the usage of all of them.
func TestMirrorKeepsAttempts(t *testing.T) {
	hub, job := ares.NewRun(t0), grantedJob(ares.Restart)
	now, clusters := t0, []string{"a", "b", "c"}
	for i, cluster := range clusters {
		base := hub.Base()
		if err := hub.Bind(cluster, int64(i+1), now); err != nil {
			t.Fatal(err)
		}
		owner := ares.NewRun(now)
		owner.Retries = 4
		for k := range 4 {
			owner.Attempts = append(owner.Attempts, ares.Attempt{
				Number: k + 1, Fence: ares.Fence(k + 1), PlacedAt: now, StartedAt: now, EndedAt: now.Add(time.Hour), Outcome: ares.OutcomeFailed,
				Seats: []ares.SeatStatus{{Seat: ares.Seat{Node: "n", Shares: []ares.Share{{Device: "d", Milli: 1000}}}, State: ares.SeatReleased}},
			})
			now = now.Add(time.Hour)
		}
		owner.Placed = 4
		for range 2 { // the second copy must change nothing
			owner.Revision++
			if _, err := hub.Mirror(&base, &owner); err != nil {
				t.Fatal(err)
			}
		}
		if err := hub.Unbind(job, false, "it failed there", now); err != nil {
			t.Fatal(err)
		}
	}
	if len(hub.Attempts) != ares.MaxAttemptsKept || hub.Placed != 12 || hub.Retries != 12 || hub.RanFor(now) != 12*time.Hour {
		t.Errorf("%d attempts of %d are kept, after %d retries and %s", len(hub.Attempts), hub.Placed, hub.Retries, hub.RanFor(now))
	}
	for i := range hub.Attempts {
		if a := &hub.Attempts[i]; a.Number != i+5 || a.Cluster != clusters[1+i/4] {
			t.Errorf("attempt %d is %+v", i, a)
		}
	}
	if u := hub.DroppedUsage; len(u) != 1 || u[0].GPUMilli != 4*1000*3_600_000 || u[0].Ran != 4*time.Hour {
		t.Errorf("the usage of the dropped attempts is %+v", u)
	}
}
