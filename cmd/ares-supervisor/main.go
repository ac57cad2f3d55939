//go:build linux

// The agent sets GOMAXPROCS, so the runtime need not read the limits of the cgroup for it.
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command ares-supervisor supervises the job's process on one seat and enforces the deadlines of the seat. Each seat has a
// supervisor of its own, and the supervisor outlives the agent. If the lease is not renewed, the supervisor
// kills the job in time. A restarted agent finds the job through the supervisor. The supervisor is a separate
// program with few imports, because one supervisor runs for each seat and must use little memory.
//
// When its job has ended, a supervisor may serve another seat (see the file again.go), because the start of a Go program
// costs more than everything else that a short job needs.
//
// The supervisor cannot be started by hand, because it expects a seat directory (package seat) and two open files.
package main

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

func init() {
	// The main thread stays as it is, because the rest of the process sees the machine through it. The job is forked by
	// another thread; see the method `startJob`.
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
	if len(os.Args) == 2 && os.Args[1] == seat.ProbeNetwork {
		probeNetwork()
		return
	}
	if len(os.Args) == 2 && (os.Args[1] == seat.Inside || os.Args[1] == seat.InsideRoot || os.Args[1] == seat.BesideRoot) {
		beginInside(os.Args[1])
	}
	again := len(os.Args) == 3 && os.Args[2] == seat.Again
	if len(os.Args) != 2 && !again || !isOpen(seat.ReadyFD) || !isOpen(seat.LockFD) {
		die("ares-supervisor is started by the ares agent, not by hand")
	}
	syscall.CloseOnExec(seat.ReadyFD)
	syscall.CloseOnExec(seat.LockFD)
	seat.KeepFilesBack(seat.LockFD + 1)
	heedSignals()
	p, err := newProcess(again)
	if err != nil {
		die(err.Error())
	}
	go func() { // the main thread would have to be woken by another one each time
		for dir := os.Args[1]; ; dir = p.nextSeat() {
			p.supervise(dir)
		}
	}()
	select {}
}

// The method `supervise` runs the job of one seat, and stores its result. It returns only if this process may serve another seat.
func (p *process) supervise(dir string) {
	if err := os.Chdir(dir); err != nil {
		die(err.Error())
	}
	// Write the PID first, because an agent must be able to kill this process if it hangs.
	if _, err := syscall.Pwrite(seat.LockFD, []byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		die("write the PID: " + err.Error())
	}
	order, err := readOrder()
	if err != nil {
		die("read spec: " + err.Error())
	}
	if err = readSecrets(&order); err != nil {
		die("read secrets: " + err.Error())
	}
	s, err := newSupervisor(p, order)
	if err != nil {
		die(err.Error())
	}
	go s.startJob()
	s.loop()
	s.finish()
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
	b, err := seat.ReadFile(seat.SpecFile)
	if err != nil {
		return seat.Order{}, err
	}
	return seat.DecodeOrder(b)
}

// newSupervisor acquires every resource of a seat before the job may start. A missing resource is therefore found now,
// and not when the result is written.
func newSupervisor(p *process, order seat.Order) (*supervisor, error) {
	s := &supervisor{
		process: p, order: order, renewed: order.RenewedAt, timer: p.timer, wake: p.wake, listen: -1, memory: -1, over: make(chan struct{}),
		orders: make(chan *execution, seat.MaxExecs), input: input{fd: -1, hold: -1},
	}
	p.seat.Store(s)
	s.terminated.Store(p.terminated.Load())
	var err error
	if s.listen, err = listen(seat.ControlFile); err != nil {
		return nil, os.NewSyscallError("listen on "+seat.ControlFile, err)
	}
	if order.MemoryGroup != "" {
		s.memory = watchMemory(order.MemoryGroup)
	}
	if err := errors.Join(p.busy.add(s.listen), p.busy.add(s.memory)); err != nil {
		return nil, err
	}
	if err := reserveResult(); err != nil {
		return nil, err
	}
	return s, nil
}
