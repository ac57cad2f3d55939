package main

const (
	room  = "cmd/ares-supervisor/sandbox.go"
	spawn = "cmd/ares-supervisor/spawn.go"
)

// These mutations break the rule that a job cannot reach the machine, the agent or other jobs.
var apart = []Mutation{
	{
		"apart-job-user", "the change to the job's own user",
		edit(spawn, "\t\tattr.Credential = &syscall.Credential{Uid: o.User.UID, Gid: o.User.GID, Groups: o.User.Groups}\n", ""),
		// Do not use TestIntruder for this mutation. If that test ran as root, it would really carry out
		// the attack.
		inRun("TestSandbox$"), `log\n\s+0\n`,
	},
	{
		"apart-groups-of-the-agent", "the drop of the agent's groups",
		edit(spawn, "Groups: o.User.Groups}", "NoSetGroups: true}"),
		inRun("TestSandbox$"), `log\n\s+1879048200\n\s+1879048200( 0)?\n`,
	},
	{
		"apart-capabilities", "the empty bounding set",
		edit(room, "\tdropCapabilities()\n", ""),
		inRun("TestSandbox$"), `CapBnd:\s+0*1`,
	},
	{
		"apart-processes-of-others", "the /proc that hides them",
		edit(room, `"hidepid=2"`, `""`),
		inRun("TestIntruder"), `list=/proc/\d+: "did"`,
	},
	{
		"apart-devices-of-others", "what covers their files",
		edit(room, "for _, path := range o.Sandbox.Hide {", "for _, path := range o.Sandbox.Hide[:0] {"),
		inRun("TestSandbox$"), `localhost`,
	},
	{
		"apart-private-tmp", "the job's own /tmp",
		edit(room, "\tif o.Sandbox.OwnTmp {", "\tif o.Sandbox.OwnTmp && o.Tmp == \"\" {"),
		inRun("TestIntruder"), `the job's /tmp is the machine's`,
	},
	{
		"apart-memory-ends-the-whole-job", "the end of a job of which the kernel has killed one process",
		edit(supervisor, "if s.starved && s.running() {", "if s.starved && s.ended {"),
		inRun("TestOutOfMemory"), `context deadline exceeded`,
	},
	{
		"apart-joined-limits", "the cgroups of version 1 that the job is started in",
		edit(room, "if machine = g.Join(); machine != nil {", "if machine = g.Leave(); machine != nil {"),
		inRun("TestForkBomb"), `"200" children`,
	},
	{
		"apart-tenants-of-one-user", "the refusal of a second tenant with one UID",
		edit("agent/isolation.go", "case known && who != tenant:", "case known && who == \"\":"),
		inAgent("TestTwoTenantsOfOneUser"), `is the other's user`,
	},
	{
		"apart-untrusted-jobs", "the filter that keeps other users' jobs off a node without isolation",
		edit("engine/cluster/filters.go", "return n.Record.TrustedOnly && !w.rules.trusted", "return n.Record.TrustedOnly && w.GPUs < 0"),
		Test{Package: "./control/admission", Run: "TestTrustedOnlyNodes"}, `want code "infeasible"`,
	},
	{
		"apart-container-in-its-cgroup", "the check that a container is in the job's cgroup before it starts",
		edit("cmd/ares-supervisor/container.go", "if line != strconv.Itoa(pid) {", "if line == \"none\" {"),
		inRun("TestContainerOutsideItsCgroup"), `the job was started`,
	},
	{
		"apart-private-layers", "that each tenant fetches a private layer itself",
		edit("agent/image/layer.go", "state != nil && state.isFor(who) {", "state != nil && who != \"\" {"),
		Test{Package: "./agent/image", Run: "TestCredentials"}, `want the configuration and the layer`,
	},
	{
		"apart-system-calls", "the filter of system calls",
		edit(room, "if s.order.Sandbox.Seccomp {", "if s.order.Sandbox.Seccomp && s.order.User == nil {"),
		inRun("TestSeccompInCgroup"), `no "Seccomp:`,
	},
	{
		"apart-trace-exit", "the denial of the ptrace option with which SIGKILL does not end a process",
		edit("cmd/ares-supervisor/seccomp.go", "\t\tcallRule{sysPtrace, append([]bpfInstruction{{bpfLoad, 0, 0, dataArg0}}, ptraceRule...)},\n", ""),
		inRun("TestSeccomp$"), `options=0x4200,0x40: "no such process"`,
	},
	{
		"apart-processes-of-the-same-user", "the scope that keeps a job from the processes and abstract sockets of its user's other jobs",
		edit(room, "if o.Sandbox.Scoped {", "if o.Sandbox.Scoped && o.User == nil {"),
		inRun("TestScope"), `kill=\d+: "did"`,
	},
	{
		"apart-system-v", "the removal of the System V memory that a job leaves",
		edit("agent/run/forget.go", "\t\tr.removeIPC(&order)\n", "\t\t_ = order\n"),
		inRun("TestSystemVIsRemoved"), `is left`,
	},
	{
		"apart-disk", "the size of the job's own file system",
		edit("agent/sandbox.go", "s.DiskMB = int64(i.DiskMB)", "s.DiskMB = 0"),
		inAgent("TestSandboxOfAJob"), `a limited disk`,
	},
	{
		"apart-disk-of-the-job", "the mount of the job's own file system",
		edit("agent/run/seat/sandbox.go", "\tif s.DiskMB == 0 {\n\t\treturn \"\"", "\tif s.DiskMB >= 0 {\n\t\treturn \"\""),
		inRun("TestDiskLimit"), `no "No space left`,
	},
	{
		"apart-progress-file", "the size of the files with which a job reports its progress and checkpoints",
		edit("agent/run/progress.go", "sys.Blocks*512 <= maxReport", "sys.Blocks*512 >= 0"),
		inRun("TestReportsAreLimited"), `still takes`,
	},
	{
		"apart-users-of-jobs", "the choice of a user that no other job on the node has",
		edit("agent/userrange.go", "if u.jobs[uid] != \"\" {", "if len(u.jobs) < 0 {"),
		inAgent("TestUserRange$"), `is the user of|in a full range`,
	},
	{
		"apart-users-of-leftovers", "the check that no process has the user any more",
		edit("agent/userrange.go", "!busy[uid] && ", ""),
		inAgent("TestUserRangeOfLeftovers"), `has a process`,
	},
	{
		"apart-shared-memory", "the size of /dev/shm",
		edit("cmd/ares-supervisor/quota.go", "err != nil || o.Sandbox.ShmMB == 0 &&", "err != nil || o.Sandbox.ShmMB > 0 &&"),
		inRun("TestSharedMemoryLimit"), `no "No space left`,
	},
	{
		"apart-environment-of-the-agent", "the short list of what a job has of it",
		edit("agent/spec.go", `if v := os.Getenv(k); v != "" && (k != "HOME" || user == nil) {`, `if v := os.Getenv(k); v != "" {`),
		inAgent("TestNoSecretReachesAJob"), `a secret in`,
	},
}
