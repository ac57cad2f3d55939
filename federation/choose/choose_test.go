package choose_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster returns a cluster with empty nodes of 8 devices.
func cluster(name, region, model string, nodes int, price int64) choose.Cluster {
	s := &summary.Summary{EgressMicros: 50_000}
	if nodes > 0 {
		s.Shapes = []summary.Shape{{
			Type: summary.Type{Model: model, Devices: 8, CPUs: 64, MemoryMB: 1000}, Free: summary.Free{Devices: 8, CPUs: 64, MemoryMB: 1000}, Count: nodes,
		}}
		s.Models = []summary.Model{{Name: model, Devices: 8 * nodes, Free: 8 * nodes, PriceMicros: price, RuntimeMilli: 1000}}
	}
	return choose.Cluster{Name: name, Region: region, Open: true, Summary: s}
}

func job(id string, revision int64, spec ares.Spec) *ares.Job {
	spec.Tenant = "default"
	return &ares.Job{ID: ares.JobID(id), Spec: spec.WithDefaults(), AcceptedAt: start, Revision: revision}
}

func newChooser(o choose.Options, clusters ...choose.Cluster) *choose.Chooser {
	c := choose.New(config.Default(), o)
	c.Apply(ares.Batch{Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "default", Limits: ares.NoLimits()}}}})
	for _, cl := range clusters {
		c.SetCluster(cl, start)
	}
	return c
}

func submit(c *choose.Chooser, jobs ...*ares.Job) {
	var b ares.Batch
	for _, j := range jobs {
		b.Events = append(b.Events, ares.Event{Job: j})
	}
	c.Apply(b)
}

// TestCost compares each part with exact arithmetic.
func TestCost(t *testing.T) {
	t.Parallel()
	amount := rapid.Int64Range(0, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		q := choose.Quote{
			GPUMilliSeconds: amount.Draw(t, "work"), RuntimeMilli: rapid.Int64Range(0, 100_000).Draw(t, "speed"), PriceMicros: amount.Draw(t, "price"),
			EgressMicros: amount.Draw(t, "egress"), Transfer: time.Duration(amount.Draw(t, "transfer")), StartDelay: time.Duration(amount.Draw(t, "delay")),
			ValueMicros: amount.Draw(t, "value"),
		}
		exact := func(divisor int64, factors ...int64) int64 {
			n := big.NewInt(1)
			for _, f := range factors {
				n.Mul(n, big.NewInt(f))
			}
			n.Add(n, big.NewInt(divisor-1)).Div(n, big.NewInt(divisor))
			if !n.IsInt64() {
				return math.MaxInt64
			}
			return n.Int64()
		}
		got := q.Cost()
		want := choose.Cost{
			Compute: exact(3_600_000_000, q.GPUMilliSeconds, q.PriceMicros, q.RuntimeMilli), Egress: q.EgressMicros,
			Waiting: exact(int64(time.Hour), q.ValueMicros, int64(q.StartDelay)), Transfer: exact(int64(time.Hour), q.ValueMicros, int64(q.Transfer)),
		}
		if got.Compute == math.MaxInt64 && want.Compute > math.MaxInt64/2 {
			got.Compute = want.Compute
		}
		if got != want {
			t.Fatalf("%+v costs %+v, want %+v", q, got, want)
		}
		if sum := got.Total(); sum < 0 || sum < got.Compute || sum < got.Waiting {
			t.Fatalf("the total of %+v is %d", got, sum)
		}
	})
	// 8 GPUs for 2 hours at 1.50, 10 GiB at 0.05 each, and an hour and a half of waiting at 2 an hour.
	q := choose.Quote{GPUMilliSeconds: 8000 * 7200, RuntimeMilli: 1000, PriceMicros: 1_500_000, EgressMicros: 500_000, StartDelay: time.Hour, Transfer: 30 * time.Minute, ValueMicros: 2_000_000}
	if got := q.Cost().String(); got != "27.5 = compute 24 + egress 0.5 + waiting 2 + transfer 1" {
		t.Error(got)
	}
}

// TestShortlist checks that the clusters with the lowest cost are chosen, that capacity held by earlier offers counts,
// and that equal costs are ordered by name.
func TestShortlist(t *testing.T) {
	t.Parallel()
	c := newChooser(choose.Default(), cluster("dear", "eu", "H100", 4, 9_000_000), cluster("b", "eu", "H100", 1, 1_000_000), cluster("a", "us", "H100", 1, 1_000_000), cluster("t4", "us", "T4", 9, 1))
	submit(c, job("j1", 1, ares.Spec{GPUs: 8, GPUModel: "h100"}), job("j2", 2, ares.Spec{GPUs: 8, GPUModel: "h100"}), job("j3", 3, ares.Spec{GPUs: 8, GPUModel: "h100"}), job("gang", 4, ares.Spec{Members: 3, GPUs: 8, GPUModel: "h100"}))
	for round := range 2 { // a decision changes nothing by itself
		offers, more := c.Decide(start)
		var got []string
		for _, o := range offers {
			got = append(got, fmt.Sprintf("%s %v %v", o.Job, o.Clusters(), o.Ahead))
		}
		// The engine may place a job in another cluster than the cheapest, and then does not see that the gang fits.
		if want := []string{"j1 [a b dear] false", "j2 [b dear] false", "j3 [dear] false"}; !slices.Equal(got, want) || more {
			t.Errorf("round %d: %q, want %q", round, got, want)
		}
	}
	c.SetGrant("j1", []string{"a", "b", "dear"}, start)
	c.SetGrant("j3", []string{"dear"}, start)
	offers, _ := c.Decide(start)
	if len(offers) != 2 || offers[0].Job != "j2" || offers[0].Clusters()[0] != "b" || offers[1].Job != "gang" || offers[1].Clusters()[0] != "dear" {
		t.Errorf("%+v", offers)
	}
	c.ClearGrant("j1", start)
	if offers, _ = c.Decide(start); len(offers) < 2 || offers[0].Job != "j1" {
		t.Errorf("%+v", offers)
	}
}

// TestOfferAhead checks that a job that fits nowhere now is offered ahead, except where it can never run.
func TestOfferAhead(t *testing.T) {
	t.Parallel()
	full := cluster("full", "eu", "H100", 2, 1)
	full.Summary.Shapes[0].Free = summary.Free{}
	c := newChooser(choose.Default(), full, cluster("small", "eu", "H100", 1, 1), cluster("none", "eu", "T4", 9, 1))
	submit(c, job("wide", 1, ares.Spec{Members: 2, GPUs: 8, GPUModel: "H100"}))
	if offers, _ := c.Decide(start.Add(choose.AheadAfter - 1)); len(offers) > 0 {
		t.Errorf("offered too early: %+v", offers)
	}
	offers, _ := c.Decide(start.Add(choose.AheadAfter))
	if len(offers) != 1 || !offers[0].Ahead || !slices.Equal(offers[0].Clusters(), []string{"full"}) || offers[0].Candidates[0].Quote.StartDelay < time.Minute {
		t.Errorf("%+v", offers)
	}
	var said []string
	for _, v := range c.Explain(job("wide", 1, ares.Spec{Members: 2, GPUs: 8, GPUModel: "H100"}), nil, nil) {
		said = append(said, v.String())
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "full: no free capacity, cost ") || !strings.Contains(text, "none: it has no devices of model H100") {
		t.Error(text)
	}
}

// TestClosedClusters checks that a cluster that gets no offers is never chosen, and is chosen again afterwards.
func TestClosedClusters(t *testing.T) {
	t.Parallel()
	one := cluster("one", "eu", "H100", 1, 1)
	c := newChooser(choose.Default(), one)
	submit(c, job("j", 1, ares.Spec{GPUs: 8}))
	for _, open := range []bool{true, false, true} {
		one.Open = open
		c.SetCluster(one, start)
		if offers, _ := c.Decide(start); len(offers) > 0 != open {
			t.Errorf("open %v: %+v", open, offers)
		}
	}
	c.RemoveCluster("one", start)
	if offers, _ := c.Decide(start); len(offers) > 0 {
		t.Errorf("%+v", offers)
	}
}

// TestFairOrder checks that jobs which a tenant submitted to a member count in the order of the hub, and that the hub's
// own jobs do not count twice.
func TestFairOrder(t *testing.T) {
	t.Parallel()
	full := cluster("a", "eu", "H100", 2, 1)
	full.Summary.Shapes[0].Count, full.Summary.Shapes[0].Free = 1, summary.Free{Devices: 1, CPUs: 64, MemoryMB: 1000}
	full.Summary.Tenants = []summary.TenantUse{{Tenant: "busy", GPUMilli: 7000}}
	c := choose.New(config.Default(), choose.Default())
	c.Apply(ares.Batch{Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "busy", Limits: ares.NoLimits()}}, {Tenant: &ares.Tenant{ID: "idle", Limits: ares.NoLimits()}}}})
	c.SetCluster(full, start)
	for i, tenant := range []string{"busy", "idle"} {
		submit(c, &ares.Job{ID: ares.JobID("of-" + tenant), Spec: ares.Spec{Tenant: tenant, GPUs: 1}.WithDefaults(), AcceptedAt: start, Revision: int64(i + 1)})
	}
	if offers, _ := c.Decide(start); len(offers) == 0 || offers[0].Job != "of-idle" {
		t.Errorf("%+v", offers)
	}
	run := ares.NewRun(start)
	if err := run.Place([]ares.Seat{{Node: "real", Shares: []ares.Share{{Device: "x", Milli: 7000}}}}, 0, start); err != nil {
		t.Fatal(err)
	}
	run.Cluster = "a"
	submit(c, &ares.Job{ID: "granted", Spec: ares.Spec{Tenant: "busy", GPUs: 7}.WithDefaults(), AcceptedAt: start})
	c.Apply(ares.Batch{Events: []ares.Event{{Run: &ares.RunEvent{Job: "granted", Run: run}}}})
	c.SetCluster(full, start)
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	if use := c.Use("busy"); use != 7000 {
		t.Errorf("the tenant uses %d", use)
	}
}

// TestLocalUse checks that the use which a cluster reports counts until the next report, against the limit of the tenant too, and
// that it does not count if the cluster's tenant is another one.
func TestLocalUse(t *testing.T) {
	t.Parallel()
	limits := ares.NoLimits()
	limits.GPUs = 8
	c := choose.New(config.Default(), choose.Default())
	c.Apply(ares.Batch{Reset: true, Events: []ares.Event{{Tenant: &ares.Tenant{ID: "busy", Limits: limits}}}})
	report := func(milli int64, local ...string) {
		t.Helper()
		one := cluster("a", "eu", "H100", 2, 1)
		one.LocalTenants = local
		if milli > 0 {
			one.Summary.Tenants = []summary.TenantUse{{Tenant: "busy", GPUMilli: milli}}
		}
		c.SetCluster(one, start)
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, milli := range []int64{3500, 7000, 0, 6500} {
		if report(milli); c.Use("busy") != milli {
			t.Errorf("the tenant uses %d, and the cluster reports %d", c.Use("busy"), milli)
		}
	}
	submit(c, &ares.Job{ID: "large", Spec: ares.Spec{Tenant: "busy", GPUs: 2}.WithDefaults(), AcceptedAt: start, Revision: 1})
	if offers, _ := c.Decide(start); len(offers) > 0 {
		t.Errorf("7 of 8 devices are used, and a job of 2 is offered: %+v", offers)
	}
	if report(7000, "busy"); c.Use("busy") != 0 {
		t.Errorf("the tenant uses %d, and the cluster's tenant is another one", c.Use("busy"))
	}
	report(6000)
	if offers, _ := c.Decide(start); len(offers) != 1 || offers[0].Job != "large" {
		t.Errorf("%+v", offers)
	}
}

// TestResidency makes 10,000 random jobs with regions, clusters and data, lets every offer be claimed by any of its
// clusters, and checks that no offer breaks a hard constraint.
func TestResidency(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(21, 6))
	regions, models := []string{"eu", "us", "ap", "sa"}, []string{"H100", "A100", "T4"}
	needs := map[ares.JobID]choose.Needs{}
	o := choose.Default()
	o.Needs = func(j *ares.Job) choose.Needs { return needs[j.ID] }
	c := newChooser(o)
	var clusters []choose.Cluster
	for i := range 12 {
		cl := cluster(fmt.Sprintf("c%02d", i), regions[i%4], models[i%3], 5+r.IntN(20), int64(r.IntN(5_000_000)))
		clusters = append(clusters, cl)
		c.SetCluster(cl, start)
	}
	find := func(name string) *choose.Cluster {
		return &clusters[slices.IndexFunc(clusters, func(c choose.Cluster) bool { return c.Name == name })]
	}
	offered, resident := map[ares.JobID]bool{}, 0
	const jobs = 10_000
	for n := 0; n < jobs; {
		for range min(500, jobs-n) {
			id := fmt.Sprintf("j%05d", n)
			var want choose.Needs
			for range r.IntN(3) {
				want.Data = append(want.Data, choose.Data{URI: "s3://x", Home: regions[r.IntN(4)], Bytes: r.Int64N(1 << 42), Resident: r.IntN(2) == 0})
			}
			if r.IntN(3) == 0 {
				want.Regions = []string{regions[r.IntN(4)], regions[r.IntN(4)]}
			}
			if r.IntN(4) == 0 {
				want.Clusters = []string{clusters[r.IntN(12)].Name, clusters[r.IntN(12)].Name, clusters[r.IntN(12)].Name}
			}
			if r.IntN(8) == 0 {
				want.Excluded = []string{clusters[r.IntN(12)].Name}
			}
			needs[ares.JobID(id)] = want
			spec := ares.Spec{Members: 1 + r.IntN(3), GPUs: 1 + r.IntN(8)}
			if r.IntN(2) == 0 {
				spec.GPUModel = models[r.IntN(3)]
			}
			submit(c, job(id, int64(n), spec))
			n++
		}
		for range 20 {
			offers, _ := c.Decide(start)
			if len(offers) == 0 {
				break
			}
			var gone ares.Batch
			for _, o := range offers {
				want, spec := needs[o.Job], c.Job(o.Job)
				for _, k := range o.Candidates {
					cl := find(k.Cluster)
					if why := breaks(&want, cl); why != "" {
						t.Fatalf("%s with %+v was offered to %s in %s: %s", o.Job, want, k.Cluster, cl.Region, why)
					}
					if !strings.Contains(k.Model, spec.GPUModel) {
						t.Fatalf("%s asks for %q and was offered %q", o.Job, spec.GPUModel, k.Model)
					}
				}
				for _, d := range want.Data {
					if d.Resident {
						resident++
						break
					}
				}
				offered[o.Job] = true
				gone.Events = append(gone.Events, ares.Event{Gone: ares.Gone{Kind: ares.KindJob, ID: string(o.Job)}})
			}
			c.Apply(gone)
		}
	}
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	t.Logf("%d of %d jobs were offered, %d of them with resident data", len(offered), jobs, resident)
	if len(offered) < jobs/3 || resident < jobs/20 {
		t.Error("too few offers to mean anything")
	}
}

// breaks is the test's own reading of the constraints.
func breaks(n *choose.Needs, c *choose.Cluster) string {
	for _, d := range n.Data {
		if d.Resident && d.Home != c.Region {
			return "resident data"
		}
	}
	switch {
	case n.Regions != nil && !slices.Contains(n.Regions, c.Region):
		return "regions"
	case n.Clusters != nil && !slices.Contains(n.Clusters, c.Name):
		return "clusters"
	case slices.Contains(n.Excluded, c.Name):
		return "excluded"
	}
	return ""
}

// TestRandomHistories applies random changes and checks after each that the engine's state is sound, that no granted
// job is offered, and that the same history gives the same offers.
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, two := newChooser(choose.Default()), newChooser(choose.Default())
		granted, jobs := map[ares.JobID]bool{}, 0
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			both := func(do func(c *choose.Chooser)) { do(one); do(two) }
			switch id := ares.JobID(fmt.Sprintf("j%d", rapid.IntRange(0, max(jobs-1, 0)).Draw(t, "job"))); rapid.SampledFrom([]string{"job", "summary", "grant", "clear", "end", "remove"}).Draw(t, "what") {
			case "job":
				j := job(fmt.Sprintf("j%d", jobs), int64(jobs), ares.Spec{Members: rapid.IntRange(1, 3).Draw(t, "members"), GPUMilli: rapid.SampledFrom([]int{0, 300}).Draw(t, "milli"), CPUs: 1})
				if j.GPUMilli == 0 {
					j.GPUs = rapid.IntRange(0, 8).Draw(t, "gpus")
				}
				jobs++
				both(func(c *choose.Chooser) { submit(c, j) })
			case "summary":
				cl := cluster(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "cluster"), "eu", "H100", rapid.IntRange(0, 4).Draw(t, "nodes"), 1)
				cl.Open = rapid.IntRange(0, 5).Draw(t, "open") > 0
				for i := range cl.Summary.Shapes {
					free := rapid.IntRange(0, 8).Draw(t, "free")
					cl.Summary.Shapes[i].Free.Devices = free
					if free < 8 {
						cl.Summary.Shapes[i].PartMilli = rapid.SampledFrom([]int{0, 400}).Draw(t, "part")
					}
				}
				both(func(c *choose.Chooser) { c.SetCluster(cl, start) })
			case "grant":
				both(func(c *choose.Chooser) {
					offers, _ := c.Decide(start)
					for i := range min(len(offers), 2) {
						c.SetGrant(offers[i].Job, offers[i].Clusters(), start)
						granted[offers[i].Job] = true
					}
				})
			case "clear":
				both(func(c *choose.Chooser) { c.ClearGrant(id, start) })
				delete(granted, id)
			case "end":
				both(func(c *choose.Chooser) {
					c.Apply(ares.Batch{Events: []ares.Event{{Gone: ares.Gone{Kind: ares.KindJob, ID: string(id)}}}})
				})
				delete(granted, id)
			case "remove":
				both(func(c *choose.Chooser) { c.RemoveCluster("b", start) })
			}
			if err := one.Check(); err != nil {
				t.Fatal(err)
			}
			a, _ := one.Decide(start)
			b, _ := two.Decide(start)
			if fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("%v, and the same again: %v", a, b)
			}
			for _, o := range a {
				if granted[o.Job] {
					t.Fatalf("%s has a grant and was offered", o.Job)
				}
			}
		}
	})
}

// TestAuction checks who wins and when.
func TestAuction(t *testing.T) {
	t.Parallel()
	offer := choose.Offer{Candidates: []choose.Candidate{
		{Cluster: "top", Quote: choose.Quote{ValueMicros: 1_000_000}}, {Cluster: "b", Quote: choose.Quote{ValueMicros: 1_000_000}}, {Cluster: "c", Quote: choose.Quote{ValueMicros: 1_000_000}},
	}}
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	later := start.Add(time.Hour)
	for _, c := range []struct {
		name string
		bids []choose.Bid
		ms   int
		want string
	}{
		{"no bid", nil, 10_000, ""},
		{"a bid without an offer", []choose.Bid{{Cluster: "x"}}, 10_000, ""},
		{"the best-ranked cluster starts now", []choose.Bid{{Cluster: "top", StartsAt: start}}, 0, "top"},
		{"the best-ranked cluster starts later", []choose.Bid{{Cluster: "top", StartsAt: later}}, 100, ""},
		{"another cluster waits for the window", []choose.Bid{{Cluster: "b", StartsAt: start}}, 149, ""},
		{"and wins then", []choose.Bid{{Cluster: "b", StartsAt: start}}, 150, "b"},
		{"the earlier start wins", []choose.Bid{{Cluster: "top", StartsAt: later}, {Cluster: "c", StartsAt: start}}, 150, "c"},
		{"all bids are there", []choose.Bid{{Cluster: "c", StartsAt: later}, {Cluster: "b", StartsAt: later}, {Cluster: "top", StartsAt: later}}, 0, "top"},
		{"the place in the offer decides between equal costs and scores", []choose.Bid{{Cluster: "c", StartsAt: later}, {Cluster: "b", StartsAt: later}}, 150, "b"},
		{"the score decides between equal costs", []choose.Bid{{Cluster: "c", StartsAt: start, Score: 2}, {Cluster: "b", StartsAt: start, Score: 1}}, 150, "c"},
		{"a later bid replaces the earlier one", []choose.Bid{{Cluster: "b", StartsAt: later}, {Cluster: "c", StartsAt: start.Add(time.Minute)}, {Cluster: "b", StartsAt: start}}, 150, "b"},
	} {
		a := choose.NewAuction(offer)
		for _, b := range c.bids {
			a.Add(b, start)
		}
		if b, _ := a.Winner(at(c.ms)); b.Cluster != c.want {
			t.Errorf("%s: %q wins, want %q", c.name, b.Cluster, c.want)
		}
	}
	a := choose.NewAuction(choose.OfferOf("j", []string{"z", "y", "x"}))
	for cluster, delay := range map[string]time.Duration{"x": time.Millisecond, "y": time.Minute, "z": time.Minute} {
		a.Add(choose.Bid{Cluster: cluster, StartsAt: start.Add(delay)}, start)
	}
	var order []string
	for _, b := range a.Ranked(start) {
		order = append(order, b.Cluster)
	}
	if !slices.Equal(order, []string{"x", "z", "y"}) {
		t.Errorf("without costs, the bids are ranked %v", order)
	}
}

// TestStops checks that the chooser ends jobs whose queue timeout has passed and jobs with a dependency that can never be
// met, and that it does not offer them.
func TestStops(t *testing.T) {
	t.Parallel()
	full := cluster("full", "eu", "H100", 1, 1)
	full.Summary.Shapes[0].Free = summary.Free{}
	c := newChooser(choose.Default(), full)
	limit := int(choose.AheadAfter/time.Minute) + 1
	first := job("first", 1, ares.Spec{GPUs: 8})
	submit(c, first, job("impatient", 2, ares.Spec{GPUs: 8, MaxQueueMinutes: limit}),
		job("dependent", 3, ares.Spec{GPUs: 8, Start: &ares.StartConditions{Dependencies: []ares.Dependency{{Type: ares.AfterOK, Job: "first"}}}}))
	check := func(at time.Time, want ...ares.Stopping) {
		t.Helper()
		offers, _ := c.Decide(at)
		got := c.Stops()
		if !slices.EqualFunc(got, want, func(a, b ares.Stopping) bool { return a.Job == b.Job && a.Stop.Why == b.Stop.Why }) {
			t.Errorf("after %v the chooser stops %+v, want %+v", at.Sub(start), got, want)
		}
		for i := range offers {
			if slices.ContainsFunc(got, func(s ares.Stopping) bool { return s.Job == offers[i].Job }) {
				t.Errorf("%s is stopped and offered", offers[i].Job)
			}
		}
	}
	check(start)
	late := start.Add(time.Duration(limit) * time.Minute)
	check(late, ares.Stopping{Job: "impatient", Stop: ares.Stop{Why: ares.StopQueue}})
	for _, id := range []ares.JobID{"first", "impatient"} {
		run := ares.NewRun(start)
		if err := run.RequestStop(ares.Stop{Why: ares.StopCancel, By: "me", At: late}); err != nil {
			t.Fatal(err)
		}
		c.Apply(ares.Batch{Events: []ares.Event{{Run: &ares.RunEvent{Job: id, Run: run}}}})
	}
	check(late, ares.Stopping{Job: "dependent", Stop: ares.Stop{Why: ares.StopDependency}})
}
