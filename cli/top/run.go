package top

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
)

// Options are what Run needs.
type Options struct {
	// In and Out are the terminal.
	In, Out *os.File
	// Err receives the text of a panic, after the terminal is restored.
	Err   io.Writer
	Fetch Fetch
	// Interval is the time between an answer and the next request.
	Interval time.Duration
	View     View
	Now      func() time.Time
}

// framesPerSecond limits how often the terminal is redrawn. The library compares the screen this often even if nothing
// has changed, so that a larger number costs processor time.
const framesPerSecond = 15

// Run shows the screen until the user quits or ctx ends. When Run returns, the terminal is as it was before, also after
// a panic, and no goroutine of Run reads from the server.
func Run(ctx context.Context, o Options) error {
	first := o.ask(ctx, 0, o.View)
	if first.err != nil && isFatal(first.err) {
		return first.err
	}
	r := &runner{Options: o}
	r.ctx, r.stop = context.WithCancel(ctx)
	defer r.close()
	start := screen{r, newModel(o.View, o.Interval, canSuspend(), first)}
	r.program = tea.NewProgram(start, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out),
		tea.WithoutSignalHandler(), tea.WithFPS(framesPerSecond))
	_, err := r.program.Run()
	if crash := r.crash; crash != nil {
		_, _ = fmt.Fprintf(o.Err, "panic: %v\n\n%s", crash.value, crash.stack) // nothing is left to do if this fails
		return fmt.Errorf("ares top failed: %v: please report this as a bug, with the text above", crash.value)
	}
	if ctx.Err() != nil {
		return nil // a signal ended the program, as it ends --watch
	}
	return err
}

// The type `runner` does what the model wants.
type runner struct {
	Options
	ctx     context.Context
	stop    func()
	program *tea.Program
	cancel  func() // ends the last request
	crash   *crash // set only by the goroutine that updates and draws

	mu       sync.Mutex
	closed   bool           // no request may begin any more
	requests sync.WaitGroup // the requests that run
}

// The method `begin` reports whether a request may begin. The library may start a command after the program has ended,
// or never.
func (r *runner) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.requests.Add(1)
	}
	return !r.closed
}

// The method `close` ends all requests and waits for them.
func (r *runner) close() {
	r.stop()
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.requests.Wait()
}

// The type `crash` is a panic.
type crash struct {
	value any
	stack []byte
}

// The function `caught` turns a recovered panic into a crash. It must be called by the deferred function itself, while the
// stack of the panic still exists.
func caught(value any) *crash { return &crash{value, debug.Stack()} }

// The method `ask` sends one request.
func (o *Options) ask(ctx context.Context, sequence int, v View) answer {
	s, err := o.Fetch(ctx, v)
	return answer{sequence: sequence, view: v, snapshot: s, err: err, at: o.Now()}
}

// The type `screen` is the model as the library wants it.
type screen struct {
	*runner
	Model
}

// Init implements tea.Model. The first answer is known already.
func (s screen) Init() tea.Cmd { return s.after(s.sequence) }

// Update implements tea.Model.
func (s screen) Update(message tea.Msg) (next tea.Model, do tea.Cmd) {
	defer func() {
		if value := recover(); value != nil {
			s.crash = caught(value)
			next, do = s, tea.Quit
		}
	}()
	switch message := message.(type) {
	case *crash:
		s.crash = message
		return s, tea.Quit
	case tea.WindowSizeMsg:
		return s.apply(size{message.Width, message.Height})
	case tea.KeyPressMsg:
		return s.apply(key(message.String()))
	case tea.ResumeMsg:
		return s.apply(resumed{})
	case answer, due:
		return s.apply(message)
	default:
		return s, nil
	}
}

// View implements tea.Model.
func (s screen) View() (v tea.View) {
	defer func() {
		if value := recover(); value != nil {
			s.crash = caught(value)
			go s.program.Quit() // the library waits for this goroutine's message, and View must not block
		}
	}()
	v.AltScreen = true
	v.SetContent(strings.Join(s.Lines(), "\n"))
	return v
}

// The method `apply` updates the model and starts what it wants.
func (s screen) apply(message any) (tea.Model, tea.Cmd) {
	var do action
	s.Model, do = s.update(message)
	switch do {
	case request:
		return s, s.request(s.sequence, s.view)
	case rest:
		return s, s.after(s.sequence)
	case suspend:
		return s, tea.Suspend
	case quit:
		return s, tea.Quit
	default:
		return s, nil
	}
}

func (s screen) after(sequence int) tea.Cmd {
	return tea.Tick(s.interval, func(time.Time) tea.Msg { return due{sequence} })
}

// The method `request` returns a command that asks the server. A request that is still open ends first, because its
// answer is not needed any more.
func (r *runner) request(sequence int, v View) tea.Cmd {
	if r.cancel != nil {
		r.cancel()
	}
	ctx, cancel := context.WithCancel(r.ctx)
	r.cancel = cancel
	return func() (message tea.Msg) {
		defer cancel()
		if !r.begin() {
			return nil
		}
		defer r.requests.Done()
		defer func() {
			if value := recover(); value != nil {
				message = caught(value)
			}
		}()
		return r.ask(ctx, sequence, v)
	}
}
