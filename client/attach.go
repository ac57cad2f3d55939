package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// AttachOptions describe how a user is attached to a job's own process.
type AttachOptions struct {
	Rank int
	// Tail is the number of lines with which the output begins.
	Tail int
	// Input is sent to the job. At its end, the job's standard input ends; after another error, Attach returns the error once the job has
	// been given everything before it. It is nil if there is nothing to send. A read that has begun may outlast the call.
	Input io.Reader
	// Output gets what the job prints. Attach waits for it when the attempt has ended. When the user leaves, or may not stay, a write that
	// does not return, because nothing reads the output, outlasts the call.
	Output io.Writer
	// Attached is called once, before the first read of Input. It may be nil.
	Attached func(Attached)
	// Size returns the size of the user's terminal, and Resizes has a value whenever it has changed. They may be nil.
	Size    func() TerminalSize
	Resizes <-chan struct{}
	// Notice is told that the connection was lost. It may be nil.
	Notice func(text string)
}

// Attached says to what a user is attached.
type Attached struct {
	Attempt int
	// Terminal is true if the job's process has a terminal.
	Terminal bool
}

// Attach sends input to a running job's own process, and writes the process's output, until the attempt has ended. It returns the job then.
// If the connection breaks, for example because a server or the node's agent is restarted, Attach continues where it broke, so that no byte
// is lost or repeated in either direction. It tries that for a minute.
//
// The output is read as Logs does. The input is one numbered stream: see apipb.AttachStart. Attach keeps what was not confirmed, and after a
// break the node says at which byte it continues.
func (c *Client) Attach(ctx context.Context, id string, o AttachOptions) (*apipb.Job, error) {
	var writer [16]byte
	_, _ = rand.Read(writer[:]) // never fails
	ctx, cancel := context.WithCancelCause(ctx)
	a := &attachment{
		client: c, id: id, options: o, writer: hex.EncodeToString(writer[:]), printed: make(chan error, 1), cancel: cancel,
		input: unconfirmed{changed: make(chan struct{})},
	}
	defer a.stopPrinting()
	defer cancel(nil)
	return a.run(ctx)
}

// attachment is the user's side of an attachment, over several sessions if connections break.
type attachment struct {
	client   *Client
	id       string
	options  AttachOptions
	writer   string
	attempt  int32 // 0 until the first session has begun
	input    unconfirmed
	printing chan struct{} // closed when nothing is printed any more; nil if nothing ever was
	printed  chan error    // the end of the output
	cancel   context.CancelCauseFunc
	began    bool // the current session
}

func (a *attachment) run(ctx context.Context) (*apipb.Job, error) {
	c := a.client
	var away time.Time
	for n := 1; ; n++ {
		at := c.current.Load()
		err := a.session(ctx, at)
		if a.began {
			n, away = 1, time.Time{}
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case a.attempt == 0 && (!passing(err) || n >= c.opts.Attempts):
			return nil, apipb.FromStatus(err)
		case err == nil:
			job, err := c.WaitUntil(ctx, a.id, a.isOver)
			if err != nil {
				return nil, err
			}
			return a.finish(ctx, job)
		case ares.CodeOf(apipb.FromStatus(err)) == ares.Conflict:
			// The rank is not running: either the attempt has ended meanwhile, or a new agent has not taken over its jobs yet.
			if job, failed := c.ConsistentJob(ctx, a.id); failed == nil && a.isOver(job) {
				return a.finish(ctx, job)
			}
		case !passing(err):
			return nil, apipb.FromStatus(err)
		}
		switch {
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > maxAway:
			return nil, apipb.FromStatus(err)
		}
		if n == 2 && a.options.Notice != nil { // the first try again is at once
			a.options.Notice("the connection to the job was lost, trying again: " + apipb.FromStatus(err).Error())
		}
		if err = c.pause(ctx, at, n, err); err != nil {
			return nil, err
		}
	}
}

// isOver reports whether the user's rank has ended.
func (a *attachment) isOver(job *apipb.Job) bool {
	return ares.Phase(job.GetState()).Final() || slices.ContainsFunc(job.GetAttempts(), func(t *apipb.Attempt) bool {
		if t.GetNumber() != a.attempt || t.GetEndedAt() != nil {
			return t.GetNumber() >= a.attempt
		}
		return slices.ContainsFunc(t.GetSeats(), func(s *apipb.JobSeat) bool {
			state := ares.SeatState(s.GetState())
			return int(s.GetRank()) == a.options.Rank && state != ares.SeatPlaced && state != ares.SeatClaimed
		})
	})
}

// finish waits for the end of the output.
func (a *attachment) finish(ctx context.Context, job *apipb.Job) (*apipb.Job, error) {
	select {
	case err := <-a.printed:
		return job, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// session attaches once. It returns nil if the job's process has ended.
func (a *attachment) session(ctx context.Context, at int64) error {
	a.began = false
	whole := ctx
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	stream, err := apipb.NewSessionServiceClient(a.client.conns[at]).RunSession(ctx)
	if err != nil {
		return err
	}
	first := &apipb.RunSessionRequest{
		JobId: a.id, Rank: int32(a.options.Rank),
		Start: &apipb.SessionStart{Action: &apipb.SessionStart_Attach{Attach: &apipb.AttachStart{Writer: a.writer, Attempt: a.attempt, TailLines: int32(a.options.Tail)}}},
	}
	if err = stream.Send(first); err != nil && !errors.Is(err, io.EOF) { // after io.EOF, the next Recv returns the error
		return err
	}
	s := &session{stream: stream, window: apipb.NewSendWindow()}
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		switch out := m.GetOutput().GetOutput().(type) {
		case *apipb.SessionOutput_Attached:
			if err = a.attached(whole, out.Attached); err != nil {
				return err
			}
			a.began = true
			from := out.Attached.GetWritten()
			wg.Go(func() { a.send(ctx, s, from) })
			if out.Attached.GetTerminal() && a.options.Size != nil {
				wg.Go(func() { a.resize(ctx, s) })
			}
		case *apipb.SessionOutput_Consumed:
			s.window.Consumed(out.Consumed)
			a.input.confirm(int(out.Consumed))
		case *apipb.SessionOutput_End:
			if out.End.GetError() != "" {
				return ares.Errorf(ares.Code(out.End.GetErrorCode()), "%s", out.End.GetError())
			}
			return nil
		}
	}
}

// attached notes where the input continues. The first time, it starts to read input and output, which go on over all sessions.
func (a *attachment) attached(ctx context.Context, m *apipb.SessionAttached) error {
	if a.attempt != 0 {
		if a.input.startAt(m.GetWritten()) {
			return nil
		}
		return ares.Errorf(ares.Internal, "the node has been given %d bytes of input, which are not those of this user: attach again", m.GetWritten())
	}
	a.attempt = m.GetAttempt()
	a.input.base = m.GetWritten()
	if a.options.Attached != nil {
		a.options.Attached(Attached{Attempt: int(m.GetAttempt()), Terminal: m.GetTerminal()})
	}
	a.printing = make(chan struct{})
	go func() {
		defer close(a.printing)
		a.print(ctx, m.GetOutputOffset())
	}()
	if a.options.Input != nil {
		go a.read(ctx, m.GetTerminal())
	}
	return nil
}

// print writes the output from an offset on, until the attempt has ended.
func (a *attachment) print(ctx context.Context, from int64) {
	r := &logReader{client: a.client, options: LogOptions{Follow: true, Notice: a.options.Notice}, w: a.options.Output, req: &apipb.StreamLogsRequest{
		JobId: a.id, Rank: int32(a.options.Rank), Attempt: a.attempt, Follow: true, Offset: &from,
	}}
	err := r.read(ctx)
	a.printed <- err
	if err != nil {
		a.cancel(err)
	}
}

// leaveTime is how long a user who leaves waits for the last write of the output.
const leaveTime = time.Second

// stopPrinting waits until nothing is printed any more. It gives up a write that does not return: the user could not leave otherwise.
func (a *attachment) stopPrinting() {
	if a.printing == nil {
		return
	}
	select {
	case <-a.printing:
	case <-time.After(leaveTime):
	}
}

// endOfTransmission ends the input of a program that reads lines from a terminal.
const endOfTransmission = 4

// deliveryTime is how long Attach waits for the confirmation of the last input when the user leaves.
const deliveryTime = 5 * time.Second

// read reads the user's input until it ends.
func (a *attachment) read(ctx context.Context, terminal bool) {
	buf := make([]byte, apipb.SessionChunk)
	for {
		n, err := a.options.Input.Read(buf)
		if !a.input.add(ctx, buf[:n]) {
			return
		}
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF): // the user leaves
			delivering, done := context.WithTimeout(ctx, deliveryTime)
			defer done()
			if !a.input.delivered(delivering) && ctx.Err() == nil {
				err = errors.Join(err, ares.Errorf(ares.Unavailable, "the job has not read all of the input"))
			}
			a.cancel(err)
			return
		case terminal:
			a.input.add(ctx, []byte{endOfTransmission})
			return
		default:
			a.input.end()
			return
		}
	}
}

// send sends the input from a position on, until the session or the input ends.
func (a *attachment) send(ctx context.Context, s *session, from int64) {
	for {
		data, ok := a.input.after(ctx, from)
		if !ok {
			if ctx.Err() == nil {
				s.send(&apipb.SessionInput{Input: &apipb.SessionInput_End{End: true}})
			}
			return
		}
		for len(data) > 0 {
			k, stopped := s.window.Take(ctx, min(len(data), apipb.SessionChunk))
			if stopped != nil {
				return
			}
			s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Data{Data: data[:k]}})
			from, data = from+int64(k), data[k:]
		}
	}
}

// resize sends the size of the user's terminal, at first and whenever it changes.
func (a *attachment) resize(ctx context.Context, s *session) {
	for {
		s.send(&apipb.SessionInput{Input: &apipb.SessionInput_Resize{Resize: a.options.Size().message()}})
		select {
		case <-a.options.Resizes:
		case <-ctx.Done():
			return
		}
	}
}

// unconfirmed is the input that the job was not given yet, as far as this side knows.
// Invariant: the first byte of data has the position base in the job's input.
type unconfirmed struct {
	mu      sync.Mutex
	base    int64
	data    []byte
	ended   bool
	changed chan struct{} // closed at a change; replaced after that
}

// change calls a function that changes the input, and wakes all that wait for it.
func (u *unconfirmed) change(do func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	do()
	close(u.changed)
	u.changed = make(chan struct{})
}

// await waits until a condition is met. It returns false if the context ends first.
func (u *unconfirmed) await(ctx context.Context, condition func() bool) bool {
	for {
		u.mu.Lock()
		met, changed := condition(), u.changed
		u.mu.Unlock()
		if met {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// add appends input. It waits while there is as much as one side of a session may send.
func (u *unconfirmed) add(ctx context.Context, b []byte) bool {
	if !u.await(ctx, func() bool { return len(u.data) < apipb.SessionWindow }) {
		return false
	}
	u.change(func() { u.data = append(u.data, b...) })
	return true
}

func (u *unconfirmed) end() { u.change(func() { u.ended = true }) }

// confirm drops input that the job was given.
func (u *unconfirmed) confirm(n int) {
	u.change(func() {
		n = min(n, len(u.data))
		u.base, u.data = u.base+int64(n), u.data[n:]
	})
}

// startAt drops what is before a position. It returns false if the position is not in the input.
func (u *unconfirmed) startAt(position int64) (ok bool) {
	u.change(func() {
		n := position - u.base
		if ok = n >= 0 && n <= int64(len(u.data)); ok {
			u.base, u.data = position, u.data[n:]
		}
	})
	return ok
}

// after waits for input from a position on, and returns a copy. It returns false at the end of the input.
func (u *unconfirmed) after(ctx context.Context, position int64) (data []byte, ok bool) {
	ok = u.await(ctx, func() bool {
		if n := position - u.base; n >= 0 && n < int64(len(u.data)) {
			data = bytes.Clone(u.data[n:])
		}
		return len(data) > 0 || u.ended
	})
	return data, ok && len(data) > 0
}

// delivered waits until the job was given everything.
func (u *unconfirmed) delivered(ctx context.Context) bool {
	return u.await(ctx, func() bool { return len(u.data) == 0 })
}
