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
	// commandTimeout is the maximum time that a driver may take for one answer. A card without persistence mode needs
	// seconds to wake up.
	commandTimeout = 30 * time.Second

	// commandGrace is the maximum time that a killed command may keep its output open.
	commandGrace = 2 * time.Second

	// maxOutput is the maximum number of bytes that a command may print. For comparison, nvidia-smi prints 300 kB for
	// eight cards.
	maxOutput = 16 << 20
)

// A gate allows only one call to a driver at a time.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// The function `pass` runs f and returns its result. If f does not return in time, the function returns an error of code
// Unavailable. A process or call that hangs in the kernel cannot be ended, so f may still be running when this function
// returns. The gate stays closed until f returns, so at most one call can hang at a time.
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
		return zero, ares.Errorf(ares.Unavailable, "%s: an earlier call to the driver is still running: %v", what, ctx.Err())
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
	// The context of f has expired, so f should return soon. Wait a short time for it.
	late := time.NewTimer(2 * commandGrace)
	defer late.Stop()
	select {
	case r := <-done:
		return r.value, r.err
	case <-late.C:
		return zero, ares.Errorf(ares.Unavailable, "%s did not return by its deadline and cannot be stopped: %v", what, ctx.Err())
	}
}

// The type `command` is an external program with limits on its runtime and its output.
type command struct {
	path  string
	limit time.Duration
	gate  gate
}

// The method `output` runs the command. If the command fails, `output` returns the command's output together with the error. If
// one card is broken, nvidia-smi still describes the other cards.
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
			return nil, ares.Errorf(ares.Unavailable, "%s: the command prints more than %d bytes", what, maxOutput)
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

// The type `bounded` is a buffer with a size limit. If the field `forgive` is set, Write discards all bytes beyond the limit.
// If the field `forgive` is not set, Write returns an error, which ends the program that writes.
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
