//go:build linux

package seat

// User is the user that a job runs as. Groups are the user's additional groups. The agent's own groups are not
// inherited.
type User struct {
	UID, GID uint32
	Groups   []uint32
}

// Limits restrict a job's use of its machine. The value 0 means no limit.
type Limits struct {
	MilliCPU int64 // thousandths of a core
	MemoryMB int64
	Pids     int64 // processes and threads
}

// Sandbox isolates a job from the rest of its machine in its own mount namespace. Only root can set up a sandbox. The
// User must not be root, because root could undo the isolation.
type Sandbox struct {
	// Private turns the sandbox on. If Private is set, the job gets SandboxDir and the settings below. In /proc it sees only the
	// processes of its own user.
	Private bool
	// OwnTmp mounts the job's temporary directory over /tmp and /var/tmp.
	OwnTmp bool
	// Scratch is the absolute path of a directory that the job sees as SandboxWork.
	Scratch string
	// Hide lists files that the job must not open. These are the device files of other jobs' GPUs.
	Hide []string
}

// In a sandbox the job finds its files at these paths, because it cannot enter the agent's directories. The paths do not depend
// on where the agent stores the files.
const (
	SandboxDir        = "/run/ares"
	SandboxWork       = SandboxDir + "/work"
	SandboxProgress   = SandboxDir + "/progress"
	SandboxCheckpoint = SandboxDir + "/checkpoint"
	SandboxTmp        = SandboxDir + "/tmp"
	SandboxSecrets    = SandboxDir + "/secrets"
)

// These files in a seat directory are used for a sandbox.
const (
	TmpDir = "tmp" // the job's temporary directory
	// ClosedFile is an empty file that only root may open. ClosedFile is mounted over each hidden file.
	ClosedFile = "closed"
)

// Group is a v1 cgroup. To start a process in a v1 cgroup, a thread joins the cgroup, forks, and leaves the cgroup
// again.
type Group struct {
	Dir  string // cgroup of the seat
	Back string // cgroup of the supervisor
}

func (o *Order) encodeSandbox(e *encoder) {
	e.num("limit_cpu", o.Limits.MilliCPU)
	e.num("limit_memory", o.Limits.MemoryMB)
	e.num("limit_pids", o.Limits.Pids)
	e.str("tmp", o.Tmp)
	if o.SecretCount > 0 {
		e.num("secrets", int64(o.SecretCount))
		e.str("secrets_dir", o.SecretsDir)
	}
	e.str("memory_group", o.MemoryGroup)
	for _, g := range o.Groups {
		e.str("v1_dir", g.Dir)
		e.str("v1_back", g.Back)
	}
	if o.PidsByUser {
		e.str("pids_by", "user")
	}
	if o.Sandbox.Private {
		e.str("room", "private")
	}
	if o.Sandbox.OwnTmp {
		e.str("room_tmp", "own")
	}
	e.str("room_scratch", o.Sandbox.Scratch)
	for _, path := range o.Sandbox.Hide {
		e.str("hide", path)
	}
}

func (o *Order) decodeSandbox(f field, d *numbers) {
	switch f.key {
	case "limit_cpu":
		o.Limits.MilliCPU = d.num(f)
	case "limit_memory":
		o.Limits.MemoryMB = d.num(f)
	case "limit_pids":
		o.Limits.Pids = d.num(f)
	case "tmp":
		o.Tmp = f.value
	case "secrets":
		o.SecretCount = int(d.num(f))
	case "secrets_dir":
		o.SecretsDir = f.value
	case "memory_group":
		o.MemoryGroup = f.value
	case "v1_dir":
		o.Groups = append(o.Groups, Group{Dir: f.value})
	case "v1_back":
		if n := len(o.Groups); n > 0 {
			o.Groups[n-1].Back = f.value
		}
	case "pids_by":
		o.PidsByUser = true
	case "room":
		o.Sandbox.Private = true
	case "room_tmp":
		o.Sandbox.OwnTmp = true
	case "room_scratch":
		o.Sandbox.Scratch = f.value
	case "hide":
		o.Sandbox.Hide = append(o.Sandbox.Hide, f.value)
	}
}
