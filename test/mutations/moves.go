package main

const (
	moving      = "move.go"
	uplinkMoves = "federation/uplink_moves.go"
	hubMoves    = "federation/moves.go"
	uplinkFence = "federation/uplink_fence.go"
)

// These mutations remove what keeps a job that moves between clusters from running twice, or from going back and forth.
var moves = []Mutation{
	{
		"moves-placed-again", "the rule that a job that is being returned is not placed again",
		edit(transitions, "if r.Returning != \"\" {\n\t\treturn Errorf(", "if false {\n\t\treturn Errorf("),
		root("TestStopToReturn"), `a job that is being returned was placed`,
	},
	{
		"moves-once", "the rule that an at_most_once job that was placed is not stopped to be moved",
		edit(moving, "case j.Mode == AtMostOnce && r.Placed > 0, j.ArrayOf != \"\":", "case j.ArrayOf != \"\":"),
		root("TestStopToReturn"), `at_most_once: stopped true`,
	},
	{
		"moves-array", "the rule that an array that has started is not moved",
		edit(moving, "return r.Phase.Waiting() && r.Next == 0", "return true"),
		root("TestStopToReturn"), `an array: stopped true`,
	},
	{
		"moves-epoch", "the comparison of a request to stop a job with the grant of the job",
		edit("store/move.go", "o == nil || o.Epoch != epoch {", "o == nil {"),
		law("Member/AStoppedJobIsReturned"), `want code "fenced"`,
	},
	{
		"moves-settled", "the wait for the processes of a stopped job before it is returned",
		edit(grantsAt, "case !r.Settled():", "case false:"),
		inFederation("TestDrainStops"), `was returned while a process may be alive`,
	},
	{
		"moves-retry", "the retries of earlier clusters in the limit of a job that moves",
		edit("federation/offers.go", "if r.Retries > 0 {", "if false {"),
		inFederation("TestMoveAfterFailures"), `after 2 of 5 retries`,
	},
	{
		"moves-damping", "the time for which a cluster that gave a job back gets no offer of it",
		edit(reports, "if r.Moves {", "if false {"),
		law("Hub/AReturnedJobWaitsAndCanMove"), `the clusters that gave the job back`,
	},
	{
		"moves-doubling", "the doubling of that time",
		edit(moving, "LeftFor << min(max(l.Times-1, 0), maxLeftDoublings)", "LeftFor"),
		root("TestLeave"), `the job is kept away for`,
	},
	{
		"moves-clock", "the rule that a clock that went back does not keep a job from a cluster for longer",
		edit(moving, "left > 0 && left <= l.lasts()", "left > 0"),
		root("TestLeave"), `a clock that went back`,
	},
	{
		"moves-offers", "the rule that the chooser offers no job to a cluster that gave it back lately",
		[]Edit{
			{"federation/choose/left.go", "out = append(out, l.Cluster)", "_ = l"},
			{"federation/choose/needs.go", "if l.Cluster == c.Name {", "if l.Cluster == \"\" {"},
		},
		Test{Package: "./federation/choose", Run: "TestLeft"}, `offered to "one`,
	},
	{
		"moves-other", "the rule that a job is returned only if another cluster could run it",
		edit(hubMoves, "t.hasOther(r, clusters) {", "len(clusters) > 0 {"),
		inFederation("TestMoveAfterFailures"), `cluster b has returned job`,
	},
	{
		"moves-fence-boot", "the clock of the fence that goes on during suspend",
		edit("federation/uplink.go", "\t\tnow := u.Boot()\n\t\tu.setMode(now)", "\t\tnow := boottime.Now()\n\t\tu.setMode(now)"),
		inFederation("TestFenceAfterSuspend"), `after an hour, the job is not stopped`,
	},
	{
		"moves-fence-late-answer", "the refusal to resume a fenced job by an answer that arrives late",
		edit(uplinkFence, "e != nil && !mayConfirm(e.Job, now.Sub(sent)) {", "e != nil && !mayConfirm(e.Job, 0) {"),
		inFederation("TestLateAnswers"), `a late answer has confirmed the job`,
	},
	{
		"moves-fence-late-welcome", "the rule that a welcome does not resume a fenced job",
		edit("federation/uplink_session.go", "if _, fenced := fencedAfter(e.Job); fenced {", "if _, fenced := fencedAfter(e.Job); fenced && l == nil {"),
		inFederation("TestLateAnswers"), `a late answer has confirmed the job`,
	},
}
