//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const (
	// askTime bounds one request to a supervisor: they answer in microseconds or, when
	// stopped, not at all.
	askTime = 2 * time.Second
	// slack is how long after its time a supervisor may still be killing a job.
	slack = time.Second
	// lookAgain bounds one sleep of Wait: a Stop may have brought the end nearer.
	lookAgain = time.Second
)

// Proc is a seat with a supervisor. Its methods may be called at the same time. It holds no
// open file, so an agent may drop it and Find it again.
type Proc struct {
	r     *Runner
	order seat.Order

	mu      sync.Mutex
	pid     int // the job's main process; 0 if unknown or never started
	child   int // the supervisor, if it is a child of this process and not reaped
	renewed BootTime
	started BootTime
	endBy   BootTime // after a Stop or Kill: when it must be over; 0 if not asked
	result  *Result  // once waited for
}

// adopt makes a Proc of a seat whose supervisor lives. If that does not answer, the last
// renewal is unknown, but it cannot be later than now.
func (r *Runner) adopt(ctx context.Context, order seat.Order) *Proc {
	p := &Proc{r: r, order: order, renewed: Now()}
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
		case "attempt": // the rest is for a spec that was damaged since the start
			p.order.Attempt = int(n)
		case "lost_after":
			p.order.LostAfter = time.Duration(n)
		case "grace":
			p.order.Grace = time.Duration(n)
		}
	}
	return p
}

// Key names the seat.
func (p *Proc) Key() Key { return p.order.Key }

// Spec is what was started.
func (p *Proc) Spec() Spec { return p.order.Spec }

// Pid is the job's main process; 0 if it is unknown or never started.
func (p *Proc) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// RenewedAt is the send time of the last renewal that the supervisor has taken.
func (p *Proc) RenewedAt() BootTime {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewed
}

// Renewed tells the supervisor when the last acknowledged renewal was sent. ErrFenced: it
// came too late. ErrEnded: there is nothing to renew.
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

// Stop asks for the end: SIGTERM, and SIGKILL after the grace (negative: that of the
// Spec). It does not wait. A second Stop can only shorten the grace. Even if it returns an
// error, Wait will end the seat by force a little later.
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

// Kill asks for the end without grace. It does not wait.
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

// overdueAt is when the supervisor must have ended the job, if it works at all.
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

// Wait returns when the supervisor is gone and the death of all of the job is verified.
// A job that is past its time is killed, and so is its supervisor if it does not answer; one
// that died without a result leaves Outcome Lost. Wait may be called again, and from several places.
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
	if err := p.r.EnsureDead(ctx, p.order.Key); err != nil {
		return Result{}, err
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
	}
	return *p.result, nil
}

// waitGone waits until the supervisor is gone, or stuck past its time. The job is killed at
// that time in any case. A supervisor that still answers keeps its place, for it alone knows
// how the job ended, and memory on a GPU can take long to be given back.
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

// killJob kills the job but not its supervisor. It need not succeed: whether all is dead is
// for EnsureDead to say.
func (p *Proc) killJob() {
	if g := p.r.group(p.order.Key); g != "" {
		_ = (g + "/" + seat.JobGroup).Kill()
		return
	}
	_, _ = seat.KillMarked(p.r.mark(p.order.Key))
	for _, g := range p.r.groups(p.order.Key) {
		_, _ = g.Kill()
	}
}

func (p *Proc) answers(ctx context.Context) bool {
	_, err := p.ask(ctx, "status")
	return err == nil || errors.Is(err, ErrEnded)
}

// rest returns when the supervisor may be gone, at the latest after d. An idle connection
// is closed by the kernel when the supervisor dies, which saves asking.
func (p *Proc) rest(ctx context.Context, d time.Duration) error {
	ctx2, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	conn, err := p.dial(ctx2)
	if err == nil {
		defer conn.Close()
		stop := context.AfterFunc(ctx2, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil || ctx2.Err() == nil {
		// No connection, or hung up: the lock will be free in a moment. If it is not, the
		// supervisor has too many clients or is still starting; do not press.
		t := time.NewTimer(min(d, 2*time.Millisecond))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx2.Done():
		}
	}
	return ctx.Err()
}

// reap takes the supervisor's exit status, if it is ours to take, so that no zombie stays.
func (p *Proc) reap(ctx context.Context) {
	_ = until(ctx, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.child == 0 {
			return true
		}
		pid, err := syscall.Wait4(p.child, nil, syscall.WNOHANG, nil)
		if pid == 0 && err == nil || err == syscall.EINTR {
			return false
		}
		p.child = 0
		return true
	})
}

func (p *Proc) dial(ctx context.Context) (net.Conn, error) {
	// A socket's path may have 108 bytes; through the directory's descriptor it is short.
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
		return !errors.Is(err, syscall.EAGAIN) // too many at the door
	})
	return conn, errors.Join(err, ended)
}

// ask sends one request and returns the answer without its "ok".
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
	case err != nil: // it died with our request in hand
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

// refusal is what a supervisor understood and will not do.
type refusal string

func (r refusal) Error() string { return "refused: " + string(r) }
