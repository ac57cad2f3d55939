package agent

import (
	"math/rand/v2"
	"time"

	"github.com/ares-scheduler/ares/agent/run"
)

// An agent without a session tries to open one. If jobs run on its node, it must succeed before half of the shortest
// lost_after has passed since the last renewal, because the supervisors then end the jobs. With the default lost_after of
// 25 s, up to 2.5 s between two renewals and a store that is unreachable for 8 s, only 2 s are left for that.

// These are the limits of the time that a server may take to open a session. A server that is slow, but works, should
// not be asked again and again.
const (
	maxOpenTimeout = 5 * time.Second
	minOpenTimeout = time.Second
)

// openTimeout returns how long a server may take to open a session. If jobs run on this node, one attempt takes at most
// half of the time that is left to them. Several attempts are then possible, and the last of them begin late enough to
// find a store that was unreachable for a while.
func (a *Agent) openTimeout(now run.BootTime) time.Duration {
	left, busy := a.timeLeft(now)
	if !busy || left <= 0 { // the supervisors have already decided
		return maxOpenTimeout
	}
	return min(max(left/2, minOpenTimeout), maxOpenTimeout)
}

// retryDelay returns how long the agent waits before it tries to open a session again. The delay is random, because all
// agents of the cluster may be waiting for the same server. It is short while jobs on this node depend on the session.
func (a *Agent) retryDelay() time.Duration {
	if left, busy := a.timeLeft(run.Now()); busy && left > 0 {
		return time.Second/5 + rand.N(time.Second*3/10)
	}
	return time.Second/2 + rand.N(time.Second)
}

// timeLeft returns how much time is left until the first supervisor on this node decides to end its job. It returns
// false if no job runs here.
func (a *Agent) timeLeft(now run.BootTime) (left time.Duration, busy bool) {
	shortest := a.shortestLostAfter()
	if shortest == 0 {
		return 0, false
	}
	return shortest/2 - now.Sub(run.BootTime(a.renewed.Load())), true
}
