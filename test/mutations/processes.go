package main

// These mutations change where a job's processes and its supervisor are counted and found.
var processes = []Mutation{
	{
		"charged-v1", "the limit of the cgroup that holds the job and its supervisor",
		edit("agent/run/seat/charge.go", "if err := o.limitCPU(quota); err != nil {", "if quota < 0 {\n\t\tvar err error"),
		inRun("TestTheSupervisorIsCharged"), `the quota of .* is -1`,
	},
	{
		"slot-of-another-seat", "the check that a seat still has its slot, before its processes are killed there",
		edit("agent/run/slots.go", "return ok && owner != order.Key", "return ok && owner == Key{Job: \"?\"}"),
		inRun("TestSlotOfAnotherSeat"), `was killed with another one|is left`,
	},
	{
		"slot-with-a-process", "the check that a slot's cgroup of version 1 is empty, before another job gets it",
		edit("agent/run/slots.go", "err != nil || len(b) > 0 {", "err != nil && len(b) > 0 {"),
		inRun("TestSlotWithProcess"), `counts as empty`,
	},
	{
		"slot-limits", "the rule that a slot is used again only with the same limits",
		edit("agent/run/spares.go", "c.cgroup == \"\" || c.limits == limits", "c.cgroup == \"\" || c.pid > 0"),
		inRun("TestSlot$"), `a seat with other limits`,
	},
	{
		"recycled-files", "the check that nobody but Ares could open a file, before another seat gets it",
		edit("agent/run/recycle.go", " || st.Mode != syscall.S_IFREG|0o600 || st.Nlink != 1 ||", " ||"),
		inRun("TestNotRecycled"), `is used again`,
	},
	{
		"charged-v2", "the same limit with cgroup version 2",
		edit("agent/run/limits.go", "\t\t\tdir = o.Cgroup\n", "\t\t\tdir = filepath.Join(o.Cgroup, seat.JobGroup)\n"),
		inRun("TestLimitsOfVersion2"), `planned`,
	},
	{
		"charged-until-late", "the end of that limit for a supervisor whose lease is in doubt",
		edit(supervisor, "_ = s.order.Uncharge()", "_ = s.order.Charge"),
		inRun("TestALateSupervisorIsNotCharged"), `the end of the limit|has no limit of processor time`,
	},
	{
		"smallest-quota", "the smallest quota of processor time that the kernel accepts",
		edit("agent/run/seat/charge.go", "return max(milli*CPUPeriod/1000, minCPUQuota)", "return milli * CPUPeriod / 1000"),
		inRun("TestATinyLimitStarts"), `invalid argument`,
	},
	{
		"kill-below-v1", "the processes in cgroups that a job made below its own",
		edit("agent/run/seat/limits.go", "\t\tpids = append(pids, more...)\n", "\t\t_ = more\n"),
		inRun("TestGroupsOfVersion1"), `KillJob killed 1`,
	},
	{
		"kill-spares-the-supervisor-v1", "the supervisor, which must live on to report the end of its job",
		edit("agent/run/seat/limits.go", "return g.kill(SupervisorGroup)", `return g.kill("")`),
		inRun("TestGroupsOfVersion1"), `KillJob killed 4`,
	},
	{
		"kill-by-mark", "the search for processes by the seat's mark where cgroups are missing",
		edit("agent/run/seat/uncontained.go", "\tcount(KillMarked(o.Mark, o.User)) //", "\t//"),
		inRun("TestUncontained"), `lives`,
	},
	{
		"mark-of-another-tenant", "the user of a process with a seat's mark",
		edit("agent/run/seat/procs.go", "(user == nil || runsAs(pid, user.UID))", "(user == nil || user.UID > 0)"),
		inRun("TestAForgedMark"), `a process of another tenant`,
	},
}
