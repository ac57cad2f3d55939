package agent

import (
	"context"
	"errors"
	"io/fs"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// fullPause is how long the agent waits when a job does not read its input: at first, and at most.
	fullPause    = time.Millisecond
	maxFullPause = 50 * time.Millisecond
)

// attach writes what a user sends to the standard input of the job itself. The supervisor counts the bytes, so an agent that is restarted
// continues exactly where this one was.
func (s *session) attach(ctx context.Context, proc *run.Proc, start *apipb.AttachStart) (*apipb.SessionEnd, error) {
	attempt := int32(proc.Spec().Attempt)
	again := start.GetAttempt() != 0
	if again && start.GetAttempt() != attempt {
		return nil, s.ended()
	}
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	in, written, err := proc.Attach(ctx, start.GetWriter(), again)
	if err != nil {
		return nil, s.attachProblem(err)
	}
	defer s.agent.replaceAttached(s.key, start.GetWriter(), leave)()
	attached := &apipb.SessionAttached{Written: written, Attempt: attempt, Terminal: proc.Spec().Terminal}
	if !again {
		if attached.OutputOffset, err = s.agent.tail(s.key, int(start.GetTailLines())); err != nil {
			return nil, s.problem(err)
		}
	}
	s.controlBy(func(m *apipb.SessionInput) {
		if size := m.GetResize(); size != nil {
			_ = in.Resize(ctx, sizeOf(size)) // the job may just have ended
		}
	})
	if err = s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_Attached{Attached: attached}}); err != nil {
		return nil, err
	}
	fed := make(chan struct{})
	defer func() { leave(nil); <-fed }()
	go func() {
		defer close(fed)
		if err := s.feed(ctx, in, written); err != nil {
			leave(s.attachProblem(err))
		}
	}()
	res, err := proc.Wait(ctx)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, s.problem(err)
	}
	return &apipb.SessionEnd{ExitCode: int32(max(res.ExitCode, 0)), Signal: int32(res.Signal)}, nil
}

// feed writes the user's data, whose first byte has the given position, and confirms each part that the job was given. What the job does
// not want any more is dropped.
func (s *session) feed(ctx context.Context, in *run.Input, at int64) error {
	closed := false
	for {
		data, ok := s.input.take(ctx)
		if !ok {
			if ctx.Err() != nil || closed {
				return nil
			}
			if err := in.End(ctx, at); !errors.Is(err, run.ErrInputClosed) && ctx.Err() == nil {
				return err
			}
			return nil
		}
		size := len(data)
		for wait := fullPause; len(data) > 0 && !closed; {
			written, err := in.Write(ctx, at, data)
			switch {
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, run.ErrInputClosed):
				closed = true
				continue
			case err != nil:
				return err
			}
			// More than this part may be written already, by a session of the same user that lost its connection.
			n := min(max(written-at, 0), int64(len(data)))
			if n == 0 && !pause.For(ctx, wait) {
				return nil
			}
			if wait = min(2*wait, maxFullPause); n > 0 {
				wait = fullPause
			}
			at, data = at+n, data[n:]
		}
		if s.tell(&apipb.SessionOutput{Output: &apipb.SessionOutput_Consumed{Consumed: uint32(size)}}) != nil {
			return nil
		}
	}
}

func (s *session) attachProblem(err error) error {
	job := s.key.Job
	switch {
	case errors.Is(err, run.ErrInputTaken):
		return ares.Errorf(ares.LimitReached, "another user has attached to rank %d of job %s, and one user writes to it at a time: read along with `ares logs --follow %s`, or attach again to take it over", s.key.Rank, job, job)
	case errors.Is(err, run.ErrNoInput):
		return noInput(job)
	case errors.Is(err, run.ErrInputClosed):
		return ares.Errorf(ares.Invalid, "the standard input of rank %d of job %s has ended, so nobody can write to it any more: read its output with `ares logs --follow %s`", s.key.Rank, job, job)
	}
	return s.problem(err)
}

func noInput(job string) error {
	return ares.Errorf(ares.Invalid, "job %s has no standard input: submit it with --stdin or --tty, or read its output with `ares logs --follow %s`", job, job)
}

// ended is the error for a user who attaches again, but whose attempt has ended.
func (s *session) ended() error {
	return ares.Errorf(ares.Conflict, "rank %d of job %s has ended, and the session with it", s.key.Rank, s.key.Job)
}

// An attachment is the session that writes to the input of a job.
type attachment struct {
	writer string
	leave  context.CancelCauseFunc
}

// replaceAttached makes a session the one that writes to a job, and ends the one that did so far. The supervisor has decided this already;
// the user who wrote so far is only told now, and not with the next key.
func (a *Agent) replaceAttached(key run.Key, writer string, leave context.CancelCauseFunc) (forget func()) {
	mine := &attachment{writer, leave}
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.attached[key]; old != nil {
		if old.writer == writer { // its connection is lost, but the agent did not notice yet
			old.leave(ares.Errorf(ares.Unavailable, "the session continues over another connection"))
		} else {
			old.leave((&session{agent: a, key: key}).attachProblem(run.ErrInputTaken))
		}
	}
	a.attached[key] = mine
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.attached[key] == mine {
			delete(a.attached, key)
		}
	}
}

// tail returns the offset of the last lines in the output of a seat.
func (a *Agent) tail(key run.Key, lines int) (int64, error) {
	log, err := a.runner.OpenLog(key)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, run.ErrEnded
	}
	if err != nil {
		return 0, err
	}
	defer log.Close()
	if err = log.Tail(lines); err != nil {
		return 0, err
	}
	return log.Offset(), nil
}
