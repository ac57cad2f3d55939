package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/sim"
)

// progressBar shows the progress of simulations on standard error. On a terminal, progressBar
// redraws a bar. If standard error is not a terminal, progressBar prints a line every few seconds.
type progressBar struct {
	app   *commands
	ctx   context.Context // its cancellation stops the simulation
	live  bool
	runs  int
	run   int
	ticks int
	shown bool

	what  string
	until time.Duration
	began time.Time
	last  time.Time
}

const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 5 * time.Second
	// looksApart is the number of simulation steps between two checks of the clock.
	looksApart = 64
	barWidth   = 12
	lineWidth  = 79 // a longer line would wrap on a narrow terminal, where it cannot be redrawn
)

func (a *commands) newProgress(ctx context.Context, runs int) *progressBar {
	return &progressBar{app: a, ctx: ctx, live: output.IsTerminal(a.Err), runs: runs}
}

// The method `begin` starts the progress bar of one simulation run. At every step, the
// simulation calls the function that the method `begin` returns.
func (b *progressBar) begin(policy string, seed uint64, until time.Duration) func(sim.Progress) bool {
	b.run++
	b.what = fmt.Sprintf("%s seed %d", policy, seed)
	if b.runs > 1 {
		b.what = fmt.Sprintf("%d/%d %s", b.run, b.runs, b.what)
	}
	b.began, b.until, b.ticks = b.app.Now(), until, 0
	b.last = b.began
	return b.tick
}

func (b *progressBar) tick(p sim.Progress) bool {
	if b.ticks++; b.ticks%looksApart != 0 {
		return true
	}
	every := lineEvery
	if b.live {
		every = barEvery
	}
	if now := b.app.Now(); now.Sub(b.last) >= every {
		b.last = now
		b.draw(p, now.Sub(b.began))
	}
	return b.ctx.Err() == nil
}

func (b *progressBar) draw(p sim.Progress, took time.Duration) {
	done := float64(p.Done) / float64(max(p.Total, 1))
	if b.until > 0 {
		done = max(done, p.Now.Seconds()/b.until.Seconds())
	}
	done = min(done, 1)
	left := "?"
	if done > 0 {
		left = output.Duration(time.Duration(float64(took) * (1 - done) / done))
	}
	text := fmt.Sprintf("%3.0f %%  simulated %s  %d waiting  %.0f events/s  %s left  %s",
		100*done, output.Duration(p.Now), p.Waiting, float64(p.Done)/took.Seconds(), left, b.what)
	if !b.live {
		output.Printf(b.app.Err, "%s\n", text)
		return
	}
	b.shown = true
	full := int(done * barWidth)
	output.Printf(b.app.Err, "\r\x1b[K%s%s", strings.Repeat("█", full), output.Shorten(strings.Repeat("░", barWidth-full)+text, lineWidth-full))
}

// The method `end` removes the progress bar.
func (b *progressBar) end() {
	if b.shown {
		output.Printf(b.app.Err, "\r\x1b[K")
		b.shown = false
	}
}
