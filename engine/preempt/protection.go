package preempt

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/config"
	"github.com/ares-scheduler/ares/engine/job"
)

// The type `protection` says why a running job must not be preempted.
type protection uint8

const (
	unprotected       protection = iota
	protectedOnce                // the job runs at most once, and may have started
	protectedByEvent             // an ares.Protection marks the job
	protectedLatency             // the job is latency-sensitive, so only critical jobs preempt it
	protectedCooldown            // the job was preempted and restarted only recently
	protectedCount               // it was preempted max_preemptions times
	protectedHold                // its devices are held for another job, or its array is stopping
)

// protectionOf returns the protection of a running job. If the protection ends at a known time, protectionOf also
// returns this time.
func (r *Round) protectionOf(e *job.Entry, now time.Time) (protection, time.Time) {
	cfg, run := &r.Cfg.Preemption, e.Run
	if run.MustFinish(e.Job) {
		return protectedOnce, time.Time{}
	}
	if r.Jobs.Protection(e.ID) != nil {
		return protectedByEvent, time.Time{}
	}
	if r.Jobs.ArrayIsStopping(e) {
		return protectedHold, time.Time{}
	}
	if e.Run.Preemptions > 0 && cfg.Cooldown > 0 {
		a := run.Current()
		if until := job.LaterOf(a.PlacedAt, a.StartedAt).Add(cfg.Cooldown); now.Before(until) {
			return protectedCooldown, until
		}
	}
	switch {
	case cfg.MaxPreemptions > 0 && run.Preemptions >= cfg.MaxPreemptions:
		return protectedCount, time.Time{}
	case e.Job.Placement().LatencySensitive:
		return protectedLatency, time.Time{}
	}
	return unprotected, time.Time{}
}

// mayBePreemptedBy reports whether a job of the given class may preempt a job with this protection.
func (v *candidateVictim) mayBePreemptedBy(rank int) bool {
	return v.protection == unprotected || rank == job.Classes-1 && v.protection == protectedLatency
}

// protectionCounts counts the protected jobs by the reason for their protection.
type protectionCounts struct {
	count     [protectedHold + 1]int
	firstEnds time.Time // when the first cooldown ends
	events    []protectionReason
}

// A protectionReason is the reason of an ares.Protection, with the number of jobs that it protects.
type protectionReason struct {
	why   string
	count int
}

// maxProtectionReasons limits how many different reasons of ares.Protection the text lists.
const maxProtectionReasons = 3

// isEmpty reports whether no protected job was counted.
func (counts *protectionCounts) isEmpty() bool { return counts.count == [protectedHold + 1]int{} }

// addEvent counts a job that an ares.Protection marks. Jobs with the same reason are counted together.
func (counts *protectionCounts) addEvent(p *ares.Protection) {
	at := slices.IndexFunc(counts.events, func(r protectionReason) bool { return r.why == p.Why })
	if at < 0 {
		at = len(counts.events)
		counts.events = append(counts.events, protectionReason{why: p.Why})
	}
	counts.events[at].count++
}

func (counts *protectionCounts) add(v *candidateVictim) {
	counts.count[v.protection]++
	if v.protection == protectedCooldown && (counts.firstEnds.IsZero() || v.protectedUntil.Before(counts.firstEnds)) {
		counts.firstEnds = v.protectedUntil
	}
}

// The method `text` describes how many jobs are protected, and why.
func (counts *protectionCounts) text(cfg *config.PreemptionConfig) string {
	var out string
	add := func(n int, one, many string) {
		if n == 0 {
			return
		}
		if out != "" {
			out += ", "
		}
		if n == 1 {
			out += "1 job " + one
		} else {
			out += fmt.Sprintf("%d jobs %s", n, many)
		}
	}
	times := "once"
	if cfg.MaxPreemptions != 1 {
		times = fmt.Sprintf("%d times", cfg.MaxPreemptions)
	}
	// The exact time would tell one tenant when another tenant's job was preempted.
	until := counts.firstEnds.Add(time.Minute - 1).Truncate(time.Minute).UTC().Format(time.RFC3339)
	add(counts.count[protectedCooldown], "was preempted recently and is protected until "+until, "were preempted recently and are protected, the first until "+until)
	add(counts.count[protectedCount], "was preempted "+times+" (max_preemptions)", "were preempted "+times+" each (max_preemptions)")
	add(counts.count[protectedOnce], "has started and runs at most once", "have started and run at most once")
	// Running jobs are visited in the order of an index, which depends on history. The sort makes the text depend on the records alone.
	slices.SortFunc(counts.events, func(a, b protectionReason) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.why, b.why))
	})
	others := 0
	for i, r := range counts.events {
		if i < maxProtectionReasons {
			add(r.count, "is protected: "+r.why, "are protected: "+r.why)
		} else {
			others += r.count
		}
	}
	add(others, "is protected for another reason", "are protected for other reasons")
	add(counts.count[protectedLatency], "is latency sensitive", "are latency sensitive")
	add(counts.count[protectedHold], "uses devices held for another job", "use devices held for other jobs")
	return out
}

// barredJobs returns the jobs on devices that are held for nominated jobs. It also returns the victims of these
// nominations that were not asked to stop yet. If a set of reservations is given, the result also includes the
// jobs on the seats of these reservations.
func (r *Round) barredJobs(reservations uint64) map[*job.Entry]bool {
	out := map[*job.Entry]bool{}
	bar := func(seats []ares.Seat) {
		for i := range seats {
			n := r.Cluster.NodesByID[seats[i].Node]
			if n == nil {
				continue
			}
			for _, occupant := range n.Occupants {
				if sharesDevice(occupant.Seat, &seats[i]) {
					out[r.Jobs.Owner(occupant)] = true
				}
			}
		}
	}
	for i := range r.Backfill.Reservations {
		if reservations&(1<<i) != 0 {
			bar(r.Backfill.Reservations[i].Seats)
		}
	}
	for i := range r.Backfill.Holds {
		hold := &r.Backfill.Holds[i]
		if hold.Over {
			continue
		}
		bar(hold.Seats)
		if run := hold.Entry.Run; run != nil && run.Nominated != nil {
			for j := range run.Nominated.Victims {
				if v := r.pendingVictim(&run.Nominated.Victims[j]); v != nil {
					out[v] = true
				}
			}
		}
	}
	return out
}

// sharesDevice reports whether two seats on one node have a device in common.
func sharesDevice(a, b *ares.Seat) bool {
	return slices.ContainsFunc(a.Shares, func(x ares.Share) bool {
		return slices.ContainsFunc(b.Shares, func(y ares.Share) bool { return x.Device == y.Device })
	})
}

// preemptorAncestry returns the jobs for which a waiting job was preempted. It also returns the jobs for which
// those jobs were preempted, and so on. None of the returned jobs may become a victim of the waiting job, so
// preemptions never form a cycle.
func (r *Round) preemptorAncestry(e *job.Entry, plan *ares.Plan) map[ares.JobID]bool {
	var out map[ares.JobID]bool
	var walk func(e *job.Entry)
	add := func(preemption *ares.Preemption) {
		if preemption == nil || out[preemption.To] {
			return
		}
		if out == nil {
			out = map[ares.JobID]bool{}
		}
		out[preemption.To] = true
		if next := r.Jobs.EntryByID[preemption.To]; next != nil {
			walk(next)
		}
	}
	walk = func(e *job.Entry) {
		if e.Run == nil {
			return
		}
		for i := range e.Run.Attempts {
			add(e.Run.Attempts[i].Preemption)
		}
		if e.Run.Stop != nil {
			add(e.Run.Stop.Preemption)
		}
		for i := range plan.Stop { // preemptions of one plan must not form a cycle either
			if plan.Stop[i].Job == e.ID {
				add(plan.Stop[i].Stop.Preemption)
			}
		}
	}
	walk(e)
	return out
}
