package federation

import (
	"sync"

	"github.com/ares-scheduler/ares/store"
)

// A binder collects the claims that are to be bound while a transaction is under way, so that the next transaction has all of
// them. With many clusters, this costs a fraction of one transaction for each claim.
type binder struct {
	mu      sync.Mutex
	waiting []*binding
	busy    bool // a goroutine binds what waits
}

type binding struct {
	claim  store.Claim
	answer store.Bound
	done   chan struct{}
}

// The method `bind` binds a job to the cluster of a claim, together with the claims of other sessions. It returns when the store
// has answered, even if the session has ended: the next session of the cluster waits for that (see session.handling).
func (t *term) bind(c store.Claim) (store.Grant, error) {
	b := &binding{claim: c, done: make(chan struct{})}
	t.binder.mu.Lock()
	t.binder.waiting = append(t.binder.waiting, b)
	starts := !t.binder.busy
	t.binder.busy = true
	t.binder.mu.Unlock()
	if starts {
		go t.bindWaiting()
	}
	<-b.done
	return b.answer.Grant, b.answer.Err
}

// bindWaiting binds until no claim waits. A caller waits for each claim, so this goroutine ends with the sessions.
func (t *term) bindWaiting() {
	for {
		t.binder.mu.Lock()
		all := t.binder.waiting
		t.binder.waiting = nil
		t.binder.busy = len(all) > 0
		t.binder.mu.Unlock()
		if len(all) == 0 {
			return
		}
		claims := make([]store.Claim, len(all))
		for i, b := range all {
			claims[i] = b.claim
		}
		for i, answer := range t.Store.BindAll(t.ctx, claims) {
			all[i].answer = answer
			close(all[i].done)
		}
	}
}
