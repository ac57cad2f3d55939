//go:build linux

// Package seat is what the agent and a seat's supervisor agree on: the names
// and formats of the files in a seat directory, the clock, the deadlines, and
// how a cgroup is killed. It is linked into the supervisor, of which one
// process runs per job, so it imports nothing that costs start time or memory
// (no fmt, no net, no encoding/json).
package seat

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

// Files of a seat directory.
const (
	SpecFile     = "spec"       // Order, written by the agent before the start
	LockFile     = "lock"       // locked for as long as the supervisor lives
	PidFile      = "pid"        // the supervisor's pid, in decimal
	ControlFile  = "ctl"        // unix socket (SEQPACKET): one request, one answer
	ResultFile   = "result"     // Result, written once, last
	ReserveFile  = "result.tmp" // room for the result, taken before the start
	ProgressFile = "progress"   // written by the job, see ARES_PROGRESS_FILE
	// CheckpointFile is touched by the job whenever it has saved its progress, see
	// ARES_CHECKPOINT_FILE. Before the first time it is as old as a file can be.
	CheckpointFile = "checkpoint"
	ErrorFile      = "supervisor.err" // the supervisor's own complaints
)

// File descriptors which the agent hands to the supervisor.
const (
	ReadyFD = 3 // pipe: one line says what became of the start
	LockFD  = 4 // the open file description that holds the lock on LockFile
)

// Probe is the argument that makes the supervisor exit at once with 0: the
// agent uses it to learn whether it can start a process in a cgroup at all.
const Probe = "probe"

// ProbeRoom is the argument that makes it furnish a Room to no purpose, with what the
// machine has, and exit with 0, or say why that fails.
const ProbeRoom = "probe-room"

// BootTime is CLOCK_BOOTTIME in nanoseconds: it goes on during suspend and no
// one can set it. Go's own timers stop in suspend, the wall clock jumps.
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

// Key names one seat: one rank of one attempt. The fence tells the attempts apart.
type Key struct {
	Job   string
	Fence int64
	Rank  int
}

// String is the seat's readable name, <job>.<fence>.<rank>; its directory and its
// cgroup bear it.
func (k Key) String() string {
	return k.Job + "." + strconv.FormatInt(k.Fence, 10) + "." + strconv.Itoa(k.Rank)
}

// maxJob keeps a seat's name well under NAME_MAX (255).
const maxJob = 200

// Check says what is wrong with a key as a file name: job names come from outside.
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

// ParseKey reads what String wrote. Only the exact spelling passes, so that two names
// never mean one seat.
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

// Spec is what one seat shall run, and within which times.
type Spec struct {
	Key
	// Attempt counts for people; the fence is what decides.
	Attempt int
	// Argv[0] is looked up in the PATH of Env unless it has a slash; a relative path is
	// relative to Dir.
	Argv, Env []string
	// Dir is the job's working directory. Default /.
	Dir string
	// User is whom the job runs as. Default: as the agent.
	User *User
	// Limits are what the job may use of the machine, as far as it has controllers.
	Limits Limits
	// Room sets the job apart from the machine; see there.
	Room Room
	// LostAfter is how long a silent node keeps the job. At least 100 ms, at most 24 h.
	LostAfter time.Duration
	// MaxRuntime ends the job after that time, counted from its start. Default 0: no limit.
	MaxRuntime time.Duration
	// Grace lies between SIGTERM and SIGKILL. Default 30 s, at most 24 h.
	Grace time.Duration
	// RenewedAt is when the last acknowledged renewal was SENT.
	RenewedAt BootTime
	// LogLimit bounds what is kept of the output, in bytes. Default 64 MiB, at least 8 KiB.
	LogLimit int64
}

// Limits and defaults of a Spec.
const (
	DefaultGrace    = 30 * time.Second
	DefaultLogLimit = 64 << 20
	MinLogLimit     = 8 << 10
	MinLostAfter    = 100 * time.Millisecond
	MaxDuration     = 24 * time.Hour
)

// Default fills what was left open.
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

// Check says what is wrong with a spec.
func (s *Spec) Check() error {
	if err := s.Key.Check(); err != nil {
		return err
	}
	switch {
	case len(s.Argv) == 0 || s.Argv[0] == "":
		return errors.New("no command")
	case s.Dir == "" || s.Dir[0] != '/':
		return errors.New("the directory must be absolute")
	case s.LostAfter < MinLostAfter || s.LostAfter > MaxDuration:
		return errors.New("lost_after must lie between 100ms and 24h")
	case s.Grace < 0 || s.Grace > MaxDuration:
		return errors.New("grace must lie between 0 and 24h")
	case s.MaxRuntime < 0:
		return errors.New("max_runtime must not be negative")
	case s.LogLimit < MinLogLimit:
		return errors.New("the log limit must be at least 8 KiB")
	case s.RenewedAt <= 0:
		return errors.New("no acknowledged renewal")
	case s.Limits.MilliCPU < 0 || s.Limits.MemoryMB < 0 || s.Limits.Pids < 0:
		return errors.New("a limit must not be negative")
	case s.User != nil && (s.User.UID == 0 || s.User.GID == 0):
		return errors.New("a job's own user must not be root")
	}
	for _, list := range [][]string{s.Argv, s.Env, {s.Dir}, s.Room.Hide} {
		for _, v := range list {
			if strings.IndexByte(v, 0) >= 0 {
				return errors.New("a NUL byte in the command, environment or directory")
			}
		}
	}
	return nil
}

// The self-fence, from the send time of the last acknowledged renewal. At DecideAt the
// decision falls and is final; the rest leaves time to die before 0.8 × lost_after.

// DecideAt is 0.5 × lost_after.
func (s *Spec) DecideAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 2) }

// TermAt is 0.6 × lost_after: SIGTERM.
func (s *Spec) TermAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 10 * 6) }

// KillAt is 0.7 × lost_after: SIGKILL to everything.
func (s *Spec) KillAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 10 * 7) }

// OverdueAt is 0.75 × lost_after: the agent no longer trusts the supervisor to do it.
func (s *Spec) OverdueAt(renewed BootTime) BootTime { return renewed.Add(s.LostAfter / 4 * 3) }

// Order is a Spec with what the agent adds for its supervisor.
type Order struct {
	Spec
	// Cgroup is the absolute path of the seat's cgroup, with SupervisorGroup and
	// JobGroup below it; empty where containment does not work.
	Cgroup string
	// Mark is in the job's environment as ARES_SEAT: where there is no cgroup, the
	// agent finds orphans by it.
	Mark string
	// Progress and Checkpoint are the absolute paths of the files the job writes.
	Progress, Checkpoint string
	// Tmp is the absolute path of the job's own temporary directory.
	Tmp string
	// Groups are the cgroups of version 1 that limit the job.
	Groups []Group
	// MemoryGroup is where the kernel counts what it killed for want of memory,
	// of either version; "" where nothing limits that.
	MemoryGroup string
	// PidsByUser bounds the processes of the job's user instead of the job's, where no
	// controller does.
	PidsByUser bool
}

// The two cgroups below a seat's. Killing the seat's cgroup kills both, killing the
// job's leaves the supervisor to write the result.
const (
	SupervisorGroup = "supervisor"
	JobGroup        = "job"
)

// Outcome is how a seat ended, in one word.
type Outcome string

// All outcomes.
const (
	Exited      Outcome = "exited"        // by itself: see ExitCode and Signal
	Stopped     Outcome = "stopped"       // on request; Reason is the request's
	Fenced      Outcome = "fenced"        // the lease was not renewed in time
	MaxRuntime  Outcome = "max_runtime"   // the time limit
	OutOfMemory Outcome = "out_of_memory" // the memory limit
	SpawnError  Outcome = "spawn_error"   // never started; Reason says why
	Lost        Outcome = "lost"          // nobody knows; it is dead all the same
)

// Result is how a seat ended.
type Result struct {
	Outcome Outcome
	Reason  string
	// ExitCode is -1 when the job did not exit by itself (Signal) or never ran.
	ExitCode int
	Signal   syscall.Signal
	// Started and Ended are wall-clock times, for people. Started is zero if nothing ran.
	Started, Ended time.Time
	// CPU is what the whole cgroup used; PeakMemory in bytes is that of the cgroup or,
	// where that is not counted, of its largest process.
	CPU        time.Duration
	PeakMemory int64
	// Contained is false where no cgroup held the job, so that death was verified only by
	// a sweep of its descendants.
	Contained bool
	// LogDropped counts bytes of output that could not be stored.
	LogDropped int64
}
