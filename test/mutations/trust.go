package main

const (
	seatReports = "store/seat.go"
	mark        = "server/revision_mark.go"
	connections = "server/connections.go"
)

func inAPI(run string) Test    { return Test{Package: "./api", Run: run} }
func inServer(run string) Test { return Test{Package: "./server", Run: run} }

// These mutations break the rule that a node is believed only about itself, and that a stranger cannot use up a server.
var trust = []Mutation{
	{
		"trust-word-of-an-agent", "the refusal of a session without another effect: the claim stops the leader",
		edit("server/ahead.go", "\ts.ahead.note(node, refused != nil, time.Now())\n",
			"\tif refused != nil {\n\t\ts.refuseToLead(refused)\n\t}\n\ts.ahead.note(node, refused != nil, time.Now())\n"),
		inServer("TestAClaimOfAnAgentDeposesNobody"), "the server is not ready",
	},
	{
		"trust-revision-mark", "the comparison of the store with the server's mark",
		edit(mark, "if before.store != id || revision >= before.revision {", "if before.store != id || revision >= 0 {"),
		inServer("TestAStoreRolledBackIsNoticedByTheServer"), "the server is <nil>",
	},
	{
		"trust-mark-and-restore", "the refusal of a restore that issues tokens again",
		edit(mark, "if m.store != done.Store || done.Revision >= m.revision {", "if m.store != \"\" || done.Revision >= m.revision {"),
		inServer("TestAStoreRolledBackIsNoticedByTheServer"), "a small bump is answered",
	},
	{
		"trust-foreign-seat", "the comparison of the node in every report about a seat",
		edit(seatReports, "if err := ownSeat(r, ref); err != nil {", "if err := ctx.Err(); err != nil {"),
		inAPI("TestAnotherNodesSeat"), "FinishSeat with another node's seat is answered",
	},
	{
		"trust-no-session", "the refusal of session 0, which is that of a node without a session",
		edit(sessions, "if session <= 0 {", "if session < -1<<62 {"),
		law("Seats/AClaimNeedsTheSession"), `want code "fenced"`,
	},
	{
		"trust-every-session", "the type that keeps a number of an agent from meaning every session",
		edit(seatReports, "return reportSession{number: number}", "return reportSession{number: number, isEvery: number == -1}"),
		law("Seats/NoSessionHasANumberBelowOne"), "claim with session -1: <nil>",
	},
	{
		"trust-session-of-every-call", "the refusal of session numbers below 1 in every call of an agent",
		edit("api/pipeline/agent.go", "case !hasSession || under.GetRef().GetSession() <= 0:", "case !hasSession:"),
		inAPI("TestEveryAgentCallNeedsASession"), "FinishSeat with session",
	},
	{
		"trust-watch-needs-session", "the comparison of the session before a node gets its ranks",
		edit("api/service/agent.go", "n == nil || n.Session == nil || n.Session.Revision != ref.GetSession() {", "n != nil && n.Session != nil && n.Session.Revision > ref.GetSession() {"),
		inAPI("TestEveryAgentCallNeedsASession"), "WatchSeats with session",
	},
	{
		"trust-clean-needs-session", "the comparison of the session in the report of a node without ranks",
		edit("api/service/agent.go", "return nil, err // a node without ranks is not compared below", "_ = err"),
		inAPI("TestEveryAgentCallNeedsASession"), "ReportClean with session",
	},
	{
		"trust-files-need-session", "the comparison of the session before a node gets the requests for logs",
		edit("api/service/files.go", "return err // another holder of the certificate must not get the requests that are for the connected agent", "_ = err"),
		inAPI("TestEveryAgentCallNeedsASession"), "ServeFiles with session",
	},
	{
		"trust-stored-logs-session", "the comparison of the session before a node stores output",
		edit("api/service/storelogs.go", "n == nil || n.Session == nil || n.Session.Revision != ref.GetSession() {", "n != nil && n.Session != nil && n.Session.Revision > ref.GetSession() {"),
		inAPI("TestEveryAgentCallNeedsASession"), "StoreLogs with session",
	},
	{
		"trust-stored-logs-node", "the rule that a node stores only the output of its own ranks",
		edit("api/service/storelogs.go", "h.Rank != int(l.GetSeat().GetRank()) || h.Node != node:", "h.Rank != int(l.GetSeat().GetRank()):"),
		inAPI("TestStoredOutputIsOfItsRank"), "another node:",
	},
	{
		"trust-claim-isolation", "the check of isolation when a node claims a rank",
		edit("api/service/agent.go", "d.Now(), d.mayRun(ref.Node))", "d.Now())"),
		inAPI("TestAClaimNeedsIsolation"), "is answered <nil>",
	},
	{
		"trust-claim-returns", "the return of a job whose node lost its isolation",
		edit("api/service/agent.go", "if ares.CodeOf(err) == ares.Forbidden {", "if ares.CodeOf(err) == ares.Fenced {"),
		inAPI("TestAClaimNeedsIsolation"), "the job is scheduled",
	},
	{
		"trust-rejected-claim", "the rule that a rejected claim stops no newer attempt",
		edit(seatReports, "a == nil || a.Fence != ref.Fence || ", "a == nil || "),
		law("Seats/ARejectedClaimReturnsTheJob"), `stops attempt`,
	},
	{
		"trust-end-before-claim", "the refusal of an end before the claim",
		edit(seatReports, "if err := r.CheckEnd(ref.Fence, ref.Rank, res.Outcome); err != nil {", "if err := error(nil); err != nil {"),
		law("Seats/AnEndNeedsAClaim"), `want code "fenced"`,
	},
	{
		"trust-repeated-claims", "the claim that is not written again",
		edit(seatReports, "nil, []clientv3.Op{clientv3.OpPut(key, claim)}))", "[]clientv3.Op{clientv3.OpPut(key, claim)}, []clientv3.Op{clientv3.OpPut(key, claim)}))"),
		law("Seats/ARepeatedClaimWritesNothing"), "the store went from",
	},
	{
		"trust-marks-at-once", "the mark that is read before the store",
		edit(mark, "if before.store != id || revision >= before.revision {", "if revision >= m.revision {"),
		inServer("TestMarksComparedAtOnce"), "a slow read during the server's own writes",
	},
	{
		"trust-node-rate", "the limit on the calls of one node",
		edit("api/pipeline/agent.go", "err := d.Limiters.nodeRates.Spend(ctx, nodeBucket(c.Method.Name, node)); err != nil", "err := ctx.Err(); err != nil"),
		inAPI("TestNodesHaveARate"), "were not limited",
	},
	{
		"trust-percent", "the refusal of a progress that is no number",
		edit("api/service/reports.go", "if !(percent >= 0 && percent <= 100) {", "if percent < 0 || percent > 100 {"),
		inAPI("TestProgressIsChecked"), "NaN percent is answered",
	},
	{
		"trust-audit-of-reports", "the audit entry of a rejected report",
		edit("api/pipeline/audit.go", "level == method.AgentReports && statusFor(code) != audit.Refused {", "level == method.AgentReports && code != ares.Forbidden {"),
		inAPI("TestAnotherNodesSeat"), "is recorded as",
	},
	{
		"trust-silent-connections", "the end of a silent connection when another client needs its slot",
		edit(connections, "\t\tdropped = a.waiting.oldest()\n", "\t\tdropped = nil\n"),
		inServer("TestSilenceGivesWay"), "are open",
	},
	{
		"trust-kept-connections", "the share of connections for health checks and agents",
		edit(connections, "\t\tn.reserved = true\n", "\t\treturn nil, nil\n"),
		inServer("TestBusyConnectionsStay"), "none is kept for health checks",
	},
}
