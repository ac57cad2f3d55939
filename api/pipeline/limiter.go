package pipeline

import (
	"context"
	"slices"
	"strings"
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
// One caller gets at most half of the slots, and so do all callers of one tenant together. A tenth of the slots
// and of the queue is kept for platform administrators. A free slot goes to the waiting call whose tenant has the
// fewest slots, because a few tenants with many calls could otherwise keep the calls of all others waiting until
// they are rejected. If the queue is full when a new caller arrives, the limiter rejects a call that is already in
// the queue. It chooses the tenant with the most queued calls, and of this tenant the caller with the most queued
// calls. Therefore no caller and no tenant can block all others.
type Limiter struct {
	class string // label in metrics
	what  string // what holds a slot, for error messages
	Limit int    // slots
	Share int    // maximum number of slots for one caller
	// TenantShare is the maximum number of slots for the callers of one tenant together. One of them gets at most
	// three quarters of these slots, so that it cannot block its colleagues.
	TenantShare int
	Kept        int // slots that only accounts without a tenant may use
	NodeShare   int // maximum number of slots for one node or cluster with a certificate; 0: Share
	// Long means that slots are held for an unlimited time, as streams do. A tenant then gets a slot only if more slots
	// are free than it has, so that a few tenants cannot hold all of them: n tenants that take what they can get leave one
	// part in n+1 of the slots to others.
	Long  bool
	Queue int // length of the queue
	Wait  time.Duration
	Shed  func(class string) // may be nil

	mu        sync.Mutex
	open      int
	tenants   int             // slots in use by callers of tenants. Invariant: 0 <= tenants <= open.
	Held      map[Account]int // slots in use, by caller
	HeldBy    map[string]int  // slots in use, by tenant
	line      []*waiter
	inLine    int             // calls of tenants in the queue. Invariant: 0 <= inLine <= len(line).
	Waiting   map[Account]int // calls in the queue, by caller
	WaitingOf map[string]int  // calls in the queue, by Account.group
	closed    bool
	gone      chan struct{} // closed when the last slot is returned after close
}

// The type `waiter` is a call in a limiter's queue. The waiter's channel receives nil if the call gets a
// slot, and an error if the call is rejected.
type waiter struct {
	who  Account
	turn chan error
}

// keptPart is the part of the slots and of the queue that is kept for platform administrators, who must be able to
// act while tenants use up everything else: one tenth.
const keptPart = 10

// NewLimiter returns a limiter with the given number of slots and length of the queue.
func NewLimiter(class, what string, limit, queue int, wait time.Duration) *Limiter {
	g := &Limiter{
		class: class, what: what, Limit: limit, Share: (limit + 1) / 2, TenantShare: (limit + 1) / 2, Queue: queue, Wait: wait,
		Held: map[Account]int{}, HeldBy: map[string]int{}, Waiting: map[Account]int{}, WaitingOf: map[string]int{}, gone: make(chan struct{}),
	}
	if limit > 1 { // the only slot is for everybody
		g.Kept = (limit + keptPart - 1) / keptPart
	}
	return g
}

// forAll lets every caller use all slots. It is for classes in which all callers share one name, as agents
// do.
//
// The agents that join with a certificate have names of their own. One of them gets at most `node` slots, so that a hostile
// node cannot use up the slots of the others.
func (g *Limiter) forAll(node int) *Limiter {
	g.Share, g.TenantShare, g.Kept, g.NodeShare = g.Limit, g.Limit, 0, node
	return g
}

// forStreams declares that slots are held for an unlimited time.
func (g *Limiter) forStreams() *Limiter {
	g.Long = true
	return g
}

// Enter takes a slot for a call. It returns a function that gives the slot back to the limiter. A nil limiter
// has no limit.
func (g *Limiter) Enter(ctx context.Context, who Account) (leave func(), err error) {
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
func (g *Limiter) WouldReject(who Account) error {
	if g == nil {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.admits(who) || g.hasRoom(who) || g.greediest(who) != who {
		return nil
	}
	return g.reject(who)
}

// The method `join` takes a slot or enters the queue. The returned waiter is nil if the call got a slot.
func (g *Limiter) join(who Account) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return nil, stopping()
	case g.admits(who):
		g.take(who)
		return nil, nil
	case !g.hasRoom(who):
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
	g.WaitingOf[who.group()]++
	if who.Tenant != "" {
		g.inLine++
	}
	return w, nil
}

// The method `admits` reports whether a call of this account gets a slot now.
func (g *Limiter) admits(who Account) bool {
	switch {
	case g.open >= g.Limit:
		return false
	case who.Tenant == "":
		return g.Held[who] < g.shareOf(who)
	}
	return g.tenants < g.Limit-g.Kept && g.HeldBy[who.Tenant] < g.tenantShare() && g.Held[who] < g.memberShare()
}

// tenantShare is the maximum number of slots for the callers of one tenant together, at the moment.
func (g *Limiter) tenantShare() int {
	if free := g.Limit - g.Kept - g.tenants; g.Long && free < g.TenantShare {
		return free
	}
	return g.TenantShare
}

// shareOf is the maximum number of slots for one account.
func (g *Limiter) shareOf(who Account) int {
	switch {
	case who.Tenant != "":
		return g.memberShare()
	case g.NodeShare > 0 && (strings.HasPrefix(who.Name, nodePrefix) || strings.HasPrefix(who.Name, clusterPrefix)):
		return g.NodeShare
	}
	return g.Share
}

// memberShare is the maximum number of slots for one caller of a tenant.
func (g *Limiter) memberShare() int {
	if g.Kept == 0 { // the limiter has a single slot, or is without shares
		return g.Share
	}
	return max(1, min(g.Share, g.TenantShare*3/4))
}

// hasRoom reports whether the queue has room for a call of this account. The last tenth of the queue is kept for
// accounts without a tenant.
func (g *Limiter) hasRoom(who Account) bool {
	return len(g.line) < g.Queue && (who.Tenant == "" || g.inLine < g.Queue-g.Queue/keptPart)
}

func (g *Limiter) take(who Account) {
	g.open++
	g.Held[who]++
	if who.Tenant != "" {
		g.tenants++
		g.HeldBy[who.Tenant]++
	}
}

// The method `greediest` returns a caller with the most calls in the queue, of the group with the most calls in the
// queue. A new call of the caller `who` is about to enter the queue, so the method counts one more call for this
// caller. A call of a tenant never displaces a call of an administrator.
func (g *Limiter) greediest(who Account) Account {
	group, n := who.group(), g.WaitingOf[who.group()]+1
	for one := range g.Waiting { // order-free: any group with the maximum will do
		if k := g.WaitingOf[one.group()]; k > n && (one.Tenant != "" || who.Tenant == "") {
			group, n = one.group(), k
		}
	}
	most, n := who, g.Waiting[who]+1
	if group != who.group() {
		n = 0
	}
	for one, k := range g.Waiting { // order-free: any caller with the maximum will do
		if k > n && one.group() == group {
			most, n = one, k
		}
	}
	return most
}

// The method `remove` removes the i-th call from the queue.
func (g *Limiter) remove(i int) {
	who := g.line[i].who
	g.line = slices.Delete(g.line, i, i+1)
	drop(g.Waiting, who)
	drop(g.WaitingOf, who.group())
	if who.Tenant != "" {
		g.inLine--
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

// The method `leave` frees a slot, and gives it to the next queued call.
func (g *Limiter) leave(who Account) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	drop(g.Held, who)
	if who.Tenant != "" {
		g.tenants--
		drop(g.HeldBy, who.Tenant)
	}
	if i := g.next(); i >= 0 {
		w := g.line[i]
		g.remove(i)
		g.take(w.who)
		w.turn <- nil
	}
	if g.closed && g.open == 0 {
		close(g.gone)
	}
}

// The method `next` returns the index of the queued call that gets the next slot, or -1 if there is none. Of the calls whose
// callers have not used up their shares, it is one of the tenant that has the fewest slots, and of this tenant one of the
// caller that has the fewest. Of equal calls, it is the one that has waited longest.
func (g *Limiter) next() int {
	best := -1
	var least [2]int
	for i, w := range g.line {
		if i > 0 && w.who == g.line[i-1].who {
			continue // of equal callers in a row, only the first can be better
		}
		held := [2]int{g.HeldBy[w.who.Tenant], g.Held[w.who]} // accounts without a tenant hold nothing as a tenant
		if fewer := best < 0 || slices.Compare(held[:], least[:]) < 0; fewer && g.admits(w.who) {
			best, least = i, held
		}
		if best >= 0 && least == [2]int{} {
			break
		}
	}
	return best
}

// The function `drop` counts one less, and forgets a count of zero.
func drop[K comparable](counts map[K]int, of K) {
	if counts[of]--; counts[of] == 0 {
		delete(counts, of)
	}
}

// The method `reject` returns the error for a call that exceeds the limit. The caller of this method holds
// g.mu.
func (g *Limiter) reject(who Account) error {
	if g.Shed != nil {
		g.Shed(g.class)
	}
	share := g.shareOf(who)
	switch held, all := g.Held[who], g.HeldBy[who.Tenant]; {
	case held >= share && held < g.Limit:
		return ares.Errorf(ares.Exhausted, "%s has reached this server's limit for one caller (%d %s): end some calls, or try again in a moment", who.Name, held, g.what)
	case who.Tenant != "" && all < g.Limit && (all >= g.TenantShare || g.tenants < g.Limit-g.Kept && all >= g.tenantShare()):
		return ares.Errorf(ares.Exhausted, "the callers of your tenant have reached this server's limit for one tenant (%d %s): end some calls, or try again in a moment", all, g.what)
	case who.Tenant != "" && g.open < g.Limit:
		return ares.Errorf(ares.Exhausted, "this server has reached its limit for all tenants (%d %s): try again in a moment", g.tenants, g.what)
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
