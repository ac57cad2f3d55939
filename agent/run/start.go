//go:build linux

package run

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// cleanUpTime is the maximum time that a failed Start waits for the remaining processes to end.
const cleanUpTime = 5 * time.Second

// Start starts a seat. Start returns once the seat's supervisor reports that the job runs or that the seat has already ended. A
// seat can end this early if it was fenced or its process could not be spawned. If the seat has already ended, Wait returns its
// result. After an error, no process of the seat is running. ErrExists means that the seat was started before.
//
// The caller must call Wait on every Proc, because Wait ends a seat whose supervisor fails.
func (r *Runner) Start(ctx context.Context, spec Spec) (*Proc, error) {
	spec.Default()
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("start seat: %w", err)
	}
	order := seat.Order{Spec: spec, Cgroup: string(r.defaultGroup(spec.Key)), Mark: r.mark(spec.Key), SecretCount: len(spec.Secrets)}
	if err := r.place(&order); err != nil {
		return nil, fmt.Errorf("start seat %s: %w", spec.Key, err)
	}
	if err := r.CheckSecrets(&spec); err != nil {
		return nil, fmt.Errorf("start seat %s: %w", spec.Key, err)
	}
	r.limits.plan(&order)
	if err := r.root.Mkdir(seatsDir+"/"+spec.Key.String(), 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			err = ErrExists
		}
		return nil, fmt.Errorf("start seat %s: %w", spec.Key, err)
	}
	p, err := r.start(ctx, &order)
	if err != nil {
		// The caller's context may have ended, so the clean-up uses another context.
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTime)
		defer cancel()
		if dead := r.ensureDead(cleaning, &order, true); dead == nil {
			if p != nil {
				p.reap(cleaning)
			}
			err = errors.Join(err, r.discardSeat(seatsDir+"/"+spec.Key.String()))
			r.unmountShm()
		}
		return nil, fmt.Errorf("start seat %s: %w", spec.Key, err)
	}
	return p, nil
}

// If a supervisor was started, the method `start` may return a Proc together with an error.
func (r *Runner) start(ctx context.Context, o *seat.Order) (*Proc, error) {
	idle, found := r.enterSlot(o)
	order := *o
	defer func() {
		if found {
			r.spares.end(spare{child: idle.child}) // the seat has another supervisor, or none
		}
	}()
	lock, err := r.furnish(ctx, order, found && !idle.isNew)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	ready, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	secrets, pass, err := secretsPipe(order.Secrets)
	if err != nil {
		return nil, errors.Join(err, ours.Close(), ready.Close())
	}
	child, err := r.launch(order, &idle, secrets, ours, lock)
	found = found && child.pid != idle.pid
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, errors.Join(err, pass(ctx, false), ready.Close())
	}
	order.Secrets = nil // the agent does not keep them
	p := &Proc{r: r, order: order, child: child, renewed: order.RenewedAt, started: Now(), ready: ready}
	// If this fails, the supervisor does not start the job, and says so below.
	_ = pass(ctx, true)
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(ready).ReadString('\n')
	if ctx.Err() != nil {
		p.closeReady()
		return p, ctx.Err()
	}
	verb, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch verb {
	case "spawned":
		p.pid, err = strconv.Atoi(rest)
		return p, err
	case "ended":
		return p, nil
	case "error":
		p.closeReady()
		return p, errors.New(clean(rest, seat.MaxReason))
	}
	p.closeReady()
	return p, errors.Join(errors.New("the supervisor died at once: "+r.lastWords(order.Key)), err)
}

// newLockFile is the name of LockFile until it is locked. A free LockFile therefore always means that the seat has ended, and a seat
// without a LockFile is not ready yet; see OpenLog.
const newLockFile = seat.LockFile + ".new"

// The method `furnish` creates all files of a seat before its start, and takes the lock that the supervisor will inherit. The
// lock ensures that a running supervisor never looks dead, not even for a moment.
// With `again`, the seat is in a slot that another seat has left.
func (r *Runner) furnish(ctx context.Context, order seat.Order, again bool) (lock *os.File, err error) {
	// With a path, each call would open the directories above the file again.
	dir, err := r.root.OpenRoot(seatsDir + "/" + order.Key.String())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := filepath.Join(r.dir, seatsDir, order.Key.String())
	for _, name := range []string{newLockFile, seat.SpecFile, seat.ReserveFile} {
		r.recycler.move(path + "/" + name)
	}
	lock, err = dir.OpenFile(newLockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	if err := seat.Lock(lock); err != nil {
		return lock, err
	}
	if err := dir.Rename(newLockFile, seat.LockFile); err != nil {
		return lock, err
	}
	// The spec file is not synced to disk, because after a crash of the machine the seat is lost anyway.
	if err := dir.WriteFile(seat.SpecFile, order.Encode(), 0o600); err != nil {
		return lock, err
	}
	if err := r.furnishJob(ctx, dir, order); err != nil {
		return lock, err
	}
	if order.Contained() {
		subs := []string{"", "/" + seat.SupervisorGroup, "/" + seat.JobGroup}
		if again {
			subs = subs[2:]
		}
		for _, sub := range subs {
			if err := syscall.Mkdir(order.Cgroup+sub, 0o755); err != nil {
				return lock, &fs.PathError{Op: "mkdir", Path: order.Cgroup + sub, Err: err}
			}
		}
	}
	return lock, errors.Join(r.limits.furnish(&order, again), filterDevicesOf(&order))
}

// The method `launch` gives the seat a supervisor: the idle one if there is one, or a new one. The supervisor is in the seat's
// cgroup, so it can be killed together with the job, even if its PID is unknown.
func (r *Runner) launch(order seat.Order, idle *spare, secrets, ready, lock *os.File) (child, error) {
	complaints, err := r.root.OpenFile(seatPath(order.Key, seat.LockFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return child{}, err
	}
	defer complaints.Close()
	if idle.pid != 0 && r.reuse(idle, &order, complaints, ready, lock) == nil {
		return idle.child, nil
	}
	return r.execute(order, secrets, complaints, ready, lock)
}

// The method `execute` starts a new supervisor in its own session and in the seat's cgroup.
func (r *Runner) execute(order seat.Order, secrets, complaints, ready, lock *os.File) (child, error) {
	attr := &syscall.SysProcAttr{Setsid: true}
	if order.Contained() {
		dir, err := syscall.Open(order.Cgroup+"/"+seat.SupervisorGroup, syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return child{}, fmt.Errorf("open the supervisor's cgroup in %s: %w", order.Cgroup, err)
		}
		defer syscall.Close(dir)
		attr.UseCgroupFD, attr.CgroupFD = true, dir
	}
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return child{}, fmt.Errorf("open %s: %w", os.DevNull, err)
	}
	defer syscall.Close(null)
	files := make([]uintptr, seat.LockFD+1, seat.NextFD+1)
	files[0], files[1], files[2] = uintptr(null), uintptr(null), complaints.Fd()
	files[seat.ReadyFD], files[seat.LockFD] = ready.Fd(), lock.Fd()
	argv := []string{"ares-supervisor", filepath.Join(r.dir, seatsDir, order.Key.String())}
	next, theirs, isReusable := r.nextSocket(&order)
	if secrets != nil {
		files[0] = secrets.Fd()
	} else if isReusable {
		files, argv = append(files, uintptr(theirs)), append(argv, seat.Again)
	}
	pid, err := syscall.ForkExec(r.supervisor, argv,
		// The agent's environment holds secrets, so the supervisor does not get it. GOMAXPROCS is 2, because two
		// processors are enough and Go then uses less memory on large machines.
		&syscall.ProcAttr{Env: []string{"GOMAXPROCS=2", "GOGC=25"}, Files: files, Sys: attr})
	closeAll(theirs)
	if err != nil {
		closeAll(next)
		return child{}, fmt.Errorf("execute supervisor %s: %w", r.supervisor, err)
	}
	return child{pid: pid, next: next}, nil
}
