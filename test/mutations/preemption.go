package main

// This function returns a test that runs one engine scenario.
func script(name string) Test { return Test{Package: "./engine", Run: "TestScripts/" + name} }

const (
	preemptRights     = "engine/preempt/rights.go"
	preemptCandidates = "engine/preempt/candidates.go"
	preemptProtection = "engine/preempt/protection.go"
	preemptVictims    = "engine/preempt/victims.go"
	preemptConfig     = "engine/config/preemption.go"
)

// These mutations break the rules for preemption. Some of them change which
// running jobs are preempted for a waiting job. Others change how many jobs are
// preempted, or how often. The remaining mutations change whether the waiting
// job gets the freed devices.
var preemption = []Mutation{
	{
		"preempt-ceiling", "the ceiling on the GPUs that are stopped for each GPU requested",
		edit(preemptConfig, "return y.Ceiling > 0 && stopped*wholeDevice > int64(y.Ceiling)*asked", "return false && stopped > asked"),
		script("peer_schedulers/kai_1565_preemption_ceiling"), "the preempted jobs use 376000 thousandths of a device",
	},
	{
		"preempt-class-gap", "the second class between the preemptor and its victim",
		[]Edit{
			{preemptCandidates, "most = max(s.rank-1, 0)", "most = s.rank"},
			{preemptCandidates, "rank <= s.rank-2:", "rank <= s.rank-1:"},
			{preemptRights, "range max(e.ClassRank()-1, 0) {", "range e.ClassRank() {"},
		},
		script("preemption/by_class"), "priority class normal must be at least two classes above low",
	},
	{
		"preempt-inside-class", "the job's consent to its preemption inside its class",
		edit("job.go", "	return s.Checkpoint.Enabled\n}", "	return true\n}"),
		script("preemption/only_preemptible_jobs"), "it does not allow its preemption inside its class",
	},
	{
		"preempt-allowed", "the tenant's allow_preemption",
		edit(preemptRights, "case admitted && record.MayPreempt:", "case admitted:"),
		script("preemption/allow_preemption"), "is not allowed to preempt jobs",
	},
	{
		"preempt-enabled", "enable_preemption",
		edit(preemptRights, "case !r.Cfg.Preemption.Enabled:\n\t\treturn 0, 0", "case false:\n\t\treturn 0, 0"),
		script("preemption/disabled"), "does not allow this kind of preemption",
	},
	{
		"preempt-cooldown", "the cooldown of a preempted job that runs again",
		edit(preemptProtection, "if e.Run.Preemptions > 0 && cfg.Cooldown > 0 {", "if e.Run.Preemptions < 0 {"),
		script("peer_schedulers/kueue_6861_preemptions_per_job_are_limited"), "its cooldown has not ended",
	},
	{
		"preempt-times", "the limit on how often one job is preempted",
		edit(preemptProtection, "case cfg.MaxPreemptions > 0 && run.Preemptions >= cfg.MaxPreemptions:", "case run.Preemptions < 0:"),
		script("peer_schedulers/kueue_6861_preemptions_per_job_are_limited"), "low was preempted for urgent003",
	},
	{
		"preempt-at-most-once", "the protection of at_most_once jobs that have started",
		edit(preemptProtection, "if run.MustFinish(e.Job) {", "if run.MustFinish(e.Job) && run.Preemptions < 0 {"),
		script("preemption/protected_jobs"), "is preempted, but it is an at_most_once job",
	},
	{
		"preempt-protected", "the protection of jobs that a rule of another system marks",
		edit(preemptProtection, "if r.Jobs.Protection(e.ID) != nil {", "if r.Jobs.Protection(e.ID) != nil && run.Preemptions < 0 {"),
		script("preemption/protected_by_event"), "is preempted, but it is protected",
	},
	{
		"preempt-cheapest", "the checkpoint in the cost of a victim",
		edit("engine/preempt/costs.go", "if savedAt := e.Run.Current().SavedUntil(); !savedAt.IsZero() {", "if savedAt := e.Run.Current().StartedAt; !savedAt.IsZero() {"),
		script("peer_schedulers/volcano_5984_no_more_victims_than_needed"), "preempted were",
	},
	{
		"preempt-rate", "the limit on how many jobs a tenant preempts in an hour",
		edit("engine/preempt/ratelimit.go", "return until, stops <= most", "return until, stops <= most || most > 0"),
		script("peer_schedulers/armada_5073_preemptions_per_hour_are_limited"), "but the limit is 3",
	},
	{
		"preempt-predicted-end", "the wait for a running job that is about to end",
		edit(preemptVictims, "if soon, ok := s.endsSoon(); ok {", "if soon, ok := s.endsSoon(); ok && len(soon.seats) == 0 {"),
		script("peer_schedulers/armada_5073_preemptions_per_hour_are_limited"), "preempted were",
	},
	{
		"reclaim-borrowed-only", "the limit of a reclaim to the quota that is borrowed",
		edit("engine/preempt/reclaim.go", "left <= 0 || !s.quota.allowPartial && left < p.milli {", "left < -1<<60 {"),
		script("preemption/one_victim_frees_node_and_quota"), `\+j14 is kept a\[4 5 6 7\] by quota`,
	},
	{
		"reclaim-own-quota", "the limit of a reclaim to the preemptor's own quota",
		edit("engine/job/admission.go", "ok && headroom >= asked {\n\t\t\tmodels |= cluster.ModelBit(m)", "ok || headroom >= asked {\n\t\t\tmodels |= cluster.ModelBit(m)"),
		script("preemption/partly_borrowed_gang"), `\+one000 is kept n\[2\] by quota`,
	},
	{
		"nomination-hold", "the hold on seats that were vacated for a nominated job",
		edit("engine/preempt/nominations.go", "hold.Hold, hold.FreeSeats = r.Txn.HoldSeats(n.Seats)\n\t\t\tr.stopPendingVictims", "hold.FreeSeats = 0\n\t\t\tr.stopPendingVictims"),
		script("peer_schedulers/kueue_13662_first_victim_does_not_retake_its_seats"), "kept seats",
	},
	{
		"preempt-no-cycle", "the protection of a job's preemptors from that job",
		edit(preemptProtection, "\twalk(e)\n\treturn out", "\twalk(e)\n\treturn nil"),
		script("queueing/preempt_peers"), "the preemptions form a cycle",
	},
	{
		"preempt-smallest-set", "the removal of victims that are not needed",
		edit(preemptVictims, "if s.admitsAfter(&less) {\n\t\t\tsel.seats", "if s.admitsAfter(&less) && len(rest) < 0 {\n\t\t\tsel.seats"),
		script("preemption/one_victim_frees_node_and_quota"), `\+j9\[1\] is to stop: preempt by job j14`,
	},
	{
		"consolidation-gain", "the rule that a consolidation gains more than it costs",
		edit(preemptConfig, "return gain > 0 && gain*wholeDevice >= lost*int64(y.MoveGain)", "return gain > 0 || lost > 0"),
		script("consolidation/cost_exceeds_gain"), "-nothing is worth moving",
	},
	{
		"consolidation-destination", "the rule that a migrated job has another allocation at once",
		edit("engine/preempt/consolidation.go", "\t\t\ts.immovable[v.entry] = true\n\t\t\treturn false\n", "\t\t\tcontinue\n"),
		script("consolidation/immovable_jobs"), "preempted were",
	},
	{
		"restart-hold", "the hold on the seats of a gang that lost a node",
		edit("engine/job/restart.go", "return !e.Run.Settled()\n", "return !e.Run.Settled() && len(a.Seats) == 0\n"),
		script("recovery/seats_held_during_restart"), `\+large on a00\[0 1 2 3 4 5 6 7\] a05`,
	},
}
