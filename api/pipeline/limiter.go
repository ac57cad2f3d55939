package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Limiter limits how many calls of one class, such as reads or writes, run at
// the same time. A call that finds no free slot waits briefly in a queue, which
// has a limited length. A call is rejected with a hint to retry later if the
// queue is full or the call has waited too long. Limiters also limit open
// streams and large request bodies. If the calls of a class must not wait, the
// queue of their limiter has length 0.
//
// One caller gets at most half of the slots. If the queue is full when a new caller arrives, the limiter
// rejects a call that is already in the queue. It chooses the caller with the most queued calls. Therefore no
// caller can block all other callers.
type Limiter struct {
	class string // label in metrics
	what  string // what holds a slot, for error messages
	Limit int    // slots
	Share int    // maximum number of slots for one caller
	Queue int    // length of the queue
	Wait  time.Duration
	Shed  func(class string) // may be nil

	mu      sync.Mutex
	open    int
	Held    map[string]int // slots in use, by caller
	line    []*waiter
	Waiting map[string]int // calls in the queue, by caller
	closed  bool
	gone    chan struct{} // closed when the last slot is returned after close
}

// The type `waiter` is a call in a limiter's queue. The waiter's channel receives nil if the call gets a
// slot, and an error if the call is rejected.
type waiter struct {
	who  string
	turn chan error
}

func NewLimiter(class, what string, limit, queue int, wait time.Duration) *Limiter {
	return &Limiter{
		class: class, what: what, Limit: limit, Share: (limit + 1) / 2, Queue: queue, Wait: wait,
		Held: map[string]int{}, Waiting: map[string]int{}, gone: make(chan struct{}),
	}
}

// forAll lets every caller use all slots. It is for classes in which all callers share one name, as agents
// do.
func (g *Limiter) forAll() *Limiter {
	g.Share = g.Limit
	return g
}

// Enter takes a slot for a call. It returns a function that gives the slot back to the limiter. A nil limiter
// has no limit.
func (g *Limiter) Enter(ctx context.Context, who string) (leave func(), err error) {
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

// WouldReject returns an error if a call by the caller `who` would be rejected
// immediately. WouldReject is called before a request is read, and does not
// take a slot.
func (g *Limiter) WouldReject(who string) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(who) || len(g.line) < g.Queue || g.greediest(who) != who {
		return nil
	}
	return g.reject(who)
}

// The method `join` takes a slot or enters the queue. The returned waiter is nil if the call got a slot.
func (g *Limiter) join(who string) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, stopping()
	case g.admits(who):
		g.take(who)
		return nil, nil
	case len(g.line) >= g.Queue:
		most := g.greediest(who)
		if most == who {
			return nil, g.reject(who)
		}
		i := len(g.line) - 1
		for g.line[i].who != most {
			i--
		}
		g.line[i].turn <- g.reject(most)
		g.remove(i)
	}
	w := &waiter{who: who, turn: make(chan error, 1)}
	g.line = append(g.line, w)
	g.Waiting[who]++
	return w, nil
}

func (g *Limiter) admits(who string) bool { return g.open < g.Limit && g.Held[who] < g.Share }

func (g *Limiter) take(who string) {
	g.open++
	g.Held[who]++
}

// The method `greediest` returns the caller with the most calls in the queue. A new call of the caller `who`
// is about to enter the queue, so the method counts one more call for this caller.
func (g *Limiter) greediest(who string) string {
	most, n := who, g.Waiting[who]+1
	for other, k := range g.Waiting { // order-free: any caller with the maximum will do
		if k > n {
			most, n = other, k
		}
	}
	return most
}

// The method `remove` removes the i-th call from the queue.
func (g *Limiter) remove(i int) {
	who := g.line[i].who
	g.line = slices.Delete(g.line, i, i+1)
	if g.Waiting[who]--; g.Waiting[who] == 0 {
		delete(g.Waiting, who)
	}
}

// The method `await` waits in the queue for a limited time until a slot is free.
func (g *Limiter) await(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(g.Wait)
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
		return g.reject(w.who)
	}
	g.mu.Unlock()
	err := <-w.turn // the call got its slot at the same moment
	if err == nil && ctx.Err() != nil {
		g.leave(w.who)
		return ctx.Err()
	}
	return err
}

// The method `leave` frees a slot, and gives it to the first queued call whose caller has not used up its share
// of the slots.
func (g *Limiter) leave(who string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.Held[who]--; g.Held[who] == 0 {
		delete(g.Held, who)
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

// The method `reject` returns the error for a call that exceeds the limit. The caller of this method holds
// g.mu.
func (g *Limiter) reject(who string) error {
	if g.Shed != nil {
		g.Shed(g.class)
	}
	if held := g.Held[who]; held >= g.Share && held < g.Limit {
		return ares.Errorf(ares.Exhausted, "%s has reached this server's limit for one caller (%d %s): end some calls, or try again in a moment", who, held, g.what)
	}
	return ares.Errorf(ares.Exhausted, "this server has reached its limit (%d %s): try again in a moment", g.open, g.what)
}

// UnderWay returns how many calls have a slot, and how many calls wait for a
// slot.
func (g *Limiter) UnderWay() (open, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, len(g.line)
}

// Close rejects new calls and waits until all slots are returned or ctx ends.
func (g *Limiter) Close(ctx context.Context) {
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
	return ares.Errorf(ares.Unavailable, "the server is stopping: connect to another server, or try again later")
}
