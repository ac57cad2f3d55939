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
		edit(mark, "if revision >= m.revision {", "if revision >= 0 {"),
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
		inAPI("TestAnotherNodesSeat"), "ReportProgress with another node's seat is answered",
	},
	{
		"trust-no-session", "the refusal of session 0, which is that of a node without a session",
		edit(seatReports, "if session <= 0 {", "if session < 0 {"),
		law("Seats/AClaimNeedsTheSession"), `want code "fenced"`,
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
		edit(connections, "\tfor _, a := range l.addresses {\n", "\tfor _, a := range l.addresses {\n\t\tif len(l.addresses) > 0 {\n\t\t\tbreak\n\t\t}\n"),
		inServer("TestSilenceGivesWay"), "was refused",
	},
	{
		"trust-kept-connections", "the share of connections for health checks and agents",
		edit(connections, "\t\tn.reserved = true\n", "\t\treturn nil, nil\n"),
		inServer("TestBusyConnectionsStay"), "none is kept for health checks",
	},
}
