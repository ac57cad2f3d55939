package main

// script names a scenario of the engine.
func script(name string) Test { return Test{Package: "./engine", Run: "TestScripts/" + name} }

// giving: who is stopped for whom, how much, how often, and what is kept then.
var giving = []Mutation{
	{
		"yield-ceiling", "the ceiling on what is stopped for what is asked",
		edit("engine/yielding.go", "return y.Ceiling > 0 && stopped*wholeMilli > int64(y.Ceiling)*asked", "return false && stopped > asked"),
		script("peer_schedulers/kai_1565_preemption_ceiling"), "376000/1000 are stopped",
	},
	{
		"yield-class-gap", "the second class between who is stopped and whom for",
		[]Edit{
			{"engine/rival.go", "most = max(h.rank-1, 0)", "most = h.rank"},
			{"engine/rival.go", "rank <= h.rank-2:", "rank <= h.rank-1:"},
			{"engine/yield.go", "range max(e.rank()-1, 0) {", "range e.rank() {"},
		},
		script("preemption/by_class"), "class normal is not two above low",
	},
	{
		"yield-allowed", "the tenant's allow_preemption",
		edit("engine/yield.go", "case admitted && record.MayPreempt:", "case admitted:"),
		script("preemption/allow_preemption"), "may not preempt",
	},
	{
		"yield-enabled", "enable_preemption",
		edit("engine/yield.go", "case !s.cfg.Yielding.Enabled:\n\t\treturn 0, 0", "case false:\n\t\treturn 0, 0"),
		script("preemption/disabled"), "nobody should",
	},
	{
		"yield-cooldown", "the rest of who came back a moment ago",
		edit("engine/rival.go", "if e.run.Yields > 0 && y.Cooldown > 0 {", "if e.run.Yields < 0 {"),
		script("peer_schedulers/kueue_6861_preemptions_per_job_are_limited"), "runs again since",
	},
	{
		"yield-times", "the bound on how often one gives way",
		edit("engine/rival.go", "case y.MaxYields > 0 && run.Yields >= y.MaxYields:", "case run.Yields < 0:"),
		script("peer_schedulers/kueue_6861_preemptions_per_job_are_limited"), "low gave way to urgent003",
	},
	{
		"yield-once", "the protection of at_most_once jobs that have begun",
		edit("engine/rival.go", "if run.Endures(e.job) {", "if run.Endures(e.job) && run.Yields < 0 {"),
		script("preemption/protected_jobs"), "runs at most once",
	},
	{
		"yield-cheapest", "the checkpoint in what a stop costs",
		edit("engine/rival.go", "if kept := e.run.Current().Kept(); !kept.IsZero() {", "if kept := e.run.Current().StartedAt; !kept.IsZero() {"),
		script("peer_schedulers/volcano_5984_no_more_victims_than_needed"), "preempted were",
	},
	{
		"yield-rate", "the bound on how many a tenant has stopped in an hour",
		edit("engine/hunt.go", "return until, stops <= most", "return until, stops <= most || most > 0"),
		script("peer_schedulers/armada_5073_preemptions_per_hour_are_limited"), "and 3 may",
	},
	{
		"yield-predicted", "waiting for who is about to end",
		edit("engine/hunt.go", "if soon, ok := h.sooner(); ok {", "if soon, ok := h.sooner(); ok && len(soon.seats) == 0 {"),
		script("peer_schedulers/armada_5073_preemptions_per_hour_are_limited"), "preempted were",
	},
	{
		"yield-debts-only", "taking back no more than is borrowed",
		edit("engine/collect.go", "left <= 0 || !h.partly && left < p.milli {", "left < -1<<60 {"),
		script("preemption/one_victim_frees_node_and_quota"), `\+j14 is kept a\[4 5 6 7\] by quota`,
	},
	{
		"yield-own-quota", "taking back only what one's own quota promises",
		edit("engine/yield.go", "ok && room >= asked {\n\t\t\tmodels |= modelBit(m)", "ok || room >= asked {\n\t\t\tmodels |= modelBit(m)"),
		script("preemption/partly_borrowed_gang"), `\+one000 is kept n\[2\] by quota`,
	},
	{
		"yield-kept-seats", "keeping the seats that were vacated for a job",
		edit("engine/nominate.go", "k.held, k.free = t.holdSeats(n.Seats)\n\t\t\tt.pursue", "k.free = 0\n\t\t\tt.pursue"),
		script("peer_schedulers/kueue_13662_first_victim_does_not_retake_its_seats"), "kept seats",
	},
	{
		"yield-no-circle", "the protection of whom a job gave way to",
		edit("engine/rival.go", "\twalk(e)\n\treturn out", "\twalk(e)\n\treturn nil"),
		script("queueing/preempt_peers"), "gives way to itself",
	},
	{
		"yield-no-more", "leaving out victims that are not needed",
		edit("engine/hunt.go", "if h.admits(&less) {\n\t\t\tc.seats", "if h.admits(&less) && len(rest) < 0 {\n\t\t\tc.seats"),
		script("preemption/one_victim_frees_node_and_quota"), `\+j9\[1\] is to stop: preempt by job j14`,
	},
	{
		"move-gain", "that a move must gain more than it costs",
		edit("engine/consolidate.go", "return gain > 0 && gain*wholeMilli >= lost*int64(y.MoveGain)", "return gain > 0 || lost > 0"),
		script("consolidation/cost_exceeds_gain"), "-nothing is worth moving",
	},
	{
		"move-another-place", "that who is moved has another place",
		edit("engine/consolidate.go", "\t\t\th.stuck[v.entry] = true\n\t\t\treturn false\n", "\t\t\tcontinue\n"),
		script("consolidation/immovable_jobs"), "preempted were",
	},
	{
		"reserve-first", "places kept for those who wait",
		edit("engine/reserving.go", "func (s *State) reserving() Reserving {", "func (s *State) reserving() Reserving {\n\tif len(s.nodes) > 0 {\n\t\treturn Reserving{}\n\t}"),
		script("peer_schedulers/kai_1969_large_gang_starts"), "has not started",
	},
	{
		"queue-patience", "max_queue_minutes",
		edit("engine/patience.go", "most > 0 && (e.run == nil || e.run.Placed == 0) {", "most < 0 && (e.run == nil || e.run.Placed == 0) {"),
		script("deadline/max_queue_time_in_full_plan"), "-large000 is to stop: queue by waited 30 min",
	},
	{
		"recovery-kept", "the seats kept for a gang that lost a node",
		edit("engine/recover.go", "return !e.run.Settled()\n", "return !e.run.Settled() && len(a.Seats) == 0\n"),
		script("recovery/seats_held_during_restart"), `\+large on a00\[0 1 2 3 4 5 6 7\] a05`,
	},
	{
		"reserve-slack", "the time by which those must have ended who start behind a place that is kept",
		edit("engine/soonest.go", "\tr.limit = r.at\n", "\tr.limit = endless\n"),
		script("peer_schedulers/volcano_748_large_job_is_not_passed_forever"), "was promised",
	},
	{
		"window-ahead", "keeping off a window who would run into it",
		edit("reservation.go", "(!at.Before(r.From) || lasts > r.From.Sub(at))", "!at.Before(r.From)"),
		script("reservations/maintenance"), `\+ +starts: in 0s to 1h0m0s \(on node a;`,
	},
	{
		"window-entitled", "a window for a tenant being for nobody else, and for it",
		edit("engine/window.go", "!v.Entitles(sh.leaf.Tenant(), sh.leaf.Name()) && s.sited(v).meets(of)", "s.sited(v).meets(of)"),
		script("reservations/tenant"), `\+red1 on b\[0\]`,
	},
	{
		"eta-secret", "leaving the names of others' reservations out of an ETA",
		edit("api/answers.go", "Basis: d.redact(to, t.Basis)}", "Basis: t.Basis}"),
		Test{Package: "./api", Run: "TestAccess"},
		"was told of",
	},
}
