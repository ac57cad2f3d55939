package main

const (
	jobSocket = "agent/run/jobsocket.go"
	rankCalls = "api/service/ranks.go"
)

// These mutations break the rules of the socket of a job's processes: only they can use it, only for their own attempt, and they leave room
// for users.
var jobSockets = []Mutation{
	{
		"rank-caller", "the check that the process at the other end of a job's socket is in the seat's cgroup",
		edit(jobSocket, "\treturn found && unix.PidfdSendSignal", "\treturn unix.PidfdSendSignal"),
		inRun("TestJobSocketOfAnotherJob"), `is told .*answered.*answered`,
	},
	{
		"rank-mode", "the mode of a job's socket",
		edit(jobSocket, "unix.Fchmod(fd, 0o600)", "unix.Fchmod(fd, 0o666)"),
		inRun("TestJobSocket$/plain"), `the socket is Srw`,
	},
	{
		"rank-read-only", "that the directory of a job's socket is mounted read-only",
		edit("cmd/ares-supervisor/sandbox.go", "syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC",
			"syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC"),
		inRun("TestJobSocket$/apart"), `a new file beside the job's socket`,
	},
	{
		"rank-connections", "the number of connections to a job's socket",
		edit(jobSocket, "if s.closed || len(s.open) >= JobCallers {", "if s.closed {"),
		inRun("TestJobSocketLimit"), "there is no limit",
	},
	{
		"rank-methods", "that a process of a job can call only two methods of its agent",
		edit("agent/jobsocket.go", `func(m grpc.MethodDesc) bool { return m.MethodName != "ListRanks" }`, `func(grpc.MethodDesc) bool { return false }`),
		inAgent("TestJobServerMethods"), "a job can call",
	},
	{
		"rank-limit", "the number of commands of a job in one of its ranks, which leaves some to users",
		edit("agent/session.go", "\tmaxRankExecs    = 4\n", "\tmaxRankExecs    = 8\n"),
		inAgent("TestSessionLimits"), "rank 0 has 8 commands",
	},
	{
		"rank-fence", "that a node runs commands only for a rank that it holds, in its session and under its fence",
		edit(rankCalls, "\t\tif err != nil {\n\t\t\treturn to, err\n\t\t}\n\t\ti := slices.IndexFunc", "\t\tif err != nil {\n\t\t\tcurrent, _ := d.Store.Job(ctx, ref.Job)\n\t\t\tjob, attempt = current.Job, current.Run.Current()\n\t\t}\n\t\ti := slices.IndexFunc"),
		inAPI("TestRankSessionIsForItsAttempt"), "want fenced|panicked",
	},
	{
		"rank-limit-of-job", "the number of commands of a job in its ranks at a server",
		edit(rankCalls, "\tleave, err := d.Sessions.enter(sessionKind{job: to.job, byJob: true})\n", "\tleave, err := func() {}, error(nil)\n"),
		inAPI("TestRankSessionLimit"), "one more",
	},
}
