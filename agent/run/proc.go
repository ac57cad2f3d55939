//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// askTime is the maximum time for one request to a supervisor. A supervisor answers within microseconds, but a stopped
	// supervisor does not answer at all.
	askTime = 2 * time.Second
	// The constant `slack` is the extra time that a supervisor may take after its deadline to kill a job.
	slack = time.Second
	// lookAgain is the maximum time that Wait sleeps before it checks the deadline again. A call of Stop may have
	// moved the deadline in the meantime.
	lookAgain = time.Second
)

// Proc is a seat that has a supervisor. The methods of a Proc may be called concurrently. An agent may drop a Proc and get it again with
// Find.
type Proc struct {
	r         *Runner
	order     seat.Order
	isAdopted bool // a previous agent has started it; the order is incomplete if its file was damaged

	mu      sync.Mutex
	ready   *os.File // the pipe on which the supervisor has reported its start; nil after a restart of the agent
	pid     int      // the job's main process; 0 if unknown or never started
	child   child    // the supervisor, if it is a child of this process and was not reaped yet
	renewed BootTime
	started BootTime
	endBy   BootTime // when the job must have ended after a Stop or Kill; 0 if there was none
	result  *Result  // set after the seat was waited for
}

// The method `adopt` returns a Proc for a seat whose supervisor is alive. If the supervisor does not answer, the time of the last
// renewal is unknown. The method then assumes the latest possible time, which is now.
func (r *Runner) adopt(ctx context.Context, order seat.Order) *Proc {
	p := &Proc{r: r, order: order, isAdopted: true, renewed: Now(), child: child{next: -1}}
	answer, err := p.ask(ctx, "status")
	if err != nil {
		return p
	}
	for f := range strings.FieldsSeq(answer) {
		key, value, _ := strings.Cut(f, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			continue
		}
		switch key {
		case "pid":
			p.pid = int(n)
		case "started":
			p.started = BootTime(n)
		case "renewed":
			p.renewed = BootTime(n)
		case "attempt": // the other values are needed only if the spec was damaged after the start
			p.order.Attempt = int(n)
		case "lost_after":
			p.order.LostAfter = time.Duration(n)
		case "grace":
			p.order.Grace = time.Duration(n)
		}
	}
	return p
}

// Key returns the key that identifies the seat.
func (p *Proc) Key() Key { return p.order.Key }

// Spec is the spec that the seat was started with.
func (p *Proc) Spec() Spec { return p.order.Spec }

// Pid is the PID of the job's main process. Pid is 0 if the PID is unknown or the process never started.
func (p *Proc) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// RenewedAt is the send time of the last renewal that the supervisor accepted.
func (p *Proc) RenewedAt() BootTime {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// Renewed tells the supervisor the send time of the last acknowledged renewal. Renewed returns ErrFenced if the
// renewal came too late, and ErrEnded if the supervisor is gone.
func (p *Proc) Renewed(ctx context.Context, sent BootTime) error {
	_, err := p.ask(ctx, "renewed "+strconv.FormatInt(int64(sent), 10))
	if why, refused := errors.AsType[refusal](err); refused && why == "fenced" {
		return ErrFenced
	}
	if err != nil {
		return fmt.Errorf("renew %s: %w", p.order.Key, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewed = max(p.renewed, sent)
	return nil
}

// Stop sends SIGTERM to the job, and SIGKILL after the grace period. If the argument `grace` is negative, Stop uses the grace period
// of the Spec. The call returns without waiting for the job's end. A second Stop can only shorten the grace period. Even if Stop
// returns an error, Wait kills the seat's processes soon after the grace period.
func (p *Proc) Stop(ctx context.Context, reason string, grace time.Duration) error {
	if grace < 0 {
		grace = p.order.Grace
	}
	p.expectEnd(grace)
	_, err := p.ask(ctx, "stop "+strconv.FormatInt(int64(grace), 10)+" "+clean(reason, seat.MaxReason))
	if err != nil {
		return fmt.Errorf("stop %s: %w", p.order.Key, err)
	}
	return nil
}

// Kill stops the job without a grace period. Kill does not wait for the job's end.
func (p *Proc) Kill(ctx context.Context) error {
	p.expectEnd(0)
	if _, err := p.ask(ctx, "kill"); err != nil {
		return fmt.Errorf("kill %s: %w", p.order.Key, err)
	}
	return nil
}

func (p *Proc) expectEnd(grace time.Duration) {
	by := Now().Add(grace + slack)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.endBy == 0 || by < p.endBy {
		p.endBy = by
	}
}

// overdueAt returns the time by which a working supervisor must have ended the job.
func (p *Proc) overdueAt() BootTime {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.order.OverdueAt(p.renewed)
	if p.endBy != 0 {
		at = min(at, p.endBy)
	}
	if p.order.MaxRuntime > 0 && p.started > 0 {
		at = min(at, p.started.Add(p.order.MaxRuntime+p.order.Grace+slack))
	}
	return at
}

// Wait returns when the supervisor is gone and all processes of the job have verifiably ended. Wait kills a job that has passed
// its deadline. It also kills a supervisor that does not answer. If a supervisor died without a result, the outcome is Lost. Wait
// may be called repeatedly and concurrently.
func (p *Proc) Wait(ctx context.Context) (Result, error) {
	p.mu.Lock()
	known := p.result
	p.mu.Unlock()
	if known != nil {
		return *known, nil
	}
	stuck, err := p.waitGone(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("wait for %s: %w", p.order.Key, err)
	}
	if stuck {
		p.r.killSupervisor(p.order.Key) // it may have left the seat's cgroup already
	}
	if stuck || !p.keepSlot() {
		if err := p.r.EnsureDead(ctx, p.order.Key); err != nil {
			return Result{}, err
		}
	}
	p.closeReady()
	if !stuck {
		p.keepSupervisor()
	}
	p.reap(ctx)
	res := p.r.readResult(p.order.Key)
	if stuck && res.Outcome == Lost {
		res.Reason = "the supervisor did not answer past its time and was killed by the agent"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.result == nil {
		p.result = &res
		if !p.isAdopted {
			p.r.ended.add(&p.order)
		}
	}
	return *p.result, nil
}

// waitGone waits until the supervisor is gone, or until the deadline has passed and the supervisor does not answer. The job itself
// is killed at the deadline in any case. A supervisor that still answers is not killed. Only the supervisor knows how the job ended,
// and freeing GPU memory can take long.
func (p *Proc) waitGone(ctx context.Context) (stuck bool, err error) {
	for {
		alive, err := p.r.alive(p.order.Key)
		if err != nil || !alive {
			return false, err
		}
		pause := lookAgain
		if left := p.overdueAt().Sub(Now()); left > 0 {
			pause = min(pause, left)
		} else if p.killJob(); !p.answers(ctx) {
			return true, ctx.Err()
		}
		if err := p.rest(ctx, pause); err != nil {
			return false, err
		}
	}
}

// killJob kills the job but not its supervisor. Errors are ignored, because EnsureDead verifies the end of the
// processes later.
func (p *Proc) killJob() {
	order, _ := p.r.whereabouts(p.order.Key)
	if p.r.owners.hasLeft(&order) {
		return // another caller of Wait has seen the end of the job
	}
	// From now on the supervisor only has to report the end, and the job is no reason for it to be late.
	_ = order.Uncharge()
	if order.Contained() {
		_ = (seat.Cgroup(order.Cgroup) + "/" + seat.JobGroup).Kill()
		return
	}
	_, _ = order.KillUncontained(0)
}

func (p *Proc) answers(ctx context.Context) bool {
	_, err := p.ask(ctx, "status")
	return err == nil || errors.Is(err, ErrEnded)
}

// The method `rest` waits until the supervisor's connection closes, but no longer than d. A closed connection means that the
// supervisor may be gone. The kernel closes an idle connection when the supervisor dies, so no polling is needed.
func (p *Proc) rest(ctx context.Context, d time.Duration) error {
	ctx2, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	if p.restOnPipe(ctx2) {
		return ctx.Err()
	}
	conn, err := p.dial(ctx2)
	if err == nil {
		defer conn.Close()
		stop := context.AfterFunc(ctx2, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || ctx2.Err() == nil {
		// Either the connection failed, or the supervisor closed it because it exits. If the supervisor closed the connection,
		// its lock will be free in a moment. If the connection failed, the supervisor has too many clients or is still
		// starting, so wait before the next attempt.
		pause.For(ctx2, min(d, 2*time.Millisecond))
	}
	return ctx.Err()
}

// restOnPipe waits like the method `rest`, on the pipe on which the supervisor has reported its start: the supervisor keeps it open as long
// as it lives. It returns false if this process has no such pipe.
func (p *Proc) restOnPipe(ctx context.Context) bool {
	p.mu.Lock()
	ready := p.ready
	p.mu.Unlock()
	if ready == nil {
		return false
	}
	stop := context.AfterFunc(ctx, func() { _ = ready.SetReadDeadline(time.Unix(1, 0)) })
	_, err := io.Copy(io.Discard, ready) // only the end of the pipe matters
	if !stop() && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = ready.SetReadDeadline(time.Time{}) // for the next call
		return true
	}
	p.closeReady()
	return true
}

func (p *Proc) closeReady() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready != nil {
		_ = p.ready.Close()
		p.ready = nil
	}
}

// The method `reap` reads the exit status of a supervisor that is a child of this process, so that the supervisor does not
// stay a zombie.
func (p *Proc) reap(ctx context.Context) {
	_ = until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.child.reaped()
	})
}

func (p *Proc) dial(ctx context.Context) (net.Conn, error) {
	// The path of a socket is limited to 108 bytes. A path through the directory's file descriptor is short enough.
	dir, err := p.r.root.Open(seatsDir + "/" + p.order.Key.String())
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), seat.ControlFile)
	var d net.Dialer
	var conn net.Conn
	ended := until(ctx, func() bool {
		conn, err = d.DialContext(ctx, "unixpacket", path)
		return !errors.Is(err, syscall.EAGAIN) // too many clients are waiting
	})
	return conn, errors.Join(err, ended)
}

// The method `ask` sends one request to the supervisor and returns the answer without its leading "ok".
func (p *Proc) ask(ctx context.Context, request string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	conn, err := p.dial(ctx)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return "", ErrEnded
	}
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	buf := make([]byte, 4<<10)
	n := 0
	if _, err = conn.Write([]byte(request)); err == nil {
		n, err = conn.Read(buf)
	}
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the supervisor does not answer: %w", ctx.Err())
	case err != nil: // the supervisor died during our request
		return "", ErrEnded
	}
	verb, rest, _ := strings.Cut(string(buf[:n]), " ")
	switch verb {
	case "ok":
		return rest, nil
	case "refused":
		return "", refusal(rest)
	case "error":
		return "", errors.New(rest)
	}
	return "", fmt.Errorf("the supervisor answered %q", clean(verb, 100))
}

// The type `refusal` is the error for a request that a supervisor understood but rejected.
type refusal string

func (r refusal) Error() string { return "refused: " + string(r) }
