package gpu

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/ares-scheduler/ares"
)

const (
	// commandTimeout is how long one answer of a driver may take. A card
	// without persistence mode needs seconds to wake up.
	commandTimeout = 30 * time.Second

	// commandGrace is how long a killed command may keep its output open.
	commandGrace = 2 * time.Second

	// maxOutput is how much a command may print. Eight cards print 300 kB.
	maxOutput = 16 << 20
)

// gate lets one call at a time go to a driver.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// pass runs f and returns what it does, or an error of code Unavailable when f
// has not returned in time. A process or call stuck inside the kernel cannot
// be ended by anyone, which is why f may be left behind; the gate stays shut
// until it returns, so that at most one is.
func pass[T any](ctx context.Context, g gate, limit time.Duration, what string, f func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	ctx, cancel := context.WithTimeout(ctx, limit)
	select {
	case g <- struct{}{}:
	case <-ctx.Done():
		cancel()
		return zero, ares.Errorf(ares.Unavailable, "%s: an earlier call has not returned: %v", what, ctx.Err())
	}
	done := make(chan result, 1)
	go func() {
		defer func() { <-g }()
		defer cancel()
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
	}
	// f saw the end of its time too: give it the moment it needs to say so.
	late := time.NewTimer(2 * commandGrace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return zero, ares.Errorf(ares.Unavailable, "%s hangs and cannot be ended: %v", what, ctx.Err())
	}
}

// command is an external program, bounded in time and output.
type command struct {
	path  string
	limit time.Duration
	gate  gate
}

// output runs the command. A command that ran to its end and failed returns
// what it printed beside the error: nvidia-smi describes the other cards when
// one is broken.
func (c command) output(ctx context.Context, args ...string) ([]byte, error) {
	what := c.path + " " + strings.Join(args, " ")
	return pass(ctx, c.gate, c.limit, what, func(ctx context.Context) ([]byte, error) {
		stdout, stderr := &bounded{left: maxOutput}, &bounded{left: 4 << 10, forgive: true}
		cmd := exec.CommandContext(ctx, c.path, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C")
		cmd.Stdout, cmd.Stderr = stdout, stderr
		cmd.WaitDelay = commandGrace
		err := cmd.Run()
		switch {
		case stdout.over:
			return nil, ares.Errorf(ares.Unavailable, "%s: prints more than %d bytes", what, maxOutput)
		case ctx.Err() != nil:
			return nil, ares.Errorf(ares.Unavailable, "%s: no answer: %v", what, ctx.Err())
		case err != nil:
			said := strings.TrimSpace(stderr.text.String() + " " + firstLine(stdout.text.String()))
			return stdout.text.Bytes(), ares.Errorf(ares.Unavailable, "%s: %v: %s", what, err, said)
		}
		return stdout.text.Bytes(), nil
	})
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if len(line) > 200 {
		line = line[:200]
	}
	return line
}

// bounded keeps what is written to it up to a limit. Past it, it drops the
// rest when it forgives, and else fails, which ends the writer.
type bounded struct {
	text    bytes.Buffer
	left    int
	forgive bool
	over    bool
}

func (b *bounded) Write(p []byte) (int, error) {
	keep := min(len(p), b.left)
	b.text.Write(p[:keep])
	b.left -= keep
	if keep == len(p) {
		return keep, nil
	}
	b.over = true
	if b.forgive {
		return len(p), nil
	}
	return keep, errors.New("too much output")
}
