package engine_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// TestLawsOfGangs checks that no plan breaks a law while gangs of all kinds are submitted, end and lose
// nodes. The cluster has capacity for several gangs at the same time.
func TestLawsOfGangs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := enginetest.NewCluster()
		w.PutEvents(ares.Event{Topology: drawFabric(t)})
		for i := range rapid.IntRange(4, 10).Draw(t, "nodes") {
			n := *nodeOf(fmt.Sprintf("n%d", i), rapid.IntRange(2, 4).Draw(t, "gpus"))
			n.Labels = map[string]string{"leaf": pick(t, "leaf", "l0", "l1", "l2", "l3")}
			w.AddNode(n)
		}
		for i := range 12 {
			if rapid.Bool().Draw(t, "gang") {
				w.Submit(ares.JobID(fmt.Sprintf("j%02d", i)), drawGang(t))
			}
			if _, err := w.DecideUntilStable(); err != nil {
				t.Fatal(err)
			}
			if once(t, 3, "lost") {
				lose(t, w, fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node")))
			}
			if i > 2 && once(t, 2, "over") {
				endGang(w, ares.JobID(fmt.Sprintf("j%02d", rapid.IntRange(0, i).Draw(t, "which"))))
			}
		}
		if err := w.CheckReplay(); err != nil {
			t.Fatal(err)
		}
	})
}

func drawFabric(t *rapid.T) *ares.Topology {
	speed := func(what string) string { return pick(t, what, "100GbE", "40GbE", "10GbE", "") }
	out := &ares.Topology{MaxNodesPerLeaf: pick(t, "nodes per leaf", 0, 1, 2), MaxGPUsPerLeaf: pick(t, "GPUs per leaf", 0, 0, 4)}
	for i := range 2 {
		out.Domains = append(out.Domains, ares.Domain{Name: fmt.Sprint("s", i), Level: ares.LevelSpine, Switch: speed("spine"), Parent: "z0"})
	}
	out.Domains = append(out.Domains, ares.Domain{Name: "z0", Level: ares.LevelZone, Switch: speed("zone")})
	for i := range 4 {
		d := ares.Domain{Name: fmt.Sprint("l", i), Level: ares.LevelLeaf, Parent: fmt.Sprint("s", i/2), Switch: speed("switch")}
		if i > 0 && rapid.Bool().Draw(t, "adjacent") {
			d.Adjacent = []string{fmt.Sprint("l", i-1)}
		}
		out.Domains = append(out.Domains, d)
	}
	return out
}

func drawGang(t *rapid.T) ares.Spec {
	s := ares.Spec{Members: rapid.IntRange(1, 6).Draw(t, "members"), GPUs: rapid.IntRange(0, 2).Draw(t, "gpus"), Labels: map[string]string{"app": "g"}}
	s.MinMembers = rapid.IntRange(1, s.Members).Draw(t, "least")
	s.Constraints = &ares.Placement{
		Strategy:      pick(t, "strategy", "", "consolidated", "distributed"),
		RequiredLevel: pick(t, "required", "", "", "leaf", "spine", "zone", "node"), PreferredLevel: pick(t, "preferred", "", "leaf", "spine"),
		PreferredDomain: pick(t, "domain", "", "l1", "s1"), NetworkBandwidth: pick(t, "bandwidth", "", "10Gb", "40Gb", "100Gb"),
		LatencySensitive: once(t, 6, "latency"), AntiAffinity: pick(t, "apart", nil, nil, []string{"app=g"}, []string{"app=g @leaf"}),
	}
	return s
}

// The function `lose` ends the session of a node for good, and marks the node's seats as lost. If a gang had
// a rank on the node, the function also releases the gang's other ranks.
func lose(t *rapid.T, w *enginetest.Cluster, node string) {
	w.PutEvents(ares.Event{Gone: ares.Gone{Kind: ares.KindSession, ID: node}})
	if err := w.VoidNode(node); err != nil {
		t.Fatal(err)
	}
	for job, run := range w.State.Jobs() {
		if run != nil && run.Phase == ares.Pending {
			releaseAll(w, job.ID)
		}
	}
}

// endGang ends every rank of a job if the job is running.
func endGang(w *enginetest.Cluster, id ares.JobID) {
	_ = w.UpdateRun(id, func(j *ares.Job, r *ares.Run) error { // the job may be unknown, or not run
		a := r.Current()
		if a == nil {
			return nil
		}
		fence, seats := a.Fence, a.Seats
		for _, h := range seats {
			if err := r.Claim(j, fence, h.Rank, h.Node, w.Now); err != nil {
				return err
			}
		}
		res := ares.RankResult{Outcome: ares.OutcomeSucceeded, StartedAt: w.Now, EndedAt: w.Now}
		for _, h := range seats {
			if err := r.Finish(j, fence, h.Rank, res, w.Now); err != nil {
				return err
			}
		}
		return nil
	})
	releaseAll(w, id)
}

func releaseAll(w *enginetest.Cluster, id ares.JobID) {
	_ = w.UpdateRun(id, func(_ *ares.Job, r *ares.Run) error { // seats that cannot be released remain
		for _, a := range r.Clone().Attempts {
			for _, h := range a.Seats {
				if !h.State.Settled() && a.Ended() {
					if err := r.Release(a.Fence, h.Rank); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}
