//go:build linux

package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The filter of system calls denies what Docker denies to an unprivileged container by default: calls that change the machine, and
// calls that are often the way into the kernel. A denied call fails with EPERM. Three differences from Docker's list are deliberate.
// The calls that bind memory to NUMA nodes stay allowed, because jobs with GPUs need them. A call unshare without namespaces stays
// allowed, because it only affects the caller. One option of ptrace is denied, see ptraceRule.

// bpfInstruction is the kernel's struct sock_filter.
type bpfInstruction struct {
	code   uint16
	jt, jf uint8
	k      uint32
}

// These are the codes of the instructions that the filter uses.
const (
	bpfLoad     = 0x20 // load a word of struct seccomp_data
	bpfEqual    = 0x15
	bpfAtLeast  = 0x35
	bpfAnyBit   = 0x45
	bpfReturn   = 0x06
	dataCall    = 0 // offsets in struct seccomp_data; the first word of an argument has its low bits
	dataArch    = 4
	dataArg0    = 16
	dataArg3    = 40
	retAllow    = 0x7fff0000
	retKill     = 0x80000000 // the whole process, with SIGSYS
	retErrno    = 0x00050000
	retDeny     = retErrno | uint32(syscall.EPERM)
	retMissing  = retErrno | uint32(syscall.ENOSYS)
	x32Bit      = 0x40000000 // of the numbers of the x32 calls on amd64
	cloneSpaces = 0x7e020000 // CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET
	cloneTime   = 0x80       // CLONE_NEWTIME; clone uses this bit for the exit signal
	familyVsock = 40         // AF_VSOCK reaches the host of a virtual machine
)

// allowedPersonalities lists the arguments of personality that are allowed: Linux and its variants, and the question (0xffffffff).
var allowedPersonalities = []uint32{0, 0x8, 0x20000, 0x20008, 0xffffffff}

// A process that is traced with PTRACE_O_TRACEEXIT stops when it exits, even after SIGKILL, until its tracer continues it. Two processes
// that trace each other this way could never be killed, and their allocation could never be released. The filter therefore denies the
// option, in each request that sets options. gdb does not need it; strace and LLDB do.
const (
	ptraceOldSetOptions = 21
	ptraceSetOptions    = 0x4200
	ptraceSeize         = 0x4206
	ptraceTraceExit     = 0x40
)

// ptraceRule applies to the request, which is the first argument of ptrace, and then to the options, which are the fourth.
var ptraceRule = []bpfInstruction{
	{bpfEqual, 3, 0, ptraceOldSetOptions},
	{bpfEqual, 2, 0, ptraceSetOptions},
	{bpfEqual, 1, 0, ptraceSeize},
	{bpfReturn, 0, 0, retAllow},
	{bpfLoad, 0, 0, dataArg3},
	{bpfAnyBit, 0, 1, ptraceTraceExit},
	{bpfReturn, 0, 0, retDeny},
	{bpfReturn, 0, 0, retAllow},
}

// The variable `filters` holds the two filters, once they are needed.
var filters [2][]bpfInstruction

// filterProgram returns the filter. If `namespaces` is true, the job may have user namespaces, with mounts in them.
func filterProgram(namespaces bool) []bpfInstruction {
	deny := []bpfInstruction{{bpfReturn, 0, 0, retDeny}}
	var rules []callRule
	for _, call := range deniedCalls {
		rules = append(rules, callRule{call, deny})
	}
	if !namespaces {
		for _, call := range deniedNamespaceCalls {
			rules = append(rules, callRule{call, deny})
		}
		rules = append(rules,
			// The flags of clone3 are in memory, where the filter cannot see them. Libraries use clone if clone3 is missing.
			callRule{sysClone3, []bpfInstruction{{bpfReturn, 0, 0, retMissing}}},
			callRule{sysClone, denyArgument(bpfAnyBit, cloneSpaces)},
			callRule{sysUnshare, denyArgument(bpfAnyBit, cloneSpaces|cloneTime)})
	}
	personality := []bpfInstruction{{bpfLoad, 0, 0, dataArg0}}
	for _, v := range allowedPersonalities {
		personality = append(personality, bpfInstruction{bpfEqual, 0, 1, v}, bpfInstruction{bpfReturn, 0, 0, retAllow})
	}
	rules = append(rules,
		callRule{sysSocket, denyArgument(bpfEqual, familyVsock)},
		callRule{sysPtrace, append([]bpfInstruction{{bpfLoad, 0, 0, dataArg0}}, ptraceRule...)},
		callRule{sysPersonality, append(personality, deny...)})
	return append([]bpfInstruction{
		// The numbers of the calls differ between architectures, so a program of another architecture could evade the filter.
		{bpfLoad, 0, 0, dataArch},
		{bpfEqual, 1, 0, auditArch},
		{bpfReturn, 0, 0, retKill},
		{bpfLoad, 0, 0, dataCall},
	}, searchTree(rangesOf(rules))...)
}

// denyArgument returns a rule that denies a call whose first argument meets a condition.
func denyArgument(condition uint16, k uint32) []bpfInstruction {
	return []bpfInstruction{{bpfLoad, 0, 0, dataArg0}, {condition, 0, 1, k}, {bpfReturn, 0, 0, retDeny}, {bpfReturn, 0, 0, retAllow}}
}

// installFilter installs the filter for this thread and the processes that it forks. The thread must have no_new_privs.
func installFilter(namespaces bool) error {
	if auditArch == 0 {
		return errors.New("there is no filter of system calls for " + runtime.GOARCH)
	}
	which := 0
	if namespaces {
		which = 1
	}
	if filters[which] == nil {
		filters[which] = filterProgram(namespaces)
	}
	program := filters[which]
	prog := struct {
		length uint16
		filter *bpfInstruction
	}{uint16(len(program)), &program[0]}
	const setModeFilter = 1
	if _, _, errno := syscall.RawSyscall(sysSeccomp, setModeFilter, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return os.NewSyscallError("seccomp(SECCOMP_SET_MODE_FILTER)", errno)
	}
	return nil
}

// hidesClone3 reports whether the job's filter hides clone3. ForkExec needs clone3 to start a process in a cgroup, so such a job is
// started as described at the method `enter`.
func hidesClone3(o *seat.Order) bool { return o.Sandbox.Seccomp && !o.Sandbox.UserNamespaces }

// errLate says that the lease ended while the program was being loaded.
var errLate = errors.New("the lease was too old to start")

// The method `enter` moves a process into the job's cgroups before it executes its first instruction. The process was forked with
// Ptrace, so exec has stopped it, and this thread is its tracer. If the method returns an error, the process is dead and reaped.
func (s *supervisor) enter(pid int) error {
	ws, err := waitFor(pid)
	if err == nil && !ws.Stopped() {
		return errors.New("the process ended before its first instruction")
	}
	if err == nil {
		s.onMachine(func() { err = s.takeIn(pid) })
	}
	// While the program was being loaded, the loop could not kill it through the cgroup.
	if err == nil && s.late.Load() {
		err = errLate
	}
	if err == nil {
		err = os.NewSyscallError("ptrace(PTRACE_DETACH)", syscall.PtraceDetach(pid))
	}
	if err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = waitFor(pid)
	}
	return err
}

// takeIn moves a process into the job's cgroups.
func (s *supervisor) takeIn(pid int) error {
	err := seat.WriteFile(string(s.jobGroup())+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0, 0)
	for _, g := range s.order.Groups {
		if err == nil {
			err = g.Take(pid)
		}
	}
	return err
}

// waitFor waits until a child stops or ends.
func waitFor(pid int) (ws syscall.WaitStatus, err error) {
	for {
		if _, err = syscall.Wait4(pid, &ws, 0, nil); err != syscall.EINTR {
			return ws, os.NewSyscallError("wait4", err)
		}
	}
}

// probeSeccomp tests for the agent whether jobs can be started with the filter.
func probeSeccomp() {
	err := os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", prctl(prSetNoNewPrivs, 1))
	if err == nil {
		err = installFilter(false)
	}
	if err == nil && syscall.Unshare(syscall.CLONE_NEWUSER) != syscall.EPERM {
		err = errors.New("the filter does not deny unshare(CLONE_NEWUSER)")
	}
	var pid int
	if err == nil {
		pid, err = syscall.ForkExec("/proc/self/exe", []string{"ares-supervisor", seat.Probe}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	}
	if err == nil {
		_, err = waitFor(pid)
	}
	if err == nil {
		err = os.NewSyscallError("ptrace(PTRACE_DETACH)", syscall.PtraceDetach(pid))
	}
	if err != nil {
		_, _ = os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
}
