//go:build linux

package seat

import "strconv"

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
	// ShmMB is the size of a private /dev/shm. With 0, the job uses the machine's /dev/shm.
	ShmMB int64
	// ShareShm makes the ranks of one attempt on this node share one /dev/shm of that size. Programs with several ranks exchange data
	// there, and NCCL uses direct links between GPUs only for ranks with the same /dev/shm.
	ShareShm bool
	// Shm is the directory of that /dev/shm. The runner sets it.
	Shm string
	// TmpMB is the size of the job's temporary directory, which is then in memory. With 0, it is a directory on disk without a limit.
	TmpMB int64
	// WorkMB is the size of SandboxWork, which is then in memory. With 0, SandboxWork is Scratch.
	WorkMB int64
	// DiskMB is the size of a file system of the job's own, on the agent's disk. It holds SandboxWork and the temporary directory, except
	// those that WorkMB and TmpMB put in memory. With 0, there is none. It needs Private and Scratch.
	DiskMB int64
	// Scoped keeps the job from signals to, traces of, and abstract sockets of processes outside the job, also those of its own user. A
	// kernel before Linux 6.12 does not support this, and the job then runs without it. Ranks of one job use such sockets between each
	// other, so it is only for jobs with one rank. It needs a User, but no other part of the sandbox.
	Scoped bool
	// OwnUser means that only Ares uses the job's user, so what the user leaves on the machine can be deleted.
	OwnUser bool
	// Seccomp installs the filter of system calls. It needs a User, but no other part of the sandbox.
	Seccomp bool
	// UserNamespaces lets the job create user namespaces, although Seccomp is set.
	UserNamespaces bool
	// FilterDevices lets the job open only the devices that Devices and the basic ones of every program allow, whatever the paths of their
	// files are. It needs a User, because root could remove the filter, and a cgroup of version 2. A job in an image has the filter of
	// its runtime instead.
	FilterDevices bool
	// Devices are patterns of device files that the job may open, except those in Hide.
	Devices []string
	// OwnNetwork gives the job a network namespace of its own, which has only a loopback interface. It needs a User, because root could
	// leave the namespace, but no other part of the sandbox.
	OwnNetwork bool
}

// In a sandbox the job finds its files at these paths, because it cannot enter the agent's directories. The paths do not depend
// on where the agent stores the files.
const (
	SandboxDir        = "/run/ares"
	SandboxWork       = SandboxDir + "/work"
	SandboxProgress   = SandboxDir + "/progress"
	SandboxCheckpoint = SandboxDir + "/checkpoint"
	SandboxJob        = SandboxDir + "/job" // JobDir
	SandboxTmp        = SandboxDir + "/tmp"
	SandboxSecrets    = SandboxDir + "/secrets"
)

// These files in a seat directory are used for a sandbox.
const (
	TmpDir = "tmp" // the job's temporary directory
	// ClosedFile is an empty file that only root may open. ClosedFile is mounted over each hidden file.
	ClosedFile = "closed"
)

// DiskFile is the file in Sandbox.Scratch that holds the file system of Sandbox.DiskMB. The job never sees this directory, and the file is
// deleted with it.
const DiskFile = "disk.img"

// CodeDir is the directory in Sandbox.Scratch with the job's code, if WorkMB or DiskMB limits SandboxWork. The agent cannot write into
// SandboxWork, because it exists only in the job's mount namespace. So the supervisor moves the code there.
const CodeDir = "code"

// Code returns the path of CodeDir, or "" if the code is in SandboxWork already.
func (s *Sandbox) Code() string {
	if s.WorkMB == 0 && s.DiskMB == 0 || s.Scratch == "" {
		return ""
	}
	return s.Scratch + "/" + CodeDir
}

// Room returns the size of SandboxWork and how many files fit into it. The result is 0 without a limit.
func (s *Sandbox) Room() (bytes, files int64) {
	switch {
	case s.WorkMB > 0:
		return s.WorkMB << 20, tmpfsFiles(s.WorkMB) - 1
	case s.DiskMB > 0:
		// The file system needs room for its own records: 256 bytes for each file, and a few for each group of blocks.
		const first, fixed = 16, 1 << 20
		files = DiskFiles(s.DiskMB)
		return s.DiskMB<<20 - 256*files - s.DiskMB<<20/50 - fixed, files - first
	}
	return 0, 0
}

// MaxDiskMB is the largest Sandbox.DiskMB, 64 TiB.
const MaxDiskMB = 64 << 20

// Disk returns the path of DiskFile, or "" if the job has no file system of its own.
func (s *Sandbox) Disk() string {
	if s.DiskMB == 0 {
		return ""
	}
	return s.Scratch + "/" + DiskFile
}

// DiskFiles returns how many files fit into a file system with the given size. Without a limit of its own, a job that creates empty files
// would fill the file system with their records.
func DiskFiles(mb int64) int64 {
	const filesPerMB, minFiles, maxFiles = 64, 4096, 16 << 20
	return min(max(mb*filesPerMB, minFiles), maxFiles)
}

// TmpfsOptions returns the mount options that limit an in-memory file system. The number of files is limited too, because each of them
// takes memory of the kernel.
func TmpfsOptions(mb int64) string {
	return "size=" + strconv.FormatInt(mb, 10) + "m,nr_inodes=" + strconv.FormatInt(tmpfsFiles(mb), 10)
}

func tmpfsFiles(mb int64) int64 {
	const filesPerMB, minFiles, maxFiles = 64, 4096, 1 << 20
	return min(max(mb*filesPerMB, minFiles), maxFiles)
}

// Group is a v1 cgroup. To start a process in a v1 cgroup, a thread joins the cgroup, forks, and leaves the cgroup
// again.
type Group struct {
	Dir  string // cgroup of the seat, with SupervisorGroup and JobGroup below it
	Back string // cgroup that the supervisor's thread goes back to
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
	e.str("cpu_group", o.CPUGroup)
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
	e.num("shm_mb", o.Sandbox.ShmMB)
	if o.Sandbox.ShareShm {
		e.str("shm_of", "ranks")
	}
	e.str("shm", o.Sandbox.Shm)
	e.num("tmp_mb", o.Sandbox.TmpMB)
	e.num("work_mb", o.Sandbox.WorkMB)
	e.num("disk_mb", o.Sandbox.DiskMB)
	if o.Sandbox.Scoped {
		e.str("scoped", "on")
	}
	if o.Sandbox.OwnUser {
		e.str("own_user", "on")
	}
	if o.Sandbox.Seccomp {
		e.str("seccomp", "on")
	}
	if o.Sandbox.UserNamespaces {
		e.str("user_namespaces", "on")
	}
	if o.Sandbox.FilterDevices {
		e.str("devices", "filtered")
	}
	for _, pattern := range o.Sandbox.Devices {
		e.str("device", pattern)
	}
	if o.Sandbox.OwnNetwork {
		e.str("network", "own")
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
	case "cpu_group":
		o.CPUGroup = f.value
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
	case "shm_mb":
		o.Sandbox.ShmMB = d.num(f)
	case "shm_of":
		o.Sandbox.ShareShm = true
	case "shm":
		o.Sandbox.Shm = f.value
	case "tmp_mb":
		o.Sandbox.TmpMB = d.num(f)
	case "work_mb":
		o.Sandbox.WorkMB = d.num(f)
	case "disk_mb":
		o.Sandbox.DiskMB = d.num(f)
	case "scoped":
		o.Sandbox.Scoped = true
	case "own_user":
		o.Sandbox.OwnUser = true
	case "seccomp":
		o.Sandbox.Seccomp = true
	case "user_namespaces":
		o.Sandbox.UserNamespaces = true
	case "devices":
		o.Sandbox.FilterDevices = true
	case "device":
		o.Sandbox.Devices = append(o.Sandbox.Devices, f.value)
	case "network":
		o.Sandbox.OwnNetwork = true
	default:
		o.decodeContainer(f)
	}
}
