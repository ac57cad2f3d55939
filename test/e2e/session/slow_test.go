package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// The type `paste` is a gigabyte that a user pastes.
type paste struct{ left, taken atomic.Int64 }

func (p *paste) Read(b []byte) (int, error) {
	n := min(int64(len(b)), p.left.Load())
	if n == 0 {
		return 0, io.EOF
	}
	p.left.Add(-n)
	p.taken.Add(n)
	return int(n), nil
}

// The type `gate` is a reader of output that stops reading until the gate is open.
type gate struct {
	open, reached chan struct{}
	got           bytes.Buffer
}

func (g *gate) Write(b []byte) (int, error) {
	if g.got.Len() == 0 {
		close(g.reached)
	}
	<-g.open
	return g.got.Write(b)
}

// TestSlowUsers pastes a gigabyte into a command that does not read, and stops reading what another command prints. Neither takes more from
// the user or the command than the servers between may hold, and other sessions go on.
func TestSlowUsers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.runs("job", nil, "sleep", "1000")
	quick := func() {
		t.Helper()
		var out bytes.Buffer
		if res, err := s.far.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"echo", "quick"}, Output: &out, Errors: io.Discard}); err != nil || res.ExitCode != 0 || out.String() != "quick\n" {
			t.Errorf("another session: %v %v %q", res, err, out.String())
		}
	}
	const most = 8 * apipb.SessionWindow // with the buffers of pipes and of gRPC
	p := &paste{}
	p.left.Store(1 << 30)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.far.Exec(ctx, id, client.ExecOptions{Argv: []string{"sleep", "1000"}, Input: p, Output: io.Discard, Errors: io.Discard})
		done <- err
	}()
	live.Await(t, cluster.Patience, "the paste to fill the window", func() (bool, string) {
		n := p.taken.Load()
		return n >= apipb.SessionWindow, fmt.Sprint(n, " bytes")
	})
	for range 5 {
		quick()
	}
	if n := p.taken.Load(); n > most {
		t.Errorf("%d bytes were taken from the user, and the command reads nothing", n)
	}
	cancel()
	<-done

	const size = 64 << 20
	g := &gate{open: make(chan struct{}), reached: make(chan struct{})}
	go func() {
		_, err := s.far.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"head", "-c", fmt.Sprint(size), "/dev/zero"}, Output: g, Errors: io.Discard})
		done <- err
	}()
	<-g.reached
	for range 5 {
		quick()
	}
	close(g.open)
	if err := <-done; err != nil || g.got.Len() != size {
		t.Errorf("%d bytes came after the reader went on: %v", g.got.Len(), err)
	}
}

// TestAttachPaste pastes a gigabyte into a job that does not read its input. No more is taken from the user than may be on its way, others
// have sessions with the job, and the user can leave.
func TestAttachPaste(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	id := s.attachable("deaf", nil, false, "sleep", "1000")
	p := &paste{}
	p.left.Store(1 << 30)
	ctx, cancel := context.WithCancel(t.Context())
	u := s.attach(ctx, s.far, id, func(o *client.AttachOptions) { o.Input = p })
	u.isAttached()
	live.Await(t, cluster.Patience, "the paste to fill the window", func() (bool, string) {
		n := p.taken.Load()
		return n >= apipb.SessionWindow, fmt.Sprint(n, " bytes")
	})
	for range 5 {
		if res, err := s.far.Exec(t.Context(), id, client.ExecOptions{Argv: []string{"true"}, Output: io.Discard, Errors: io.Discard}); err != nil || res.ExitCode != 0 {
			t.Errorf("another session: %v %v", res, err)
		}
	}
	if n := p.taken.Load(); n > 8*apipb.SessionWindow {
		t.Errorf("%d bytes were taken from the user, and the job reads nothing", n)
	}
	cancel()
	if err := u.leaves(); !errors.Is(err, context.Canceled) {
		t.Errorf("the user left with %v", err)
	}
	if _, err := s.near.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
}
