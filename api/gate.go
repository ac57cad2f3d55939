package api

import (
	"context"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// gate bounds how much of one class is under way. Who finds it full waits a
// moment, in a line that is bounded too; who finds that full, or has waited
// long enough, is turned away with the word to come back later. It is the one
// mechanism for calls, streams and large bodies: those that wait for nothing
// have no line.
//
// Nobody gets more than half of the places, and when the line is full the one
// with the most in it gives way to a newcomer, so one caller cannot keep the
// others out.
type gate struct {
	class string // for metrics
	what  string // in words: what has a place
	limit int    // places
	share int    // of them for one caller
	queue int    // length of the line
	wait  time.Duration
	shed  func(class string) // may be nil

	mu      sync.Mutex
	open    int
	held    map[string]int // places by caller
	line    []*waiter
	waiting map[string]int // in the line, by caller
	closed  bool
	gone    chan struct{} // closed with the last place after close
}

// waiter stands in the line. It hears once: nil for a place.
type waiter struct {
	who  string
	turn chan error
}

func newGate(class, what string, limit, queue int, wait time.Duration) *gate {
	return &gate{
		class: class, what: what, limit: limit, share: (limit + 1) / 2, queue: queue, wait: wait,
		held: map[string]int{}, waiting: map[string]int{}, gone: make(chan struct{}),
	}
}

// forAll gives every caller all places: for a class whose callers share one
// name, as all agents do.
func (g *gate) forAll() *gate {
	g.share = g.limit
	return g
}

// enter takes a place; leave gives it back. A nil gate is open.
func (g *gate) enter(ctx context.Context, who string) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	w, err := g.join(who)
	if err == nil && w != nil {
		err = g.await(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { g.leave(who) }), nil
}

// refuses says whether a call of who would be turned away at once. It is asked
// before anything is read for a call, and takes no place.
func (g *gate) refuses(who string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(who) || len(g.line) < g.queue || g.greediest(who) != who {
		return nil
	}
	return g.turnAway(who)
}

// join takes a place or stands in line. The waiter is nil with a place.
func (g *gate) join(who string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, stopping()
	case g.admits(who):
		g.take(who)
		return nil, nil
	case len(g.line) >= g.queue:
		most := g.greediest(who)
		if most == who {
			return nil, g.turnAway(who)
		}
		i := len(g.line) - 1
		for g.line[i].who != most {
			i--
		}
		g.line[i].turn <- g.turnAway(most)
		g.remove(i)
	}
	w := &waiter{who: who, turn: make(chan error, 1)}
	g.line = append(g.line, w)
	g.waiting[who]++
	return w, nil
}

func (g *gate) admits(who string) bool { return g.open < g.limit && g.held[who] < g.share }

func (g *gate) take(who string) {
	g.open++
	g.held[who]++
}

// greediest has the most in line, were who to join it.
func (g *gate) greediest(who string) string {
	most, n := who, g.waiting[who]+1
	for other, k := range g.waiting { // order-free: any of the greediest will do
		if k > n {
			most, n = other, k
		}
	}
	return most
}

// remove takes the i-th out of the line.
func (g *gate) remove(i int) {
	who := g.line[i].who
	g.line = slices.Delete(g.line, i, i+1)
	if g.waiting[who]--; g.waiting[who] == 0 {
		delete(g.waiting, who)
	}
}

// await stands in line until a place is free, for a while.
func (g *gate) await(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(g.wait)
	defer timer.Stop()
	select {
	case err := <-w.turn:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	g.mu.Lock()
	if i := slices.Index(g.line, w); i >= 0 {
		defer g.mu.Unlock()
		g.remove(i)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return g.turnAway(w.who)
	}
	g.mu.Unlock()
	err := <-w.turn // it came to its turn in the same moment
	if err == nil && ctx.Err() != nil {
		g.leave(w.who)
		return ctx.Err()
	}
	return err
}

// leave gives a place back, to the first in line that may have one.
func (g *gate) leave(who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.held[who]--; g.held[who] == 0 {
		delete(g.held, who)
	}
	if i := slices.IndexFunc(g.line, func(w *waiter) bool { return g.admits(w.who) }); i >= 0 {
		w := g.line[i]
		g.remove(i)
		g.take(w.who)
		w.turn <- nil
	}
	if g.closed && g.open == 0 {
		close(g.gone)
	}
}

// turnAway is the answer to one too many. The caller holds g.mu.
func (g *gate) turnAway(who string) error {
	if g.shed != nil {
		g.shed(g.class)
	}
	if held := g.held[who]; held >= g.share && held < g.limit {
		return ares.Errorf(ares.Exhausted, "%s has %d %s at this server, the most for one caller: end some, or try again in a moment", who, held, g.what)
	}
	return ares.Errorf(ares.Exhausted, "this server has %d %s, its limit: try again in a moment", g.open, g.what)
}

// underWay is how many have a place, and how many wait for one.
func (g *gate) underWay() (open, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, len(g.line)
}

// close lets nobody in any more and waits for those inside, or for ctx.
func (g *gate) close(ctx context.Context) {
	g.mu.Lock()
	if !g.closed && g.open == 0 {
		close(g.gone)
	}
	g.closed = true
	for len(g.line) > 0 {
		g.line[0].turn <- stopping()
		g.remove(0)
	}
	g.mu.Unlock()
	select {
	case <-g.gone:
	case <-ctx.Done():
	}
}

func stopping() error {
	return ares.Errorf(ares.Unavailable, "the server is stopping: connect again, to another server if there is one")
}
