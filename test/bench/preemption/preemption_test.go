package preemption

import (
	"fmt"
	"os"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/test/bench/placement"
	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// kaiSeconds is the time that KAI-Scheduler published for one reclaim decision
// on 500 nodes with large jobs.
const kaiSeconds = 8.97

var sizes = rounds.Sized([]int{500, 1000, 2000, 5000}, []int{32})

// A `filling` describes the running jobs by their sizes in GPUs. The running jobs get
// these sizes in rotation.
type filling struct {
	name string
	gpus []int
}

var fillings = []filling{
	{"jobs of 4–64 GPUs", []int{4, 4, 8, 16, 32, 64}},
	{"jobs of 1 GPU", []int{1}},
}

// A `right` says why the gang may preempt other jobs: by its quota or by its priority
// class.
type right struct {
	name string
	by   ares.PreemptionBasis
}

var rights = []right{{"reclaim", ares.PreemptByQuota}, {"class", ares.PreemptByClass}}

// This function returns a full cluster with 16 nodes per leaf and 8 GPUs per
// node. The jobs of one tenant, in the second-lowest priority class, use the
// whole cluster. If there are quotas, the jobs of that tenant run almost
// entirely on borrowed quota.
func world(b *testing.B, nodes int, of filling, by ares.PreemptionBasis) *engine.State {
	b.Helper()
	borrower, owner := &ares.Tenant{ID: "lab", Limits: ares.NoLimits()}, &ares.Tenant{ID: "ops", Limits: ares.NoLimits(), MayPreempt: true}
	if by == ares.PreemptByQuota {
		borrower.Quotas = []ares.Quota{{Nominal: 8, Borrow: ares.Unlimited, Lend: ares.Unlimited}}
		owner.Quotas = []ares.Quota{{Nominal: nodes*8 - 8, Borrow: ares.Unlimited, Lend: ares.Unlimited}}
	}
	events := []ares.Event{{Tenant: borrower}, {Tenant: owner}}
	for i := range nodes {
		n := placement.Node(i)
		n.Labels = map[string]string{"leaf": fmt.Sprintf("leaf-%03d", i/16), "spine": fmt.Sprintf("spine-%02d", i/128)}
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i"}})
	}
	s := engine.New()
	low, revision, left := 100, int64(1), nodes*8
	for i := 0; left > 0; i++ {
		gpus := min(of.gpus[i%len(of.gpus)], left)
		left -= gpus
		spec := ares.Spec{Tenant: "lab", GPUs: min(gpus, 8), Members: max(gpus/8, 1), Priority: &low}
		events = append(events, ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: ares.JobID(fmt.Sprintf("job-%06d", i)), AcceptedAt: placement.Now, Revision: int64(i + 1)}})
	}
	s.Apply(ares.Batch{Revision: revision, Reset: true, Events: events})
	for placed := 1; placed > 0; {
		revision++
		plan := engine.Decide(s, placement.Now)
		placed = len(plan.Place)
		var runs []ares.Event
		for i := range plan.Place {
			run := ares.NewRun(placement.Now)
			if err := plan.Place[i].Apply(&run, placement.Now); err != nil {
				b.Fatal(err)
			}
			// Each job started at a different time, so that each would lose a
			// different amount of work.
			run.Last().Fence, run.Last().StartedAt = ares.Fence(revision), placement.Now.Add(time.Duration(i*7919%3600)*time.Second)
			run.Phase = ares.Running
			runs = append(runs, ares.Event{Run: &ares.RunEvent{Job: plan.Place[i].Job, Run: run}})
		}
		s.Apply(ares.Batch{Revision: revision, Events: runs})
	}
	return s
}

// This function returns a gang that requests 64 GPUs on eight nodes.
func gang(by ares.PreemptionBasis) *ares.Job {
	priority := 500
	if by == ares.PreemptByClass {
		priority = 2000
	}
	spec := ares.Spec{Tenant: "ops", GPUs: 8, Members: 8, Priority: &priority}
	return &ares.Job{Spec: spec.WithDefaults(), ID: "gang", AcceptedAt: placement.Now, Revision: 1 << 40}
}

// An `outcome` collects the results of all rounds for one cluster size.
type outcome struct {
	took    rounds.Figures // ms
	victims int
	stopped int64 // thousandths of GPUs
}

// This method times one decision that preempts other jobs.
func (o *outcome) decide(b *testing.B, s *engine.State, by ares.PreemptionBasis) {
	now := placement.Now.Add(2 * time.Hour)
	var lap rounds.Lap
	var plan ares.Plan
	lap.Time(func() { plan = engine.Decide(s, now) })
	if len(plan.Nominate) != 1 || plan.Nominate[0].Nomination.Why != by || len(plan.Nominate[0].Nomination.Victims) == 0 {
		b.Fatalf("%+v", plan.Refuse)
	}
	o.took = append(o.took, float64(lap.Thread.Microseconds())/1000)
	o.victims, o.stopped = len(plan.Nominate[0].Nomination.Victims), 0
	for _, v := range plan.Nominate[0].Nomination.Victims {
		o.stopped += v.Preemption.Milli
	}
}

// BenchmarkYield measures the preemption decision on a full cluster when a gang
// of 8 × 8 GPUs arrives.
func BenchmarkYield(b *testing.B) {
	for _, of := range fillings {
		rows := [][]string{{"right", "nodes", "a decision, ms", "victims", "GPUs stopped for 64", "KAI's 8.97 s ÷ this"}}
		for _, r := range rights {
			for _, nodes := range sizes {
				var o outcome
				s := world(b, nodes, of, r.by)
				s.Apply(ares.Batch{Revision: s.Revision() + 1, Events: []ares.Event{{Job: gang(r.by)}}})
				for range rounds.Count {
					o.decide(b, s, r.by)
				}
				rows = append(rows, []string{
					r.name, fmt.Sprint(nodes), o.took.Text(1, 2), fmt.Sprint(o.victims), fmt.Sprint(o.stopped / 1000),
					fmt.Sprintf("%.0f×", kaiSeconds*1000/o.took.Median()),
				})
			}
		}
		if err := rounds.Table(os.Stdout, fmt.Sprintf("A gang of 64 GPUs comes to a full fleet: %s; median of %d rounds (range)", of.name, rounds.Count), rows); err != nil {
			b.Fatal(err)
		}
	}
}
