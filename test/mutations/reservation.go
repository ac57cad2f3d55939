package main

// These mutations break the rules for reservations and queue timeouts. They
// break three guarantees. Backfill never delays a job that has a reservation.
// An administrator's reservation keeps other jobs off its nodes. A job leaves
// the queue when its queue timeout is over.
var reservations = []Mutation{
	{
		"backfill-reservation", "the reservation that backfill makes for a blocked job",
		edit("engine/backfill/round.go", "func (b *Round) BackfillConfig() config.BackfillConfig {", "func (b *Round) BackfillConfig() config.BackfillConfig {\n\tif len(b.Cluster.Nodes) > 0 {\n\t\treturn config.BackfillConfig{}\n\t}"),
		script("peer_schedulers/kai_1969_large_gang_starts"), "has not started",
	},
	{
		"backfill-limit", "the time by which a backfilled job on reserved seats must have ended",
		edit("engine/backfill/earlieststart.go", "\tr.limit = r.At\n", "\tr.limit = job.NoEnd\n"),
		script("peer_schedulers/volcano_748_large_job_is_not_passed_forever"), "its latest allowed start is",
	},
	{
		"window-ahead", "the refusal of a job that would run into a coming reservation",
		edit("reservation.go", "(!at.Before(r.From) || lasts > r.From.Sub(at))", "!at.Before(r.From)"),
		script("reservations/maintenance"), `\+ +starts: in 0s to 1h0m0s \(on node a;`,
	},
	{
		"window-entitled", "the right of a reservation's own tenant to its nodes",
		edit("engine/window/blocking.go", "!w.Entitles(sh.Leaf.Tenant(), sh.Leaf.Name()) && c.windowNodes(w).Meets(of)", "c.windowNodes(w).Meets(of)"),
		script("reservations/tenant"), `\+red1 on b\[0\]`,
	},
	{
		"queue-timeout", "max_queue_minutes",
		edit("engine/job/queuetimeout.go", "minutes > 0 && (e.Run == nil || e.Run.Placed == 0) {", "minutes < 0 && (e.Run == nil || e.Run.Placed == 0) {"),
		script("deadline/max_queue_time_in_full_plan"), "-large000 is to stop: queue by waited 30 min",
	},
	{
		"eta-redacted", "the removal of the names of others' reservations from an ETA",
		edit("api/service/answers.go", "Basis: t.Basis.Render(to.ref)}", "Basis: t.Basis.String()}"),
		Test{Package: "./api", Run: "TestAccess"},
		"was told of",
	},
}
