//go:build linux

// Package seat defines everything that the agent and a seat's supervisor share. The shared parts are the names and formats of the
// files in a seat directory, the clock, the deadlines, and the code that kills a cgroup. Package seat is part of the supervisor
// program, which runs once per job. Package seat therefore imports nothing that costs start time or memory, such as fmt, net or
// encoding/json.
package seat

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// These are the files of a seat directory.
const (
	SpecFile     = "spec"       // Order, written by the agent before the start
	LockFile     = "lock"       // locked while the supervisor is alive; it holds a line with the supervisor's PID, and its own errors
	ControlFile  = "ctl"        // unix socket (SEQPACKET) with one answer for each request
	ResultFile   = "result"     // Result, written once, as the last file
	ReserveFile  = "result.tmp" // space for the result, reserved before the start
	ProgressFile = "progress"   // written by the job, see ARES_PROGRESS_FILE
	// CheckpointFile is the file that the job touches whenever it has saved its progress; see ARES_CHECKPOINT_FILE.
	// Until the job touches the file, its modification time is the Unix epoch.
	CheckpointFile = "checkpoint"
	// JobDir is the directory with JobSocket, the socket on which the agent serves the job's processes. It belongs to the agent's user: a
	// job can only connect to the socket.
	JobDir    = "job"
	JobSocket = "job.sock"
)

// These are the file descriptors that the agent passes to the supervisor.
const (
	ReadyFD = 3 // pipe on which one line reports the result of the start
	LockFD  = 4 // the open file description that holds the lock on LockFile
	NextFD  = 5 // socket on which a supervisor gets its next seat; only with the argument Again
)

// These files had the content of LockFile in an earlier version. Its seats may still be alive.
const (
	OldPidFile   = "pid"
	OldErrorFile = "supervisor.err"
)

// ParseLock returns the supervisor's PID, or 0 if it is unknown, and the supervisor's own errors. The argument is the content of LockFile.
func ParseLock(content string) (pid int, errors string) {
	first, rest, _ := strings.Cut(content, "\n")
	if n, err := strconv.Atoi(first); err == nil && n > 0 {
		return n, rest
	}
	return 0, content
}

// Again is the argument that lets a supervisor serve another seat when its job has ended. It then writes Idle to NextFD, and waits for
// a message with the next seat's directory, and with NextFiles: its LockFile for errors, the pipe for ReadyFD and the lock for LockFD.
const Again = "again"

// Idle is the message of a supervisor that waits for its next seat. Its last seat's cgroup and lock are free when it has sent this.
const Idle = "idle"

// NextFiles is the number of files that come with the next seat.
const NextFiles = 3

// Probe is the argument that makes the supervisor exit immediately with 0. The agent uses this argument to test whether it can start a
// process in a cgroup.
const Probe = "probe"

// ProbeSandbox is the argument that makes the supervisor set up a Sandbox as a test. If the setup works, the supervisor exits
// with 0. If the setup fails, the supervisor prints the reason.
const ProbeSandbox = "probe-room"

// ProbeSeccomp is the argument that makes the supervisor start a process with the filter of system calls as a test. It exits like
// ProbeSandbox.
const ProbeSeccomp = "probe-seccomp"

// ProbeNetwork is the argument that makes the supervisor create a network as for Sandbox.OwnNetwork as a test. It exits like
// ProbeSandbox.
const ProbeNetwork = "probe-network"

// BootTime is CLOCK_BOOTTIME in nanoseconds. CLOCK_BOOTTIME continues during suspend and cannot be set. Go's own timers
// stop during suspend, and the wall clock may jump.
type BootTime int64

// Now reads CLOCK_BOOTTIME.
func Now() BootTime {
	const clockBoottime = 7
	var ts syscall.Timespec
	// The call can fail only for a bad pointer or an unknown clock.
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic("clock_gettime(CLOCK_BOOTTIME): " + errno.Error())
	}
	return BootTime(ts.Nano())
}

// Add returns t+d.
func (t BootTime) Add(d time.Duration) BootTime { return t + BootTime(d) }

// Sub returns t-u.
func (t BootTime) Sub(u BootTime) time.Duration { return time.Duration(t - u) }

// Key names one seat: one rank of one attempt. Different attempts have different fences.
type Key struct {
	Job   string
	Fence int64
	Rank  int
}

// String returns the seat's readable name, <job>.<fence>.<rank>. The seat's directory and its cgroup have this name.
func (k Key) String() string {
	return k.Job + "." + strconv.FormatInt(k.Fence, 10) + "." + strconv.Itoa(k.Rank)
}

// maxJob limits the length of a job ID, so that a seat's name stays well below NAME_MAX (255).
const maxJob = 200

// Check returns an error if the key cannot be used as a file name, because job IDs come from users.
func (k Key) Check() error {
	if k.Job == "" || len(k.Job) > maxJob {
		return errors.New("job name must have 1 to 200 characters")
	}
	if k.Job[0] == '.' || k.Job[0] == '-' {
		return errors.New("job name must not begin with . or -")
	}
	for _, c := range []byte(k.Job) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return errors.New("job name " + strconv.Quote(k.Job) + " may hold only letters, digits, . _ -")
		}
	}
	if k.Fence < 0 || k.Rank < 0 {
		return errors.New("fence and rank must not be negative")
	}
	return nil
}

// ParseKey parses the result of String. ParseKey accepts only the exact spelling, so that two names never mean the same
// seat.
func ParseKey(name string) (Key, bool) {
	rest, rank, ok := cutLast(name)
	if !ok {
		return Key{}, false
	}
	job, fence, ok := cutLast(rest)
	if !ok {
		return Key{}, false
	}
	k := Key{Job: job}
	var err1, err2 error
	k.Fence, err1 = strconv.ParseInt(fence, 10, 64)
	k.Rank, err2 = strconv.Atoi(rank)
	if err1 != nil || err2 != nil || k.Check() != nil || k.String() != name {
		return Key{}, false
	}
	return k, true
}

func cutLast(s string) (before, after string, ok bool) {
	i := strings.LastIndexByte(s, '.')
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+1:], true
}

// Spec is the command of one seat, with its environment, limits and deadlines.
type Spec struct {
	Key
	// Attempt is the number of the attempt. Attempt is only shown to people. All decisions use the fence instead.
	Attempt int
	// Argv is the command. If Argv[0] has no slash, it is looked up in the PATH of Env. A relative path is relative to
	// Dir.
	Argv, Env []string
	// Dir is the job's working directory. The default is /.
	Dir string
	// User is the user that the job runs as. The default is the agent's own user.
	User *User
	// Limits restrict the job's use of the machine. A limit applies only if the machine has the cgroup controller for
	// it.
	Limits Limits
	// Sandbox isolates the job from the machine.
	Sandbox Sandbox
	// Container makes the job run in an image.
	Container Container
	// Stdin gives the job's process a standard input to which the agent can write, and Terminal a terminal; see InputRequest.
	Stdin, Terminal bool
	// LostAfter is how long the job may run on a node without renewals. LostAfter must be between 100 ms and 24 h.
	LostAfter time.Duration
	// MaxRuntime is the time after which the job is ended, measured from its start. The default 0 means that the
	// runtime is unlimited.
	MaxRuntime time.Duration
	// Grace is the time between SIGTERM and SIGKILL. The default grace period is 30 s, and the maximum is 24 h.
	Grace time.Duration
	// RenewedAt is the time at which the last acknowledged renewal was sent, not the time of its acknowledgement.
	RenewedAt BootTime
	// LogLimit is the maximum size of the stored output, in bytes. The default is 64 MiB, and the minimum is 8 KiB.
	LogLimit int64
	// Secrets are passed to the supervisor through a pipe. They are never part of SpecFile.
	Secrets []Secret
}

// These are the limits and defaults of a Spec.
const (
	DefaultGrace    = 30 * time.Second
	DefaultLogLimit = 64 << 20
	MinLogLimit     = 8 << 10
	MinLostAfter    = 100 * time.Millisecond
	MaxDuration     = 24 * time.Hour
)

// Default sets missing fields to their defaults.
func (s *Spec) Default() {
	if s.Grace == 0 {
		s.Grace = DefaultGrace
	}
	if s.LogLimit == 0 {
		s.LogLimit = DefaultLogLimit
	}
	if s.Dir == "" {
		s.Dir = "/"
	}
}

// Check returns an error if the spec is not valid.
func (s *Spec) Check() error {
	if err := s.Key.Check(); err != nil {
		return err
	}
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("no command")
	case s.Dir == "" || s.Dir[0] != '/':
		return errors.New("the directory must be an absolute path")
	case s.LostAfter < MinLostAfter || s.LostAfter > MaxDuration:
		return errors.New("lost_after must be between 100ms and 24h")
	case s.Grace < 0 || s.Grace > MaxDuration:
		return errors.New("grace must be between 0 and 24h")
	case s.MaxRuntime < 0:
		return errors.New("max_runtime must not be negative")
	case s.LogLimit < MinLogLimit:
		return errors.New("the log limit must be at least 8 KiB")
	case s.RenewedAt <= 0:
		return errors.New("no acknowledged renewal")
	case s.Limits.MilliCPU < 0 || s.Limits.MemoryMB < 0 || s.Limits.Pids < 0:
		return errors.New("the CPU, memory and process limits must not be negative")
	case s.Sandbox.DiskMB < 0 || s.Sandbox.DiskMB > MaxDiskMB:
		return errors.New("the size of the job's file system must be between 0 and 64 TiB")
	case s.User != nil && (s.User.UID == 0 || s.User.GID == 0):
		return errors.New("a job must not run as root (UID 0 or GID 0)")
	}
	if err := errors.Join(s.checkSecrets(), s.Container.check(s)); err != nil {
		return err
	}
	for _, list := range [][]string{s.Argv, s.Env, {s.Dir}, s.Sandbox.Hide} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return errors.New("the command, environment or directory contains a NUL byte")
			}
		}
	}
	return nil
}

// The supervisor's deadlines for ending a job without renewals count from the send time of the last acknowledged renewal. At DecideAt
// the supervisor's decision to end the job becomes final. The job then has enough time to die before 0.8 × lost_after has passed.

// DecideAt returns the time at which 0.5 × lost_after has passed.
func (s *Spec) DecideAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 2) }

// TermAt returns the time at which 0.6 × lost_after has passed. At TermAt, the supervisor sends SIGTERM.
func (s *Spec) TermAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 10 * 6) }

// KillAt returns the time at which 0.7 × lost_after has passed. At KillAt, the supervisor sends SIGKILL to all processes.
func (s *Spec) KillAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 10 * 7) }

// OverdueAt returns the time at which 0.75 × lost_after has passed. From OverdueAt on, the agent kills the job itself.
func (s *Spec) OverdueAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 4 * 3) }

// Order is a Spec with the fields that the agent adds for the supervisor.
type Order struct {
	Spec
	// Cgroup is the absolute path of the seat's cgroup, with SupervisorGroup and JobGroup below it. Cgroup is empty if the machine does
	// not support separate cgroups for seats.
	Cgroup string
	// InSlot is true if the cgroups are those of a slot. They are then not named after the seat, and the supervisor stays in them when the
	// seat has ended, until it serves another seat there. Only the cgroups for the job itself are new for each seat.
	InSlot bool
	// Mark is set in the job's environment as ARES_SEAT. Without a cgroup, the agent finds orphaned processes by this
	// mark.
	Mark string
	// Progress and Checkpoint are the absolute paths of the progress file and the checkpoint file that the job writes.
	Progress, Checkpoint string
	// JobSocket is the absolute path at which the job finds the socket in JobDir. It is "" if the machine cannot tell which processes
	// belong to the job.
	JobSocket string
	// Tmp is the absolute path of the job's own temporary directory.
	Tmp string
	// SecretsDir is the absolute path of the directory with the job's secret files.
	SecretsDir string
	// SecretCount is the number of secrets that the supervisor must get before it starts the job.
	SecretCount int
	// Groups are the v1 cgroups that enforce the job's limits.
	Groups []Group
	// CPUGroup is the cgroup, of either version, whose processor time is limited to that of the job. It holds the job and its supervisor;
	// see Charge. CPUGroup is "" if the job has no such limit.
	CPUGroup string
	// MemoryGroup is the cgroup, of either version, in which the kernel counts out-of-memory kills. MemoryGroup is "" if the job has
	// no memory limit.
	MemoryGroup string
	// PidsByUser is true if no cgroup controller can limit the number of the job's processes. If PidsByUser is true, the
	// process limit applies to all processes of the job's user.
	PidsByUser bool
}

// A seat's cgroup has these two cgroups below it, in both cgroup versions. Killing the seat's cgroup kills the processes in both child
// cgroups. If only the job's cgroup is killed, the supervisor can still write the result. The limit of processor time applies to both
// together. The limits of memory and processes apply to the job alone: a supervisor that cannot get memory or a thread would end without
// a result.
const (
	SupervisorGroup = "supervisor"
	JobGroup        = "job"
)

// IdleGroup is the cgroup of supervisors that wait for their next seat. It is beside the seats' cgroups.
const IdleGroup = "idle"

// Outcome is how a seat ended, in one word.
type Outcome string

// These are all outcomes of a seat.
const (
	Exited      Outcome = "exited"        // ended by itself; see ExitCode and Signal
	Stopped     Outcome = "stopped"       // ended on request; Reason is the request's reason
	Fenced      Outcome = "fenced"        // the lease was not renewed in time
	MaxRuntime  Outcome = "max_runtime"   // the time limit was reached
	OutOfMemory Outcome = "out_of_memory" // the memory limit was reached
	SpawnError  Outcome = "spawn_error"   // never started; Reason says why
	Lost        Outcome = "lost"          // the end is unknown, but all processes are dead
)

// Result is how a seat ended.
type Result struct {
	Outcome Outcome
	Reason  string
	// ExitCode is -1 when a signal ended the job (see Signal) or when the job never ran.
	ExitCode int
	Signal   syscall.Signal
	// Started and Ended are wall-clock times that are shown to people. Started is zero if no process was started.
	Started, Ended time.Time
	// CPU is the processor time of the whole cgroup. PeakMemory is the peak memory use of the cgroup, in bytes. If the kernel does not
	// count the cgroup's peak, PeakMemory is the peak of the largest process.
	CPU        time.Duration
	PeakMemory int64
	// Contained is false if the job had no cgroup. Without a cgroup, the end of the job was verified only by a search for its
	// descendants.
	Contained bool
	// LogDropped counts bytes of output that could not be stored.
	LogDropped int64
}
