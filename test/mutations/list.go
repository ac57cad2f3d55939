package main

// Mutation removes one safeguard.
type Mutation struct {
	Name    string
	Removes string // in words
	Edits   []Edit
	Caught  Test
	Says    string // what the failing test must say, a regular expression
}

// Edit replaces a text that occurs in the file exactly once.
type Edit struct{ File, Old, New string }

// Test identifies the test that must fail. It contains the package and the -run
// pattern of this test. The test must not be a property test. The rapid library
// would write the failing case into the source tree.
type Test struct {
	Package string
	Run     string
	// If Program is set, the test starts bin/ares. That binary and its embedded
	// supervisor are built with the mutation.
	Program bool
}

// Mutations returns all mutations, grouped by the safeguard that they remove.
func Mutations() []Mutation {
	var all []Mutation
	for _, part := range [][]Mutation{fencing, leading, rules, deadlines, accepting, apart, gangs, tenants, bindings, preemption, reservations, trust, connectionLimits, auditLog, secrets, nodes, nodeLimits, processes, leaks, federation, federationLoans, moves, userSessions, badImages, storage, rollbacks, jobSockets} {
		all = append(all, part...)
	}
	return all
}

// This function returns a test of the store's conformance suite by its name.
func law(name string) Test { return Test{Package: "./store", Run: "TestEmbedded/" + name} }

func root(run string) Test      { return Test{Package: ".", Run: run} }
func inAgent(run string) Test   { return Test{Package: "./agent", Run: run} }
func inRun(run string) Test     { return Test{Package: "./agent/run", Run: run} }
func scheduler(run string) Test { return Test{Package: "./control/scheduler", Run: run} }
func lifecycle(run string) Test { return Test{Package: "./control/lifecycle", Run: run} }
func inFaults(run string) Test  { return Test{Package: "./test/chaos/faults", Run: run, Program: true} }

// This function returns the single replacement of a simple mutation.
func edit(file, before, after string) []Edit { return []Edit{{file, before, after}} }

const (
	transitions = "transitions.go"
	commit      = "store/commit.go"
	runs        = "store/run.go"
	sessions    = "store/session.go"
	create      = "store/create.go"
	reaper      = "control/lifecycle/reaper.go"
	agent       = "agent/agent.go"
	seat        = "agent/seat.go"
	seats       = "agent/seats.go"
	timetable   = "agent/run/seat/seat.go"
	supervisor  = "cmd/ares-supervisor/loop.go"
)

// These mutations break two rules: only the current attempt may act, and it may
// act only once.
var fencing = []Mutation{
	{
		"fence", "the comparison of the fencing token",
		edit(transitions, "a == nil || f == 0 || a.Fence != f {", "a == nil || f == 0 {"),
		root("TestLateAndRepeatedReports"), "want code fenced",
	},
	{
		"fence-in-the-field", "the same, seen from a job that outlived its lease",
		edit(transitions, "a == nil || f == 0 || a.Fence != f {", "a == nil || f == 0 {"),
		inFaults("TestAgentStoppedPastLostAfterAndResumedIsAHarmlessZombie"), "a late report was answered",
	},
	{
		"fence-zero", "the refusal of a token that was never given",
		edit(transitions, "a == nil || f == 0 || a.Fence != f {", "a == nil || a.Fence != f {"),
		root("TestNoFenceNoRight"), "want code fenced",
	},
	{
		"fence-grows", "the revision as the token: attempts are only counted",
		edit("store/codec.go", "a.Fence = ares.Fence(revision)", "a.Fence = ares.Fence(a.Number)"),
		law("Commit/TheFenceIsWhereTheLeaseWasCreated"), "fence 1, lease",
	},
	{
		"run-compared", "the comparison of the run that a transition was made from",
		edit(runs, "\t\tclientv3.Compare(clientv3.ModRevision(runKey(s.Job.ID)), \"=\", s.Run.Revision),\n", ""),
		law("Gangs/RanksMayEndTogether"), "reports made the job final",
	},
	{
		"node-of-the-seat", "the comparison of the node that reports an end",
		edit(seatReports, "r.Attempts[i].Fence == ref.Fence && h.Rank == ref.Rank && h.Node != ref.Node {", "r.Attempts[i].Fence == ref.Fence && h.Rank == ref.Rank && h.Node == \"\" {"),
		law("Seats/AnotherNodeMayNotAct"), `want code "fenced"`,
	},
	{
		"final-is-final", "the table of moves",
		edit(transitions, "if !r.Phase.MayBecome(to) {", "if false {"),
		root("TestCancelRaces"), "want code conflict",
	},
	{
		"claim-before-spawn", "the claim before the spawn: it comes after it",
		edit(seat, "err := s.claim(ctx, digest)\n\tif err == nil && s.digest == \"\" && noImage != nil {\n\t\terr = s.withoutImage(ctx, noImage)\n\t} else if err == nil {\n\t\terr = s.start(ctx)\n\t}",
			"_ = noImage\n\terr := s.start(ctx)\n\tif err == nil {\n\t\terr = s.claim(ctx, digest)\n\t}"),
		inAgent("TestNothingIsSpawnedBeforeItsClaim"), "spawned before its claim was answered",
	},
	{
		"verified-death", "the verified death before a report and Release, for a seat found after a restart",
		edit(seat, "err := s.agent.runner.EnsureDead(ctx, s.key)", "var err error"),
		inAgent("TestASeatIsReleasedAfterVerifiedDeath"), "told of its end while a process of it lives",
	},
	{
		"verified-death-of-a-process", "the verified death when a supervisor is gone",
		edit("agent/run/proc.go", "if err := p.r.EnsureDead(ctx, p.order.Key); err != nil {", "if err := ctx.Err(); err != nil {"),
		inRun("TestSupervisorKilled$"), `orphan \d+ lives`,
	},
	{
		"release-after-the-end", "the refusal to release a seat that may live",
		edit(transitions, `return Errorf(Conflict, "rank %d has not reported its end", rank)`, "h.State = SeatReleased"),
		root("TestHappyLife"), "want code conflict",
	},
}

// These mutations break two rules. Only one leader writes at a time, and it
// writes only plans that are based on the current state.
var leading = []Mutation{
	{
		"leader-commits", "the comparison of leadership in Commit",
		edit(commit, "guard := []clientv3.Cmp{lead.leads(), lead.inSequence()}", "guard := []clientv3.Cmp{lead.inSequence(), lead.inSequence()}"),
		law("Commit/AnOldLeaderWritesNothing"), `want code "fenced"`,
	},
	{
		"leader-voids", "the comparison of leadership in Void",
		edit(commit, "\t\tlead.leads(),\n", ""),
		law("Void/OnlyTheLeaderVoids"), `want code "conflict"`,
	},
	{
		"leader-archives", "the comparison of leadership in Archive and Forget",
		edit("store/leader.go", "return []clientv3.Cmp{l.leads(), c}", "return []clientv3.Cmp{c}"),
		law("Archive/OnlyAFreeAndFinalJobIsArchived"), `want code "conflict"`,
	},
	{
		"plan-sequence", "the comparison of the plan sequence",
		edit(commit, "guard := []clientv3.Cmp{lead.leads(), lead.inSequence()}", "guard := []clientv3.Cmp{lead.leads(), lead.leads()}"),
		law("Commit/APlanOutOfSequenceIsRefused"), `want code "fenced"`,
	},
	{
		"plan-compares-runs", "the comparison of each run that a plan changes",
		edit(commit, `clientv3.Compare(clientv3.ModRevision(runKey(c.Job)), "=", c.Next.Revision)`, `clientv3.Compare(clientv3.ModRevision(runKey(c.Job)), ">", -1)`),
		law("Commit/ACancelInBetweenDropsOnlyThatJob"), `dropped \[\]`,
	},
	{
		"plan-of-an-archived-job", "the comparison of the job's own record in a first placing",
		edit(commit, `clientv3.Compare(clientv3.Version(jobKey(c.Job)), "=", 1)`, `clientv3.Compare(clientv3.Version(jobKey(c.Job)), ">", 0)`),
		law("Commit/AnArchivedJobIsNotPlaced"), "an archived job was placed",
	},
	{
		"decides-on-its-last-plan", "the wait for the leader's own last plan before the next decision",
		edit("control/scheduler/loop.go", "if l.state.Revision() < revision {", "if l.state.Revision() < 0 {"),
		scheduler("TestLoopWaitsForItsOwnPlan"), "decided again before it had seen its own plan",
	},
	{
		"brake", "the brake on mass failure",
		edit(reaper, "if r.braked(gone) {", "if r.braked(gone) && r.Tick < 0 {"),
		lifecycle("TestReaperBrakes"), "under the brake job|of a node that is there is",
	},
	{
		"brake-percent", "the share of nodes at which it brakes",
		edit(reaper, "lost*100 <= r.BrakePercent*known", "lost <= known"),
		lifecycle("TestBrakeArithmetic"), "braked is false",
	},
	{
		"reaper-patience", "the Reaper's patience: it takes a seat back when the session ends",
		edit(reaper, "max(e.Job.LostAfter()-a.silent, 0) - time.Since(a.since)", "-time.Since(a.since)"),
		lifecycle("TestReaperWaitsForLostAfter"), "its patience was",
	},
	{
		"reaper-unfenced", "the seats of nodes that do not fence themselves",
		edit(reaper, "\t\tif a.unfenced {\n\t\t\tcontinue", "\t\tif a.unfenced && r.Tick < 0 {\n\t\t\tcontinue"),
		lifecycle("TestReaperKeepsSeatsOfNodesThatDoNotFence"), "on a node that does not fence itself is",
	},
	{
		"reaper-starts-anew", "the new start of every timer with a new leader",
		edit(reaper, "gone := map[string]absence{}\n", "gone := map[string]absence{}\n\tnodes, _ := r.View.Nodes()\n\tfor _, n := range nodes {\n\t\tgone[n.Node.ID] = absence{revision: n.Node.Revision}\n\t}\n"),
		lifecycle("TestReaperOfANewLeader"), "timers start anew",
	},
}

// These mutations break the rules R1 to R9 in docs/design/exactly-once.md.
var rules = []Mutation{
	{
		"R1-bury", "the report of a claimed seat that has no process",
		edit(seat, "if s.order.Current && s.order.State == string(ares.SeatClaimed) {", "if s.order == nil {"),
		inAgent("TestALostSeatIsReported"), "was not reported as lost",
	},
	{
		"R1-stops-the-others", "the stop of a gang of which a rank was lost",
		edit(transitions, "if res.Outcome == OutcomeSucceeded || r.Stop != nil {", "if res.Outcome == OutcomeSucceeded || res.Outcome == OutcomeLost || r.Stop != nil {"),
		root("TestReportedLost"), "stop = ",
	},
	{
		"R1-no-retry-used", "the difference between lost and failed",
		edit(transitions, "case worst.Outcome == OutcomeLost, stop != nil", "case stop != nil"),
		root("TestVoid"), "want pending",
	},
	{
		"R2-settled", "the wait of the next attempt for every seat of the last",
		edit(transitions, "if r.Stop != nil || !r.Settled() {", "if r.Stop != nil {"),
		root("TestVoid"), "want code conflict",
	},
	{
		"R2-engine", "the same in the engine",
		edit("engine/job/entry.go", "e.Run.Stop == nil && e.Run.Settled() }", "e.Run.Stop == nil }"),
		Test{Package: "./engine", Run: "TestScripts"},
		"may not be placed",
	},
	{
		"R2-seat-by-seat", "the void of one seat only: it takes the whole gang",
		edit(transitions, "\th.State = SeatVoided\n", "\tfor i := range a.Seats {\n\t\ta.Seats[i].State = SeatVoided\n\t}\n"),
		root("TestVoid$"), "after the void",
	},
	{
		"R2-own-session", "the comparison that the node's own session has ended",
		edit(commit, "\t\tclientv3.Compare(clientv3.CreateRevision(sessionKey(ref.Node)), \"=\", 0),\n", ""),
		law("Void/ASeatIsVoidedByItsOwnNode"), `want code "conflict"`,
	},
	{
		"R3-node-revision", "the comparison of the node's record in Void",
		edit(commit, "\t\tclientv3.Compare(clientv3.ModRevision(nodeKey(ref.Node)), \"=\", nodeRevision),\n", ""),
		law("Void/ANodeThatCameBackIsNotVoided"), `want code "conflict"`,
	},
	{
		"R3-timers", "the new timer for a node that was back in between",
		edit(reaper, "case !known || a.revision != n.Node.Revision:", "case !known || a.revision < 0:"),
		lifecycle("TestTimersFollowTheNodesRecord"), "the node was back in between",
	},
	{
		"R4-fresh", "the half of lost_after after which nothing is claimed or spawned",
		edit(agent, "run.Now().Sub(renewed) < lostAfter/2", "run.Now().Sub(renewed) < lostAfter*2"),
		inAgent("TestNothingIsSpawnedLate"), "fresh is true",
	},
	{
		"R4-claim", "the look at the last renewal before a claim",
		edit(seat, "if session == 0 || !isFresh(run.BootTime(s.agent.renewed.Load()), s.lostAfter()) {", "if session == 0 {"),
		inAgent("TestNothingIsClaimedLate"), "claimed late",
	},
	{
		"R4-spawn", "the look at the last renewal before a spawn",
		edit(seat, "if s.agent.session.Load() != s.session || !isFresh(spec.RenewedAt, spec.LostAfter) {", "if s.agent.session.Load() != s.session {"),
		inAgent("TestNothingIsClaimedLate"), "spawned after a claim whose answer came too late",
	},
	{
		"R4-exec", "the supervisor's look at the clock right before exec",
		edit("cmd/ares-supervisor/spawn.go", "if now >= o.DecideAt(o.RenewedAt) {", "if now < 0 {"),
		inRun("TestNeverSpawnsLate"), "want fenced -1",
	},
	{
		"R5-agent", "the agent's comparison of the session between claim and spawn",
		[]Edit{
			{seat, "if s.agent.session.Load() != session {", "if ctx.Err() != nil {"},
			{seat, "if s.agent.session.Load() != s.session || !isFresh(spec.RenewedAt, spec.LostAfter) {", "if !isFresh(spec.RenewedAt, spec.LostAfter) {"},
		},
		inAgent("TestAClaimBelongsToItsSession"), "spawned by the claim of an ended session",
	},
	{
		"R8-may-yet-be-claimed", "the seats that a clean report spares because they may yet be claimed",
		edit(seats, "if o.Current {\n\t\t\theld[o", "if o.Current && false {\n\t\t\theld[o"),
		inAgent("TestACleanReportSparesWhatMayYetBeClaimed"), "which may yet",
	},
	{
		"R5-store", "the comparison of the session in Claim",
		edit(seatReports, `"claim seat", ref, inSession(session),`, `"claim seat", ref, everySession,`),
		law("Seats/AClaimNeedsTheSession"), `want code "fenced"`,
	},
	{
		"R5-repeated-claim", "the same for a claim that is stored already",
		edit(runs, "if err != nil || same && len(extra) == 0 {", "if err != nil || same {"),
		law("Seats/ARepeatedClaimNeedsTheSessionToo"), `want code "fenced"`,
	},
	{
		"R6", "the expiry of a renewal that never was",
		edit(agent, "return renewed != 0 && run.Now()", "return run.Now()"),
		inAgent("TestNothingIsSpawnedLate"), "no renewal was ever acknowledged, yet it is fresh",
	},
	{
		"R7", "the cancel that survives a void",
		edit(transitions, "case stop != nil && stop.Why == StopCancel:", "case stop != nil && stop.Why == StopCancel && worst.Outcome != OutcomeLost:"),
		root("TestCancelRaces"), "want cancelled",
	},
	{
		"R8-session", "the comparison of the reporting node's own session in Clear",
		edit(runs, "}, []clientv3.Cmp{current}, nil, sessionOutdated", "}, []clientv3.Cmp{current}[:0], nil, sessionOutdated"),
		law("Seats/ACleanReportFreesOldFencesOnly"), `want code "fenced"`,
	},
	{
		"R8-before", "the age of the report: it frees seats younger than itself",
		edit(transitions, "held[a.Fence] || a.Fence >= before {", "held[a.Fence] {"),
		root("TestVoid"), "or one younger than its report",
	},
	{
		"R8-held", "the fences that the node says it holds",
		edit(transitions, "held[a.Fence] || a.Fence >= before {", "a.Fence >= before {"),
		root("TestVoid"), "cleared a fence the node says it holds",
	},
	{
		"R8-current", "the seats of the attempt under way, which a clean report leaves alone",
		edit(transitions, "if !a.Ended() || held[a.Fence]", "if held[a.Fence]"),
		root("TestVoid"), "freed a current seat",
	},
	{
		"R8-agent", "the agent's word on what it still holds",
		edit(seats, "\t\theld[key.Fence] = true\n", "\t\t_ = key\n"),
		inAgent("TestACleanReportSparesWhatMayYetBeClaimed"), "which lives",
	},
	{
		"R8-release", "the release by fence, current or not",
		edit(transitions, "case h.State == SeatFinished || a.Ended():", "case h.State == SeatFinished:"),
		root("TestVoid"), "has not reported",
	},
	{
		"R9-claim", "the refusal of a claim on a seat that is to stop",
		edit(transitions, "if r.Stop != nil && h.State == SeatPlaced {", "if false {"),
		root("TestCancelRaces"), "want code fenced",
	},
	{
		"R9-decline-frees", "the release of a declined seat in the same transaction",
		edit(transitions, "\treturn r.Release(f, rank)\n", "\treturn nil\n"),
		root("TestCancelRaces"), "a declined seat is held",
	},
	{
		"R9-decline-unclaimed", "the refusal to decline a seat that was claimed",
		edit(transitions, "if r.Stop == nil || h.State != SeatPlaced {", "if r.Stop == nil {"),
		root("TestCancelRaces"), "want code conflict",
	},
	{
		"R9-decline-session", "the comparison of the session in Decline",
		edit(seatReports, `"decline seat", ref, inSession(session),`, `"decline seat", ref, everySession,`),
		law("Seats/AStopBeforeTheClaimIsAnsweredByDecline"), `want code "fenced"`,
	},
	{
		"R9-agent", "the agent's decline: it claims a seat that is to stop",
		edit(seats, "a.begin(key, o, (*seat).decline)", "a.begin(key, o, (*seat).run)"),
		inAgent("TestAStoppedSeatIsDeclined"), "was answered by",
	},
}

// These mutations break the rule that a job's process is dead before its seat
// is reused.
var deadlines = []Mutation{
	{
		"supervisor-deadline", "the supervisor's decision at half of lost_after",
		edit(supervisor, "if !s.fenced && now >= s.order.DecideAt(s.renewed) {", "if !s.fenced && now < 0 {"),
		Test{Package: "./cmd/ares-supervisor", Run: "TestDecisionIsFinal"},
		"at half of lost_after",
	},
	{
		"supervisor-deadline-in-the-field", "the same, for a job whose agent is killed for good",
		edit(supervisor, "if !s.fenced && now >= s.order.DecideAt(s.renewed) {", "if !s.fenced && now < 0 {"),
		inFaults("TestAgentKilledForGoodItsProcessDiesBeforeTheVoid"), "was alive",
	},
	{
		"decision-is-final", "the refusal of a renewal after the decision",
		edit("cmd/ares-supervisor/control.go", "\tcase s.fenced:\n\t\treturn \"refused fenced\"\n", ""),
		Test{Package: "./cmd/ares-supervisor", Run: "TestDecisionIsFinal"},
		"at half of lost_after: ok",
	},
	{
		"kill-after-term", "SIGKILL for a job that ignores SIGTERM",
		edit(timetable, "renewed.Add(s.LostAfter / 10 * 7)", "renewed.Add(s.LostAfter * 7)"),
		Test{Package: "./cmd/ares-supervisor", Run: "TestDecisionIsFinal"},
		"fenced, term 13s, kill 2m21s",
	},
	{
		"supervisor-kills-orphans", "the kill of the whole cgroup: the main process only",
		edit(supervisor, "\treturn s.killAll() && over\n", "\tif s.running() {\n\t\t_ = syscall.Kill(s.start.pid, syscall.SIGKILL)\n\t}\n\treturn over\n"),
		inRun("TestOrphanDies"), `orphan \d+ lives`,
	},
	{
		"self-fence-of-the-agent", "the agent's kill at 0.75 when the supervisor hangs",
		edit(timetable, "renewed.Add(s.LostAfter / 4 * 3)", "renewed.Add(s.LostAfter * 4)"),
		inRun("TestSupervisorStopped$"), `context deadline exceeded`,
	},
	{
		"renewed-when-sent", "the sending as the time of a renewal: it counts from its answer",
		edit(agent, "\t\ta.acknowledged(sent)\n\t}\n", "\t\ta.acknowledged(max(sent, run.Now()))\n\t}\n"),
		inAgent("TestARenewalCountsFromItsSending"), "after it had arrived",
	},
	{
		"renewal-of-a-replaced-session", "the look at the session before its lease is extended",
		edit(sessions, "if err == nil && now.revision != session {", "if err == nil && now.revision == 0 {"),
		law("Sessions/AReplacedSessionIsNotRenewed"), `want code "fenced"`,
	},
	{
		"second-instance", "the refusal of a second agent of the same name",
		edit(sessions, "if old.revision > 0 && old.record.GetInstance() != instance {", "if old.revision > 0 && old.record.GetInstance() == \"\" {"),
		law("Sessions/ASecondInstanceIsRefused"), `want code "conflict"`,
	},
	{
		"lost-directory", "the wait for what an agent with another directory may have left",
		edit(seat, "return rest <= 0 || pause.For(ctx, rest)", "return rest <= 0 || ctx.Err() == nil"),
		inAgent("TestWhatAnotherAgentLeftIsOutlived"), "while it may still live",
	},
}

// These mutations break the rule that one submission request creates exactly one
// job.
var accepting = []Mutation{
	{
		"create-if-absent", "the comparison that the job is not there yet",
		edit(create, `cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), "=", 0))`, `cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), ">", -1))`),
		law("Create/TheSameRequestIsTheSameJob"), "want a duplicate",
	},
	{
		"create-if-absent-one-by-one", "the same in the transaction that lets each job decide",
		edit(create, "\t\t\tclientv3.Compare(clientv3.CreateRevision(jobKey(c.id)), \"=\", 0),\n", ""),
		law("Create/TheSameRequestIsTheSameJob"), "want a duplicate",
	},
	{
		"digest-conflict", "the comparison of the bodies of two requests with one ID",
		edit(create, "if string(digest) != string(c.digest[:]) {", "if len(digest) == 0 {"),
		law("Create/TheSameRequestWithAnotherBodyIsAConflict"), `want code "conflict"`,
	},
	{
		"digest-conflict-in-a-batch", "the same between two requests of one batch",
		edit(create, "if r.first.digest == r.again.digest {", "if r.first.id == r.again.id {"),
		law("Create/ABatchMayRepeatARequest"), `want code "conflict"`,
	},
	{
		"digest-sees-every-field", "a field of the digest",
		edit("digest.go", "\tc = c.number(22, s.GPUMilli)\n", ""),
		root("TestDigestSeesEveryField"), "has the digest of",
	},
	{
		"job-id", "the length prefix that tells tenant and request apart",
		[]Edit{
			{"id.go", "\tbuf = binary.BigEndian.AppendUint64(buf, uint64(len(tenant)))\n", ""},
			{"id.go", "\tbuf = binary.BigEndian.AppendUint64(buf, uint64(len(requestID)))\n", ""},
		},
		root("TestJobIDsNeverChange"), "not told apart",
	},
	{
		"tenant-compared", "the comparison of the tenant whose quota was checked",
		edit(create, "\t\t\tcmps = append(cmps, clientv3.Compare(clientv3.ModRevision(c.tenant), \"=\", c.tenantRevision))\n", ""),
		law("Create/AChangedTenantMakesARequestStale"), `want code "conflict"`,
	},
}
