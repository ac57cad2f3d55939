package federation

import (
	"context"
	"sync"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/federation/boottime"
	"github.com/ares-scheduler/ares/federation/grant"
)

// A beat sends the heartbeats of one session and notes their answers, beside the session's other work: ten thousand jobs that are
// accepted within a minute must not make this cluster silent.
type beat struct {
	u   *Uplink
	out *messageQueue[*apipb.MemberMessage]

	mu       sync.Mutex
	isOpen   bool                    // the hub has welcomed this cluster
	sent     map[int64]boottime.Time // heartbeats without an answer
	sequence int64
	last     boottime.Time // the last sign of life: any message before the session is open, and an answer after that
	answer   boottime.Time // when the last heartbeat was sent whose answer the session has not looked at; or zero
}

func newBeat(u *Uplink, out *messageQueue[*apipb.MemberMessage]) *beat {
	return &beat{u: u, out: out, sent: map[int64]boottime.Time{}, last: u.Boot()}
}

// The method `run` sends a heartbeat at each interval, until ctx ends or the hub is silent.
func (b *beat) run(ctx context.Context) error {
	tick := time.NewTicker(b.u.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
		b.mu.Lock()
		silent := b.u.Boot().Sub(b.last) >= grant.Missed*b.u.Heartbeat
		b.mu.Unlock()
		if silent {
			return errSilent
		}
		b.send()
	}
}

func (b *beat) send() {
	b.mu.Lock()
	b.sequence++
	sequence := b.sequence
	b.sent[sequence] = b.u.Boot()
	b.mu.Unlock()
	b.out.putFirst(&apipb.MemberMessage{Body: &apipb.MemberMessage_Heartbeat{Heartbeat: &apipb.MemberHeartbeat{
		Sequence: sequence, Revision: b.u.view.Revision(),
	}}})
}

// The method `open` notes that the session is open.
func (b *beat) open() {
	b.mu.Lock()
	b.isOpen = true
	b.mu.Unlock()
}

// The method `heard` notes a message that is no answer to a heartbeat.
func (b *beat) heard() {
	b.mu.Lock()
	if !b.isOpen {
		b.last = b.u.Boot()
	}
	b.mu.Unlock()
}

// The method `answered` notes the answer to a heartbeat. Before the session is open, it says nothing of this cluster's jobs.
func (b *beat) answered(sequence int64) {
	now := b.u.Boot()
	b.mu.Lock()
	b.last = now
	at, ok := b.sent[sequence]
	delete(b.sent, sequence)
	counts := ok && b.isOpen
	if counts {
		b.answer = max(b.answer, at)
	}
	b.mu.Unlock()
	if counts {
		b.u.acknowledged(at, now)
	}
}

// The method `takeAnswer` returns when the last heartbeat was sent that was answered since the last call, or zero.
func (b *beat) takeAnswer() boottime.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.answer
	b.answer = 0
	return at
}
