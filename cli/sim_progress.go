package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/sim"
)

// progressBar shows how far simulations are, on standard error: in place on a
// terminal, else a line now and then.
type progressBar struct {
	app   *app
	ctx   context.Context // asked between two moments of a simulation
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
	// looksApart is how many moments pass between two looks at the clock.
	looksApart = 64
	barWidth   = 12
	lineWidth  = 79 // a longer line would not be drawn over on a narrow terminal
)

func (a *app) newProgress(ctx context.Context, runs int) *progressBar {
	return &progressBar{app: a, ctx: ctx, live: isTerminal(a.err), runs: runs}
}

// begin starts a run; what it returns hears of every moment.
func (b *progressBar) begin(policy string, seed uint64, until time.Duration) func(sim.Progress) bool {
	b.run++
	b.what = fmt.Sprintf("%s seed %d", policy, seed)
	if b.runs > 1 {
		b.what = fmt.Sprintf("%d/%d %s", b.run, b.runs, b.what)
	}
	b.began, b.until, b.ticks = b.app.now(), until, 0
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
	if now := b.app.now(); now.Sub(b.last) >= every {
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
		left = span(time.Duration(float64(took) * (1 - done) / done))
	}
	text := fmt.Sprintf("%3.0f %%  simulated %s  %d waiting  %.0f events/s  %s left  %s",
		100*done, span(p.Now), p.Waiting, float64(p.Done)/took.Seconds(), left, b.what)
	if !b.live {
		say(b.app.err, "%s\n", text)
		return
	}
	b.shown = true
	full := int(done * barWidth)
	say(b.app.err, "\r\x1b[K%s%s", strings.Repeat("█", full), shorten(strings.Repeat("░", barWidth-full)+text, lineWidth-full))
}

// end takes the bar away.
func (b *progressBar) end() {
	if b.shown {
		say(b.app.err, "\r\x1b[K")
		b.shown = false
	}
}
