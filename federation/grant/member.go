package grant

import "time"

// Member is what a member knows when a message of the hub arrives.
type Member struct {
	Incarnation string
	Hub         string // the incarnation of the hub that the member has written
}

// Bound is the hub's answer to a claim: the job is bound to the claiming incarnation.
type Bound struct {
	Epoch       int64
	Incarnation string
	Hub         string
}

// Accepts reports whether the member may create the job (F3, F6). The argument `floor` is the highest epoch of this job
// that the member holds, has given back or has ended.
func (m *Member) Accepts(b Bound, floor int64) bool {
	return b.Incarnation == m.Incarnation && b.Hub == m.Hub && b.Epoch > floor
}

// Mode says whether a member reaches its hub.
type Mode string

// These are the modes of a member.
const (
	Federated  Mode = "federated"
	Autonomous Mode = "autonomous" // the hub does not answer; owned and local work goes on
)

// Missed is the number of heartbeats without an answer after which the other side counts as unreachable.
const Missed = 3

// ModeAt returns the mode of a member whose last answered heartbeat was sent so long ago. Without an answered heartbeat,
// the age is that of the uplink itself.
func ModeAt(age, interval time.Duration) Mode {
	if age >= Missed*interval {
		return Autonomous
	}
	return Federated
}

// A job with on_partition: fence is given to another cluster when its owner was silent for cluster_lost_after (F11). The
// owner counts from the sending of the last heartbeat that was answered, and the hub from the last one that arrived, so the
// hub always counts later. The owner stops the job, and starts it no more, after startUntil of that time. A server that has
// just become the owner's leader does not know how old the last answer is: the server before it may have waited for almost
// startUntil. So it waits for only movedUntil more.
//
// The processes are dead when the stop has taken its grace period, or, on a node that the owner cannot reach either, when the
// node's lost_after has passed. stopShare is the part of the time that is left for that. With clocks that are 25 % wrong,
// 1.25 × (startUntil + movedUntil) + stopShare is 0.9 of the time; the rest is for the change of the leader.
const (
	startUntil = 0.35
	movedUntil = 0.10
	stopShare  = 1.0 / 3
)

// ClusterLostAfter returns the silence after which the hub takes a fenced job from its owner. It is the time that the job
// names, or more if stopping the job may take longer than its part of that time.
func ClusterLostAfter(named, stopping time.Duration) time.Duration {
	return max(named, time.Duration(float64(stopping)/stopShare))
}

// MayStart reports whether a fenced job may still start or run when the last answered heartbeat was sent so long ago.
func MayStart(age, lostAfter time.Duration) bool {
	return float64(age) < startUntil*float64(lostAfter)
}

// MayStartMoved is MayStart for an uplink that has begun so long ago and has no answer yet.
func MayStartMoved(age, lostAfter time.Duration) bool {
	return float64(age) < movedUntil*float64(lostAfter)
}

// IsLost reports whether the hub takes a fenced job from its owner, when it has not heard the owner for so long.
func IsLost(silence, lostAfter time.Duration) bool { return silence >= lostAfter }
