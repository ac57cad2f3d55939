// Package laws checks decisions. A Law is an invariant that every plan must satisfy. Laws
// lists all laws, and Check returns a Violation for each law that a plan breaks.
//
// The checks compute everything again from the records. The checks share no code with the
// scheduler, so the same mistake is unlikely in both. Property tests, the simulator and
// servers in debug mode use these checks.
//
// Some invariants hold for a sequence of plans. A PlannedStartCheck checks that firm
// planned starts are met. CheckHolds checks the planned starts for which nodes are held. A PreemptionHistory checks that preemptions form no cycle.
// SkippedJobs returns the jobs that a plan skipped. With a second state, a caller can
// then check whether they would have fit.
//
// A check takes time proportional to the number of live jobs and nodes: about 0.1 s for
// 10,000 jobs and 10,000 nodes. Because of this cost, the checks run only where they are enabled.
package laws
