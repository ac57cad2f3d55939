//go:build linux

// Command ares-supervisor holds one seat: the job's process and its deadline. The agent
// starts one per seat, and it outlives the agent: it kills the job in time when nobody
// renews the lease, and lets a restarted agent find the job again. It is a program of its
// own, with few imports, because there is one for each job.
//
// It is not started by hand: it expects a seat directory (package seat) and two open files.
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
	// Pdeathsig is tied to the thread that forked and no_new_privs to the thread that set
	// it. The main thread lives as long as the process; keep to it.
	runtime.LockOSThread()
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == seat.Probe {
		return
	}
	if len(os.Args) == 2 && os.Args[1] == seat.ProbeRoom {
		probeRoom()
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
	// Written first: an agent that finds this process stuck must be able to end it.
	if err := os.WriteFile(seat.PidFile, []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		die(err.Error())
	}
	order, err := readOrder()
	if err != nil {
		die("read spec: " + err.Error())
	}
	s, err := newSupervisor(order)
	if err != nil {
		die(err.Error())
	}
	// Before the start, or the end of a very short job goes unnoticed.
	c := make(chan os.Signal, 16)
	signal.Notify(c, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
	go s.forward(c)
	go s.loop()
	s.spawned(s.spawn())
	select {} // hold the thread; loop ends the process
}

// die reports to the agent, if it still listens, and to the error file. Nothing has been
// started yet, so the seat counts as lost.
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

// newSupervisor takes all that a seat needs before the job may start, so that what is
// missing shows now and not when the result is due.
func newSupervisor(order seat.Order) (*supervisor, error) {
	s := &supervisor{order: order, renewed: order.RenewedAt, listen: -1, memory: -1}
	_, _ = syscall.Setsid() // EPERM: the agent has done so
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

// forward turns signals into wake-ups of the loop. SIGHUP and SIGINT are caught and
// dropped, not ignored: an ignored signal would stay ignored in the job.
func (s *supervisor) forward(c <-chan os.Signal) {
	for sig := range c {
		if sig == syscall.SIGTERM {
			s.terminated.Store(true)
		}
		wakeUp(s.wake)
	}
}
