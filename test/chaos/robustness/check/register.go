package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A `register` is the known state of a job after some calls. The type is
// comparable, because porcupine compares states.
type register struct {
	exists   bool
	hub      bool       // the store is that of a hub: the job's owner may end the job before it hears of a cancel
	forgets  bool       // the owner was restored and has forgotten an attempt
	body     string     // the body with which it was accepted
	cancel   bool       // a cancel is in the store: the job can only end as cancelled
	final    ares.Phase // "" while it is not known to have ended
	archived bool
	gets     int  // number of gets answered so far
	seen     bool // whether a get was answered; the following fields are valid only then
	revision int64
	phase    ares.Phase
	attempt  int
	stop     string
}

const (
	// anyBody stands for a request body that the record does not contain.
	anyBody = "?"
	// endedOtherwise stands for an unknown final phase other than cancelled.
	endedOtherwise ares.Phase = "ended"
	// The constant `cancelling` is a phase in the answer to a cancel call. It
	// means that the job still has live processes.
	cancelling ares.Phase = "cancelling"
)

// This function reports whether the rejection of a call reveals something about
// the job.
func telling(c *trace.Call) bool {
	switch ares.Code(c.Code) {
	case ares.NotFound:
		return c.Op != trace.Submit
	case ares.Conflict:
		return c.Op != trace.Get
	default:
		return false
	}
}

// This method returns the state of the register after a call. It returns false
// if the call's answer is impossible in the current state.
func (r register) after(a asked) (bool, register) {
	c := a.Call
	switch {
	case a.place >= 0 && a.place != r.gets:
		return false, r // not its turn
	case c.Outcome == trace.Refused && c.Code == string(ares.NotFound):
		return !r.exists, r
	case c.Op == trace.Submit:
		return r.submit(c)
	case c.Op == trace.Cancel:
		return r.stopped(c)
	default:
		return r.got(c)
	}
}

// This method models how a submission changes the register. A job is accepted
// once. Later submissions of the same job are accepted only as duplicates with
// the same body. A submission with a different body is a conflict.
func (r register) submit(c *trace.Call) (bool, register) {
	made := r
	made.exists, made.body = true, c.Body
	switch {
	case c.Outcome == trace.Unknown && r.exists:
		return true, r
	case c.Outcome == trace.Unknown:
		return true, made
	case c.Outcome == trace.Refused: // a different body
		return r.exists && (r.body != c.Body || r.body == anyBody), r
	case c.Duplicate:
		return r.exists && (r.body == c.Body || r.body == anyBody), made
	default:
		return !r.exists, made
	}
}

// This method models how a cancel request changes the register. When a cancel
// request is acknowledged, it is already in the store. Either the job is
// cancelled, or its running attempt is asked to stop. The job then becomes
// cancelled, whatever the outcome of that attempt is. This is true even if the
// attempt succeeds or its node is lost.
func (r register) stopped(c *trace.Call) (bool, register) {
	asked := r
	asked.cancel = true
	switch {
	case c.Outcome == trace.Unknown:
		if !r.exists || r.final != "" {
			return true, r
		}
		return true, asked
	case c.Outcome == trace.Refused: // it had already ended, and not by a cancel
		if r.final == "" {
			r.final = endedOtherwise
			return r.exists && (!r.cancel || r.hub), r
		}
		return r.exists && r.final != ares.Cancelled, r
	case c.Phase == cancelling:
		return r.exists && r.final == "", asked
	case c.Phase == ares.Cancelled:
		asked.final = ares.Cancelled
		return r.exists && (r.final == "" || r.final == ares.Cancelled), asked
	default:
		return false, r
	}
}

// This method models the possible answers to a get call. A get call never
// returns an older state than an earlier get call. At the same revision, it
// returns the same state. At a hub whose cluster was restored, the job may have fewer attempts than before. After the job was cancelled or has ended, the phase
// in the answer to a get call must be able to follow the known state.
func (r register) got(c *trace.Call) (bool, register) {
	r.gets++
	now := r
	now.seen, now.revision, now.phase, now.attempt, now.stop = true, c.Revision, c.Phase, c.Attempt, c.Stop
	if c.Revision == 0 { // archived: the answer says only how it ended
		now = r
		now.archived = true
		if !c.Phase.Final() {
			return false, r
		}
	}
	if c.Phase.Final() {
		now.final = c.Phase
	}
	now.cancel = r.cancel || c.Stop == string(ares.StopCancel)
	same := !r.seen || c.Revision != r.revision || r.phase == c.Phase && r.attempt == c.Attempt && r.stop == c.Stop
	grown := c.Revision == 0 || !r.archived && c.Revision >= r.revision && (c.Attempt >= r.attempt || r.forgets)
	return r.exists && same && grown && r.mayBe(c), now
}

// mayBe reports whether the phase can follow the known state.
func (r register) mayBe(c *trace.Call) bool {
	switch {
	case r.final == endedOtherwise:
		return c.Phase.Final() && c.Phase != ares.Cancelled
	case r.final != "":
		return c.Phase == r.final
	case r.cancel && r.hub:
		return c.Phase.Final() || c.Stop == string(ares.StopCancel)
	case r.cancel:
		return c.Phase == ares.Cancelled || c.Phase.Active() && c.Stop == string(ares.StopCancel)
	default:
		return true
	}
}
