package choose_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/federation/choose"
	"github.com/ares-scheduler/ares/federation/summary"
)

// withData returns a specification with one set of data that must stay in a region.
func withData(region string, spec ares.Spec) ares.Spec {
	spec.EditPlacement().Data = []ares.DataSet{{URI: "s3://genomes", Region: region, Bytes: 1 << 40}}
	return spec
}

// TestBlockers checks that a cluster which cannot run a job has every reason for it, and no other one.
func TestBlockers(t *testing.T) {
	t.Parallel()
	h100 := ares.Spec{GPUs: 8, GPUModel: "H100"}
	listed, regional, labelled := h100, h100, h100
	listed.EditPlacement().Clusters = []string{"other"}
	regional.EditPlacement().Regions = []string{"us", "ap"}
	labelled.EditPlacement().NodeSelector = map[string]string{"pool": "a", "tier": "b"}
	both := withData("us", regional)
	for _, c := range []struct {
		name     string
		spec     ares.Spec
		edit     func(*choose.Cluster)
		excluded bool
		kinds    []choose.BlockerKind
		text     string
	}{
		{"nothing", h100, nil, false, nil, "one: can start now, cost 8 = compute 8 + egress 0 + waiting 0 + transfer 0"},
		{"the list of clusters", listed, nil, false, []choose.BlockerKind{choose.NotListed}, "placement.clusters does not list it"},
		{"the regions", regional, nil, false, []choose.BlockerKind{choose.WrongRegion}, "it is in region eu, which placement.regions does not list"},
		{"a cluster without a region", regional, func(c *choose.Cluster) { c.Region = "" }, false, []choose.BlockerKind{choose.WrongRegion}, "it is in no region, which"},
		{"residency", withData("us", h100), nil, false, []choose.BlockerKind{choose.Residency}, "the data s3://genomes must stay in region us, and it is in region eu"},
		{"residency and regions", both, nil, false, []choose.BlockerKind{choose.WrongRegion, choose.Residency}, "; "},
		{"data at home", withData("eu", h100), nil, false, nil, "can start now"},
		{"labels", labelled, func(c *choose.Cluster) { c.Summary.Labels = []summary.Label{{Key: "tier", Value: "b", Nodes: 1}} }, false, []choose.BlockerKind{choose.Labels}, "no node has the label pool=a"},
		{"labels that are not all known", labelled, func(c *choose.Cluster) { c.Summary.MoreLabels = true }, false, nil, "can start now"},
		{"the tenant", h100, func(c *choose.Cluster) { c.LocalTenants = []string{"default"} }, false, []choose.BlockerKind{choose.LocalTenant}, "its tenant default is not that of the hub"},
		{"another tenant", h100, func(c *choose.Cluster) { c.LocalTenants = []string{"lab"} }, false, nil, "can start now"},
		{"a returned job", h100, nil, true, []choose.BlockerKind{choose.Excluded}, "another job with this ID"},
		{"the model", ares.Spec{GPUs: 1, GPUModel: "B200"}, nil, false, []choose.BlockerKind{choose.NoModel}, "it has no devices of model B200"},
		{"no devices", ares.Spec{GPUs: 1}, func(c *choose.Cluster) { c.Summary.Models = nil }, false, []choose.BlockerKind{choose.NoModel}, "it has no devices"},
		{"too few devices", ares.Spec{GPUs: 8, Members: 3, GPUModel: "h100"}, nil, false, []choose.BlockerKind{choose.TooSmall}, "it has 16 devices of model h100, and the job needs 24"},
		{"too small nodes", ares.Spec{GPUs: 9}, nil, false, []choose.BlockerKind{choose.TooSmall}, "none of its nodes is large enough for one member: 9 devices, "},
		{"too few cores", ares.Spec{CPUs: 65}, nil, false, []choose.BlockerKind{choose.TooSmall}, "none of its nodes is large enough for one member: 65 CPU cores"},
		{"no free capacity", h100, func(c *choose.Cluster) {
			c.Summary.Shapes[0].Free, c.Summary.Models[0].Free = summary.Free{Devices: 3, CPUs: 64, MemoryMB: 1000}, 6
		}, false, []choose.BlockerKind{choose.Capacity}, "one: no free capacity, cost 8.016667 = compute 8 + egress 0 + waiting 0.016667 + transfer 0"},
		{"no summary", h100, func(c *choose.Cluster) { c.Summary = nil }, false, []choose.BlockerKind{choose.NoSummary}, "it has not told the hub yet what it has"},
		{"a cordon", h100, func(c *choose.Cluster) {
			c.Open, c.Closed = false, choose.Blocker{Kind: "cordoned", Detail: "it is cordoned"}
		}, false, []choose.BlockerKind{"cordoned"}, "one: it is cordoned"},
		{"no offers", h100, func(c *choose.Cluster) { c.Open, c.Summary = false, nil }, false, []choose.BlockerKind{choose.NoOffers}, "it gets no offers"},
		{"several reasons", both, func(c *choose.Cluster) {
			c.Open, c.Closed = false, choose.Blocker{Kind: "cordoned", Detail: "it is cordoned"}
			c.Summary.Models[0].Name, c.Summary.Shapes[0].Model = "A100", "A100"
		}, true, []choose.BlockerKind{"cordoned", choose.Excluded, choose.WrongRegion, choose.Residency, choose.NoModel}, "it is cordoned; it has another job"},
	} {
		one := cluster("one", "eu", "H100", 2, 1_000_000)
		if c.edit != nil {
			c.edit(&one)
		}
		run := ares.NewRun(start)
		if c.excluded {
			run.ExcludedClusters = []string{"one"}
		}
		ch := newChooser(choose.Default(), one)
		v := ch.Explain(job("j", 1, c.spec), &run, nil)
		var kinds []choose.BlockerKind
		for _, b := range v[0].Blockers {
			kinds = append(kinds, b.Kind)
		}
		if len(v) != 1 || !slices.Equal(kinds, c.kinds) || !strings.Contains(v[0].String(), c.text) {
			t.Errorf("%s: %q, %s; want %q, %s", c.name, kinds, v, c.kinds, c.text)
		}
		if can := len(kinds) == 0 || kinds[0] == choose.Capacity; can != (v[0].Best != nil) || can != (v[0].Rank == 1) {
			t.Errorf("%s: %+v", c.name, v[0])
		}
		offers, _ := ch.Decide(start)
		if len(offers) > 0 {
			t.Errorf("%s: the explanation left something to offer: %+v", c.name, offers)
		}
	}
}

// TestExplainedOrder checks the order of the verdicts, the predicted runtime, and that a job which is offered does not stand in its
// own way.
func TestExplainedOrder(t *testing.T) {
	t.Parallel()
	full := cluster("cheap", "eu", "H100", 1, 1)
	full.Summary.Shapes[0].Free, full.Summary.Models[0].Free = summary.Free{}, 0
	full.Summary.Classes = []summary.Class{{Name: ares.Normal, DelayP50: 90*time.Minute + time.Second}}
	closed := cluster("a", "eu", "H100", 1, 1)
	closed.Open = false
	c := newChooser(choose.Default(), full, closed, cluster("d", "eu", "H100", 1, 4_000_000), cluster("c", "eu", "H100", 1, 3_000_000),
		cluster("e", "eu", "H100", 1, 9_000_000), cluster("b", "eu", "H100", 1, 4_000_000))
	asked := job("j", 1, ares.Spec{GPUs: 8})
	names := func(verdicts []choose.Verdict) (out string) {
		for _, v := range verdicts {
			out += v.Cluster + string(rune('0'+v.Rank)) + " "
		}
		return out
	}
	got := c.Explain(asked, nil, nil)
	if s := names(got); s != "c1 b2 d3 e0 cheap0 a0 " {
		t.Error(s)
	}
	if k := got[4].Best; k.Quote.StartDelay != 91*time.Minute || k.Fits {
		t.Errorf("the full cluster would start the job in %s", k.Quote.StartDelay)
	}
	got = c.Explain(asked, nil, &ares.RuntimePredicted{Samples: 9, P50: 6 * time.Minute})
	if cost := got[0].Best.Cost.Compute; cost != 8*3_000_000/10 {
		t.Errorf("six minutes of 8 devices cost %d", cost)
	}
	submit(c, asked)
	c.Decide(start)
	c.SetGrant("j", []string{"c", "b", "d"}, start)
	run := ares.NewRun(start)
	for range 2 { // an explanation changes nothing
		if s := names(c.Explain(asked, &run, nil)); s != "c1 b2 d3 e0 cheap0 a0 " {
			t.Errorf("after the offer: %s", s)
		}
	}
	if s := names(c.Explain(job("other", 2, ares.Spec{GPUs: 8}), nil, nil)); s != "b1 d2 e3 cheap0 c0 a0 " {
		t.Errorf("for another job: %s", s)
	}
}

// TestExplanationMatchesDecision compares the explanation of the only waiting job with the offer that the chooser makes for it.
func TestExplanationMatchesDecision(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var clusters []choose.Cluster
		for i := range rapid.IntRange(1, 6).Draw(t, "clusters") {
			cl := cluster(string(rune('a'+i)), rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"), rapid.SampledFrom([]string{"H100", "A100"}).Draw(t, "model"),
				rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.Int64Range(0, 3).Draw(t, "price")*1_000_000)
			cl.Open = rapid.IntRange(0, 4).Draw(t, "open") > 0
			if rapid.Bool().Draw(t, "busy") {
				free := rapid.IntRange(0, 8).Draw(t, "free")
				cl.Summary.Shapes[0].Free.Devices, cl.Summary.Models[0].Free = free, free*cl.Summary.Shapes[0].Count
			}
			clusters = append(clusters, cl)
		}
		spec := ares.Spec{GPUs: rapid.IntRange(1, 9).Draw(t, "gpus"), Members: rapid.IntRange(1, 3).Draw(t, "members"), GPUModel: rapid.SampledFrom([]string{"", "H100"}).Draw(t, "wanted")}
		if rapid.Bool().Draw(t, "resident") {
			spec = withData("eu", spec)
		}
		c := newChooser(choose.Default(), clusters...)
		asked := job("j", 1, spec)
		var planned []string
		for _, v := range c.Explain(asked, nil, nil) {
			if v.Rank > 0 {
				planned = append(planned, v.Cluster)
			}
			if (v.Best == nil) != (len(v.Blockers) > 0 && v.Blockers[0].Kind != choose.Capacity) {
				t.Fatalf("%+v", v)
			}
		}
		submit(c, asked)
		offers, _ := c.Decide(start.Add(choose.AheadAfter))
		var offered []string
		if len(offers) > 0 {
			offered = offers[0].Clusters()
		}
		if !slices.Equal(planned, offered) {
			t.Fatalf("the plan is %v, and the offer %v", planned, offered)
		}
	})
}
