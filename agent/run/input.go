//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Callers of the methods of Input can test for these errors with errors.Is.
var (
	// ErrNoInput means that the job has neither Spec.Stdin nor Spec.Terminal.
	ErrNoInput = errors.New("the job has no standard input")
	// ErrInputTaken means that another writer has begun.
	ErrInputTaken = errors.New("another user has attached to the job")
	// ErrInputClosed means that the job's input has ended, or that none of its processes has it open any more.
	ErrInputClosed = errors.New("the job's standard input has ended")
	errInputGap    = errors.New("input is missing before this part")
)

// MaxInput is the maximum number of bytes that Input.Write takes at once.
const MaxInput = seat.MaxInput

// Input writes to the standard input of a job. The job's supervisor holds and counts it, so an Input has nothing that a restart of the
// agent could lose; see seat.InputRequest.
type Input struct {
	proc   *Proc
	writer string
}

// Attach begins to write to the job's standard input as a writer of the given name, and ends the writing of others. With `again`, the
// writer continues, which fails if another one has begun. The second result is the number of bytes of input that the job has been given
// by all writers.
func (p *Proc) Attach(ctx context.Context, writer string, again bool) (*Input, int64, error) {
	i := &Input{proc: p, writer: writer}
	verb := "begin"
	if again {
		verb = "continue"
	}
	written, err := i.request(ctx, &seat.Input{Verb: verb})
	return i, written, err
}

// Write writes bytes of which the first one has the given position, as far as they fit and were not written already. It does not wait for
// the job to read. It returns the number of all bytes of input that were written.
func (i *Input) Write(ctx context.Context, at int64, data []byte) (int64, error) {
	return i.request(ctx, &seat.Input{Verb: "write", At: at, Data: data[:min(len(data), MaxInput)]})
}

// End ends the input after the given number of bytes. A terminal's input does not end.
func (i *Input) End(ctx context.Context, at int64) error {
	_, err := i.request(ctx, &seat.Input{Verb: "end", At: at})
	return err
}

// Resize sets the size of the job's terminal. The job gets SIGWINCH. It does nothing for a job without a terminal.
func (i *Input) Resize(ctx context.Context, size TerminalSize) error {
	_, err := i.request(ctx, &seat.Input{Verb: "resize", Columns: size.Columns, Rows: size.Rows})
	return err
}

func (i *Input) request(ctx context.Context, r *seat.Input) (int64, error) {
	r.Writer = i.writer
	answer, err := i.proc.ask(ctx, string(r.Encode()))
	if why, refused := errors.AsType[refusal](err); refused {
		switch why {
		case seat.InputNone:
			return 0, ErrNoInput
		case seat.InputTaken:
			return 0, ErrInputTaken
		case seat.InputClosed:
			return 0, ErrInputClosed
		case seat.InputGap:
			return 0, errInputGap
		}
	}
	if err != nil {
		return 0, err
	}
	written, err := strconv.ParseInt(answer, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the supervisor's answer %q has no number", answer)
	}
	return written, nil
}
