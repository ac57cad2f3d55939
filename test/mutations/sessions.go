package main

const (
	beside  = "cmd/ares-supervisor/exec.go"
	tickets = "api/service/sessions.go"
)

// These mutations break the rules of sessions with jobs: nothing of a session outlives the job or its user, and only those who may have a
// session with a job get one.
var userSessions = []Mutation{
	{
		"session-fork-after-the-end", "the check that keeps a command from being forked when the job is over",
		edit(beside, "if s.closed || s.late.Load() || seat.Now() >= until {", "if s.late.Load() || seat.Now() >= until {"),
		Test{Package: "./cmd/ares-supervisor", Run: "TestBeginFork"}, "forks after the end of the job",
	},
	{
		"session-late-fork", "the check of the lease before a command is forked (R4)",
		edit(beside, "if s.closed || s.late.Load() || seat.Now() >= until {", "if s.closed {"),
		Test{Package: "./cmd/ares-supervisor", Run: "TestBeginFork"}, "forks after",
	},
	{
		"session-fork-seen", "the wait of the job's end for a fork that is under way",
		edit(supervisor, "\t\treturn !forking\n", "\t\treturn true\n"),
		Test{Package: "./cmd/ares-supervisor", Run: "TestEndWaitsForFork"}, "does not wait",
	},
	{
		"session-hang-up", "the end of a command whose user is gone",
		edit(beside, "\t\t_ = syscall.Kill(-x.pid, syscall.SIGHUP)\n", "\t\t_ = -x.pid\n"),
		inRun("TestExecHangsUp"), "lives",
	},
	{
		"session-ticket-once", "the deletion of a used ticket",
		edit(tickets, "\tt := s.tickets[hash]\n\tdelete(s.tickets, hash)\n", "\tt := s.tickets[hash]\n"),
		inAPI("TestSessionTickets"), "is <nil>|: <nil>|used",
	},
	{
		"session-ticket-node", "the comparison of the ticket's node",
		edit(tickets, "if hello.GetRef().GetNodeId() != t.node || ", "if "),
		inAPI("TestSessionTickets"), "another node: <nil>",
	},
	{
		"session-ticket-late", "the life of a ticket, and its end with the offer",
		[]Edit{
			{tickets, "if t == nil || !time.Now().Before(t.until) {", "if t == nil {"},
			{tickets, "\t\tdelete(s.tickets, hash)\n\t\ts.mu.Unlock()\n\t\tclose(t.over)\n", "\t\ts.mu.Unlock()\n\t\tclose(t.over)\n"},
		},
		inAPI("TestSessionTicketLate"), "a late use: <nil>",
	},
	{
		"session-owner", "the right of other submitters",
		edit("api/pipeline/scope_session.go", "if job != nil && job.Owner != who.Name {", "if job != nil && job.Owner == \"\" {"),
		inAPI("TestSessionOwner"), "another submitter",
	},
	{
		"session-port", "the check that the job itself listens on a port",
		edit("agent/run/forward.go", "if l.addr.Port() != port || !own[l.inode] {", "if l.addr.Port() != port {"),
		inRun("TestDial"), "another process",
	},
}
