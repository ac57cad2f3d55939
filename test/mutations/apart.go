package main

const (
	room   = "cmd/ares-supervisor/sandbox.go"
	spawn  = "cmd/ares-supervisor/spawn.go"
	mount  = "cmd/ares-supervisor/mount.go"
	userns = "cmd/ares-supervisor/userns.go"
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
		inRun("TestOutOfMemory"), `context deadline exceeded|Outcome:fenced`,
	},
	{
		"apart-joined-limits", "the cgroups of version 1 that the job is started in",
		edit("cmd/ares-supervisor/seccomp.go", "err = g.Take(pid)", "err = g.Leave()"),
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
		"apart-mounts-links", "that no link below an allowed directory leads out of it",
		edit(mount, "const resolve = resolveBeneath | resolveNoSymlinks | resolveNoMagic", "const resolve = 0"),
		inRun("TestMountsRefused"), `link:/x: the job was started`,
	},
	{
		"apart-mounts-user", "that a mount is opened with the rights of the job's user",
		edit(mount, "s.asUser(func() (err error) { fd, err = openSource(m); return err })", "func() (err error) { fd, err = openSource(m); return err }()"),
		inRun("TestMountsRefused"), `closed/dir:/x: the job was started`,
	},
	{
		"apart-mounts-groups", "that the agent's groups do not count when a mount is opened",
		edit(room, "setGroups(u.Groups)", "setGroups(back)"),
		inRun("TestMountsGroups"), `the result is {Outcome:exited`,
	},
	{
		"apart-mounts-missing", "that a job does not start without a mount",
		edit("cmd/ares-supervisor/container.go", "why, err = s.attachMounts(pid, trees); err != nil {", "_, err = s.attachMounts(pid, trees); err != nil {"),
		inRun("TestMountsRefused"), `in:/tmp/x: the result is`,
	},
	{
		"apart-mounts-covered", "that mount points are made only in the image",
		edit(mount, "openMountPoint(root, path, isDir, resolveNoXdev)", "openMountPoint(root, path, isDir, 0)"),
		inRun("TestMountsRefused"), `in:/tmp/x: the job was started`,
	},
	{
		"apart-mounts-program", "the check that no mount covers the program which restricts the job",
		edit(mount, "why = verifyInside(&self)", "_ = verifyInside(&self)"),
		inRun("TestMountsRefused"), `in:/to-run: the result is`,
	},
	{
		"apart-links-of-image", "the real directories in which the runtime makes mount points and devices",
		edit("cmd/ares-supervisor/image.go", `"/proc", "/sys", "/dev", "/etc", "/tmp", "/run", seat.SandboxDir}`, `"/etc", "/run", seat.SandboxDir}`),
		inRun("TestCheckpointsAfterRuntime"), `must be mounted on ordinary directory`,
	},
	{
		"copy-below-links", "the refusal of entries below a link of an earlier copy",
		edit("client/tree/unpack.go", "case st.Mode()&fs.ModeSymlink != 0:", "case st.Mode() == 0:"),
		Test{Package: "./client/tree", Run: "TestUnpackTwice"}, `the user's file is`,
	},
	{
		"apart-mounts-read-only", "that a mount is read-only with everything mounted below it",
		edit(mount, "atEmptyPath|atRecursive, uintptr(unsafe.Pointer(&attr))", "atEmptyPath, uintptr(unsafe.Pointer(&attr))"),
		inRun("TestMounts$"), `/in/below rw`,
	},
	{
		"apart-attributes-of-overlayfs", "that a layer cannot set the attributes that overlayfs reads",
		edit("agent/image/unpacker.go", " || strings.HasPrefix(name, overlay)", " || name == overlay"),
		Test{Package: "./agent/image", Run: "TestTimesAndAttributes"}, `has the attributes`,
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
		"apart-device-filter", "the filter of devices at the job's cgroup",
		edit("agent/run/start.go", "errors.Join(r.limits.furnish(&order, again), filterDevicesOf(&order))", "r.limits.furnish(&order, again)"),
		inRun("TestDeviceFilter$"), `write=[^ ]+: "did", want "operation not permitted"`,
	},
	{
		"apart-hidden-devices", "that a hidden device stays closed although another file for it matches a pattern",
		edit("agent/run/devices.go", "if err == nil && !closed[r] && ", "if err == nil && "),
		inRun("TestDeviceFilter$"), `TestDeviceFilter/hidden_by_another_path`,
	},
	{
		"apart-no-device-filter", "the refusal to start a job without the filter of devices that it should have",
		edit("agent/run/sandbox.go", "(o.User == nil || !o.Contained() || r.noDevices != \"\")", "(o.User == nil && !o.Contained() || r.noDevices == \"none\")"),
		inRun("TestDeviceFilterFails"), `started without a filter`,
	},
	{
		"apart-root-map", "that only the job's user exists in the user namespace of a job with container_root",
		edit(userns, `line := "0 " + strconv.FormatUint(uint64(id), 10) + " 1"`, `line := "0 " + strconv.FormatUint(uint64(id), 10) + " 2"`),
		inRun("TestContainerRoot$"), `has not printed "0 1879048200 1`,
	},
	{
		"apart-root-session", "that a command beside such a job is in the job's user namespace",
		edit(userns, "uintptr(s.member.user)},", "uintptr(s.member.user)}[:5],"),
		inRun("TestContainerRoot$"), `rootimage_test.go`,
	},
	{
		"apart-root-capabilities", "that such a job keeps only the capabilities that it needs",
		edit("cmd/ares-supervisor/inside.go", "\t\terr = becomeRoot()\n", ""),
		inRun("TestContainerRoot$"), `has the capabilities`,
	},
	{
		"apart-root-groups", "that such a job cannot drop a group to reach what is closed to the group",
		edit(userns, "if groups { //", "if groups && u == nil { //"),
		inRun("TestContainerRootGroups"), `the job prints`,
	},
	{
		"apart-root-ambush", "that nobody can trace a command before it has the filter of system calls",
		edit(userns, "programForRoot = 0o711", "programForRoot = 0o755"),
		inRun("TestExecIsNotAmbushed"), `got to trace a process without the filter`,
	},
	{
		"apart-root-nodes", "the filter that keeps such jobs off nodes that cannot run them",
		edit("engine/cluster/filters.go", "return w.rules.containerRoot && !n.Record.ContainerRoot", "return w.rules.containerRoot && n.Session == nil"),
		Test{Package: "./engine", Run: "TestScripts/feasibility"}, `container_root_nodes`,
	},
	{
		"apart-root-policy", "that policies see whether a job is root in its image",
		edit("policy/input.go", "ContainerRoot: p.ContainerRoot,", ""),
		Test{Package: "./policy", Run: "TestJobShowsContainerRoot"}, `container_root true`,
	},
	{
		"apart-root-claim", "the refusal of a claim by a node that cannot make the job root",
		edit("api/service/agent.go", "n != nil && job.IsContainerRoot() && !n.Node.ContainerRoot", "n == nil && job.IsContainerRoot()"),
		Test{Package: "./api", Run: "TestAClaimNeedsIsolation"}, `cannot make the job root is answered`,
	},
	{
		"apart-network", "the network namespace of a job that must not reach the network",
		edit(room, "\tif err := furnishNetwork(o); err != nil {\n\t\treturn err\n\t}\n", ""),
		inRun("TestOwnNetwork$"), `own network true: dial=[0-9.:]+: "did"`,
	},
	{
		"apart-network-of-a-container", "the check that a container is in the network namespace of its job",
		edit("cmd/ares-supervisor/network.go", "if its != own {", "if its != own && its == \"\" {"),
		inRun("TestContainerOutsideItsNetwork"), `the job was started`,
	},
	{
		"apart-network-instead", "the refusal of a node that would run the job with the network instead",
		edit("agent/seat.go", "if why == \"\" || !job.HasOwnNetwork() {", "if why == \"\" || job.HasOwnNetwork() {"),
		inAgent("TestNoJobGetsTheNetworkInstead"), `network none: ran true`,
	},
	{
		"apart-network-misread", "the format that earlier versions, which do not know the field network, refuse",
		edit("store/codec.go", "rec.MinReader = networkReader", "rec.MinReader = 0"),
		Test{Package: "./store", Run: "TestNetworkNoneIsNotMisread"}, `readers of format 0`,
	},
	{
		"apart-network-claim", "the refusal of a claim by a node that would give the job the network",
		edit("api/service/agent.go", "n != nil && job.HasOwnNetwork() && !n.Node.OwnNetwork", "n == nil && job.HasOwnNetwork()"),
		Test{Package: "./api", Run: "TestAClaimNeedsIsolation"}, `would give the job the network is answered <nil>`,
	},
	{
		"apart-network-nodes", "the filter that keeps such jobs off nodes that cannot keep them from the network",
		edit("engine/cluster/filters.go", "return w.rules.ownNetwork && !n.Record.OwnNetwork", "return w.rules.ownNetwork && n.Session == nil"),
		Test{Package: "./control/admission", Run: "TestNetworkNoneNodes"}, `want code "infeasible"`,
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
