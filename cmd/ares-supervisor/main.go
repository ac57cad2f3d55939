//go:build linux

// Command ares-supervisor supervises the job's process on one seat and enforces the deadlines of the seat. The agent
// starts one supervisor per seat, and the supervisor outlives the agent. If the lease is not renewed, the supervisor
// kills the job in time. A restarted agent finds the job through the supervisor. The supervisor is a separate
// program with few imports, because one supervisor runs for each seat and must use little memory.
//
// The supervisor cannot be started by hand, because it expects a seat directory (package seat) and two open files.
package main

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

func init() {
	// Pdeathsig takes effect when the forking thread ends, and no_new_privs applies only to the thread that set it. The
	// main thread forks the job and sets no_new_privs, because this thread lives as long as the process.
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == seat.Probe {
		return
	}
	if len(os.Args) == 2 && os.Args[1] == seat.ProbeSandbox {
		probeSandbox()
		return
	}
	if len(os.Args) == 2 && os.Args[1] == seat.ProbeSeccomp {
		probeSeccomp()
		return
	}
	if len(os.Args) != 2 || !isOpen(seat.ReadyFD) || !isOpen(seat.LockFD) {
		die("ares-supervisor is started by the ares agent, not by hand")
	}
	syscall.CloseOnExec(seat.ReadyFD)
	syscall.CloseOnExec(seat.LockFD)
	seat.KeepFilesBack(seat.LockFD + 1)
	heedSignals()
	if err := os.Chdir(os.Args[1]); err != nil {
		die(err.Error())
	}
	// Write the PID first, because an agent must be able to kill this process if it hangs.
	if err := os.WriteFile(seat.PidFile, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		die(err.Error())
	}
	order, err := readOrder()
	if err != nil {
		die("read spec: " + err.Error())
	}
	if err = readSecrets(&order); err != nil {
		die("read secrets: " + err.Error())
	}
	s, err := newSupervisor(order)
	if err != nil {
		die(err.Error())
	}
	// Register for signals before the start; otherwise the end of a very short job would be missed.
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	go s.forward(c)
	go s.loop()
	s.spawned(s.spawn())
	select {} // keep the main thread alive; the loop ends the process
}

// The function `die` reports an error to the error file and, if the agent still listens, to the agent. The supervisor
// calls `die` before it starts the job, so no process of the job exists. No result is stored either, so the seat has
// the outcome Lost.
func die(why string) {
	_, _ = os.Stderr.WriteString("ares-supervisor: " + why + "\n")
	if isOpen(seat.ReadyFD) {
		_, _ = syscall.Write(seat.ReadyFD, []byte("error "+why+"\n"))
	}
	os.Exit(1)
}

func isOpen(fd int) bool {
	var st syscall.Stat_t
	return syscall.Fstat(fd, &st) == nil
}

func readOrder() (seat.Order, error) {
	f, err := os.Open(seat.SpecFile)
	if err != nil {
		return seat.Order{}, err
	}
	defer f.Close()
	b, err := seat.ReadAll(f)
	if err != nil {
		return seat.Order{}, err
	}
	return seat.DecodeOrder(b)
}

// newSupervisor acquires every resource of a seat before the job may start. A missing resource is therefore found now,
// and not when the result is written.
func newSupervisor(order seat.Order) (*supervisor, error) {
	s := &supervisor{order: order, renewed: order.RenewedAt, listen: -1, memory: -1}
	_, _ = syscall.Setsid() // EPERM means that the agent has already done this
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return nil, os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	if err := prctl(prSetNoNewPrivs, 1); err != nil {
		return nil, os.NewSyscallError("prctl(PR_SET_NO_NEW_PRIVS)", err)
	}
	var err error
	if s.timer, err = timerfd(); err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	if s.wake, err = eventfd(); err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	if s.listen, err = listen(seat.ControlFile); err != nil {
		return nil, os.NewSyscallError("listen on "+seat.ControlFile, err)
	}
	if order.MemoryGroup != "" {
		s.memory = watchMemory(order.MemoryGroup)
	}
	if err := reserveResult(); err != nil {
		return nil, err
	}
	return s, nil
}

// The method `forward` wakes the loop for every signal. SIGHUP and SIGINT are caught and then discarded. They are not
// set to be ignored, because the job would inherit ignored signals.
func (s *supervisor) forward(c <-chan os.Signal) {
	for sig := range c {
		if sig == syscall.SIGTERM {
			s.terminated.Store(true)
		}
		wakeUp(s.wake)
	}
}
