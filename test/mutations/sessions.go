package main

const (
	beside  = "cmd/ares-supervisor/exec.go"
	joining = "cmd/ares-supervisor/join.go"
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
		"session-image-restricted", "the isolation of a command beside a job in an image",
		edit(joining, "\treturn s.restrict()\n", "\treturn nil\n"),
		inRun("TestExec$"), `isolation of the command`,
	},
	{
		"session-image-namespaces", "that a command joins the namespaces that the container had before the image's first instruction",
		edit(joining, "func (s *supervisor) enterContainer() error {\n", "func (s *supervisor) enterContainer() error {\n\t_ = s.member.openNamespaces(s.born.pid)\n"),
		inRun("TestExecInFirstNamespaces"), `the job has made`,
	},
	{
		"session-image-cgroup", "that a command beside a job in an image is in the job's cgroup",
		edit("cmd/ares-supervisor/seccomp.go", "\t\ts.onMachine(func() { err = s.takeIn(pid) })\n", "\t\tif !s.member.isJoined {\n\t\t\terr = s.takeIn(pid)\n\t\t}\n"),
		inRun("TestExec$"), `isolation of the command|context deadline exceeded`,
	},
	{
		"session-rest-of-group", "the end of the processes that a command leaves behind in its group when its user is gone",
		edit("cmd/ares-supervisor/leftgroup.go", "if x.killAt != 0 && s.order.Contained()", "if x.killAt < 0 && s.order.Contained()"),
		inRun("TestExecHangsUpGroup"), `ended too|lives`,
	},
	{
		"session-ticket-once", "the deletion of a used ticket",
		edit(tickets, "\tt := s.tickets[hash]\n\tdelete(s.tickets, hash)\n", "\tt := s.tickets[hash]\n"),
		inAPI("TestSessionTickets"), "is <nil>|: <nil>|used",
	},
	{
		"session-recording-first", "the refusal of a session whose recording cannot be begun",
		edit("api/service/sessionrecording.go", "h); err != nil {\n\t\treturn nil, err\n", "h); err != nil {\n\t\treturn user, nil\n"),
		inAPI("TestUnrecordedSessions"), `was started without a recording|want "the session was refused"`,
	},
	{
		"session-recording-name", "the check of the form of IDs of recordings, which become file names",
		edit("control/sessionrecording/info.go", "\tif !idForm.MatchString(id) {\n\t\treturn ares.Errorf", "\tif id == \"?\" {\n\t\treturn ares.Errorf"),
		Test{Package: "./control/sessionrecording", Run: "TestNamesOfRecordings"}, `want invalid`,
	},
}
