//go:build linux

package run

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const writerA, writerB = "aaaa", "bbbb"

// The method `attach` begins to write to a job.
func (w *world) attach(p *Proc, writer string) (*Input, int64) {
	w.Helper()
	in, written, err := p.Attach(w.ctx, writer, false)
	if err != nil {
		w.Fatal(err)
	}
	return in, written
}

// The method `give` writes all of a text from a position on, and waits for the job to read.
func (w *world) give(in *Input, at int64, text string) int64 {
	w.Helper()
	end := at + int64(len(text))
	w.eventually("the job has the input", func() bool {
		written, err := in.Write(w.ctx, at, []byte(text))
		if err != nil {
			w.Fatal(err)
		}
		n := min(max(written-at, 0), int64(len(text)))
		at, text = at+n, text[n:]
		return at == end
	})
	return at
}

// The method `logs` waits until a job has printed a text.
func (w *world) logs(k Key, text string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%q is printed", text), func() bool { return strings.Contains(w.log(k), text) })
}

// TestInput writes to a job with a pipe. Requests that are repeated, that overlap, and that leave something out, change nothing.
func TestInput(t *testing.T) {
	for name, as := range jobKinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := as(w, sh("trap 'exit 3' USR1; cat; cat /dev/stdin; echo end; while :; do sleep 0.05; done"))
			spec.Stdin = true
			p := w.start(spec)
			in, written := w.attach(p, writerA)
			if written != 0 {
				t.Errorf("%d bytes were written before", written)
			}
			for _, c := range []struct {
				at   int64
				text string
				want int64
				err  error
			}{
				{0, "one ", 4, nil}, {0, "one ", 4, nil}, {2, "e two", 7, nil}, {4, "two", 7, nil}, {8, "late", 0, errInputGap}, {7, "", 7, nil},
			} {
				if got, err := in.Write(w.ctx, c.at, []byte(c.text)); got != c.want || !errors.Is(err, c.err) {
					t.Errorf("%q at %d: %d %v, want %d %v", c.text, c.at, got, err, c.want, c.err)
				}
			}
			// Another agent continues where this one was.
			w2 := w.again()
			found, err := w2.Find(w.ctx)
			if err != nil || len(found) != 1 || found[0].Proc == nil {
				t.Fatalf("%+v %v", found, err)
			}
			again, written, err := found[0].Proc.Attach(w.ctx, writerA, true)
			if err != nil || written != 7 {
				t.Fatalf("%d %v", written, err)
			}
			if got, err := again.Write(w.ctx, 4, []byte("two three\n")); got != 14 || err != nil {
				t.Errorf("%d %v", got, err)
			}
			if err = again.End(w.ctx, 13); !errors.Is(err, errInputGap) {
				t.Errorf("an end at another position: %v", err)
			}
			for range 2 {
				if err = again.End(w.ctx, 14); err != nil {
					t.Error(err)
				}
			}
			if got, err := again.Write(w.ctx, 4, []byte("two three\n")); got != 14 || err != nil {
				t.Errorf("repeated after the end: %d %v", got, err)
			}
			if _, err := again.Write(w.ctx, 14, []byte("more")); !errors.Is(err, ErrInputClosed) {
				t.Errorf("more after the end: %v", err)
			}
			w.logs(spec.Key, "end\n")
			if err := signalJob(p); err != nil {
				t.Fatal(err)
			}
			w.want(p, Exited, 3)
			if got := w.log(spec.Key); got != "one two three\nend\n" {
				t.Errorf("the job has got %q", got)
			}
			if _, _, err := p.Attach(w.ctx, writerB, false); !errors.Is(err, ErrEnded) {
				t.Errorf("attached to a job that has ended: %v", err)
			}
		})
	}
}

// TestInputOfOne lets two users attach. Only the last one writes.
func TestInputOfOne(t *testing.T) {
	w := newWorld(t)
	spec := sh("cat; sleep 1000")
	spec.Stdin = true
	p := w.start(spec)
	a, _ := w.attach(p, writerA)
	w.give(a, 0, "first ")
	b, written := w.attach(p, writerB)
	if written != 6 {
		t.Errorf("the second user begins at %d", written)
	}
	for name, err := range map[string]error{
		"write":  ignore(a.Write(w.ctx, 6, []byte("lost"))),
		"resize": a.Resize(w.ctx, screen),
		"end":    a.End(w.ctx, 6),
	} {
		if !errors.Is(err, ErrInputTaken) {
			t.Errorf("%s by the first user: %v", name, err)
		}
	}
	if _, _, err := p.Attach(w.ctx, writerA, true); !errors.Is(err, ErrInputTaken) {
		t.Errorf("the first user continues: %v", err)
	}
	w.give(b, 6, "second\n")
	w.logs(spec.Key, "first second\n")
	if err := b.End(w.ctx, 13); err != nil {
		t.Error(err)
	}
	if _, _, err := p.Attach(w.ctx, writerA, false); !errors.Is(err, ErrInputClosed) {
		t.Errorf("attached after the end of the input: %v", err)
	}
}

func ignore(_ int64, err error) error { return err }

// TestInputTerminal gives a job a terminal of its own, with sizes and keys.
func TestInputTerminal(t *testing.T) {
	for name, as := range jobKinds {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			spec := as(w, sh(`trap 'stty size' WINCH; trap 'echo interrupted; exit 5' INT; stty size
				test -t 0 && test -t 1 && test -t 2 && : >/dev/tty && echo ready; read line; echo "got $line"; while :; do sleep 0.05; done`))
			spec.Terminal = true
			p := w.start(spec)
			w.logs(spec.Key, "24 80\r\nready\r\n")
			in, _ := w.attach(p, writerA)
			at := w.give(in, 0, "typed\r")
			w.logs(spec.Key, "typed\r\ngot typed\r\n")
			for _, size := range []TerminalSize{{}, {Columns: 80}, {Rows: 24}, {Columns: seat.MaxTerminal + 1, Rows: 1}} {
				if err := in.Resize(w.ctx, size); err == nil {
					t.Errorf("the size %+v was taken", size)
				}
			}
			if err := in.Resize(w.ctx, TerminalSize{Columns: 61, Rows: 13}); err != nil {
				t.Fatal(err)
			}
			w.logs(spec.Key, "13 61\r\n")
			w.give(in, at, "\x03")
			w.want(p, Exited, 5)
			if got := w.log(spec.Key); !strings.HasSuffix(got, "interrupted\r\n") {
				t.Errorf("the job has printed %q", got)
			}
		})
	}
}

// TestInputOfDeafJob writes more than a pipe holds to a job that does not read for now. Nothing waits for it: neither the agent nor the
// supervisor. Later the job gets every byte once.
func TestInputOfDeafJob(t *testing.T) {
	w := newWorld(t)
	spec := sh("trap 'cat; exit 4' USR1; echo up; while :; do sleep 0.05; done")
	spec.Stdin = true
	p := w.start(spec)
	w.untilUp(spec.Key)
	in, _ := w.attach(p, writerA)
	var text bytes.Buffer
	for n := range 20_000 {
		fmt.Fprintf(&text, "line %d\n", n)
	}
	at := int64(0)
	for full := 0; full < 3; {
		written, err := in.Write(w.ctx, at, text.Bytes()[at:])
		if err != nil {
			t.Fatal(err)
		}
		if written == at {
			full++
		}
		at = written
	}
	if err := p.Renewed(w.ctx, Now()); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		w.give(in, at, string(text.Bytes()[at:]))
		if err := in.End(w.ctx, int64(text.Len())); err != nil {
			t.Error(err)
		}
	})
	if err := signalJob(p); err != nil {
		t.Fatal(err)
	}
	w.want(p, Exited, 4)
	if got := w.log(spec.Key); got != "up\n"+text.String() {
		t.Errorf("the job has got %d bytes, not the %d that were sent", len(got), text.Len())
	}
}

// TestInputClosedByJob writes to a job that has closed its standard input.
func TestInputClosedByJob(t *testing.T) {
	w := newWorld(t)
	spec := sh("trap 'exit 6' USR1; exec <&-; while :; do sleep 0.05; done")
	spec.Stdin = true
	p := w.start(spec)
	in, at := w.attach(p, writerA)
	w.eventually("the input is closed", func() bool {
		written, err := in.Write(w.ctx, at, []byte("x"))
		at = max(at, written)
		return errors.Is(err, ErrInputClosed)
	})
	if err := p.Renewed(w.ctx, Now()); err != nil {
		t.Errorf("a renewal: %v", err)
	}
	if err := signalJob(p); err != nil {
		t.Fatal(err)
	}
	w.want(p, Exited, 6)
}

// TestTerminalOpenedAgain checks that input and output go on when no process of the job had its terminal open for a while.
func TestTerminalOpenedAgain(t *testing.T) {
	w := newWorld(t)
	spec := sh("echo up; exec 3>/dev/null <&- >&- 2>&-; sleep 0.2; exec </dev/tty >/dev/tty 2>&1; echo again; read line; echo got $line; exit 3")
	spec.Terminal = true
	p := w.start(spec)
	w.logs(spec.Key, "again\r\n")
	in, _ := w.attach(p, writerA)
	w.give(in, 0, "typed\r")
	w.want(p, Exited, 3)
	if got := w.log(spec.Key); got != "up\r\nagain\r\ntyped\r\ngot typed\r\n" {
		t.Errorf("the job has printed %q", got)
	}
}

// TestNoInput attaches to a job whose standard input is empty.
func TestNoInput(t *testing.T) {
	w := newWorld(t)
	p := w.start(sh("cat; sleep 1000"))
	if _, _, err := p.Attach(w.ctx, writerA, false); !errors.Is(err, ErrNoInput) {
		t.Errorf("got %v", err)
	}
	if _, err := p.ask(w.ctx, "input steal a\n"); err == nil || !strings.Contains(err.Error(), "unknown request") {
		t.Errorf("got %v", err)
	}
}

// signalJob sends SIGUSR1 to the first process of a job.
func signalJob(p *Proc) error { return syscall.Kill(p.Pid(), syscall.SIGUSR1) }
