// Package laws checks decisions. A Law is an invariant that every plan must
// satisfy; Laws lists them, and Check returns a Violation for each one that a
// plan breaks.
//
// The checks compute everything again from the records. They share no code with
// the scheduler, only the meaning of the records, so that one mistake cannot
// hide in both. Property tests, the simulator and servers in debug mode use
// them.
//
// Some invariants hold for a sequence of plans: a PlannedStartCheck checks that firm
// planned starts are met, and a PreemptionHistory that preemption has no cycles. SkippedJobs
// returns the jobs that a plan skipped, for a check that needs a second state.
//
// A check takes time proportional to all live jobs and nodes, about a tenth of
// a second for ten thousand of each, so it runs only where it is enabled.
package laws
