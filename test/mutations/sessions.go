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
		"session-ticket-once", "the deletion of a used ticket",
		edit(tickets, "\tt := s.tickets[hash]\n\tdelete(s.tickets, hash)\n", "\tt := s.tickets[hash]\n"),
		inAPI("TestSessionTickets"), "is <nil>|: <nil>|used",
	},
}
