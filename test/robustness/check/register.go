package check

import (
	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// register is what is known of a job after some calls. It is a value: porcupine
// compares it.
type register struct {
	exists   bool
	body     string     // it was accepted with
	cancel   bool       // a stop by cancel is in the store: only its end may follow
	final    ares.Phase // "" while it is not known to have ended
	archived bool
	gets     int  // answered so far
	seen     bool // by a get, and then:
	revision int64
	phase    ares.Phase
	attempt  int
	stop     string
}

const (
	// anyBody is a body that the record does not know.
	anyBody = "?"
	// endedOtherwise is a final phase of which it is only known that it is not
	// cancelled.
	endedOtherwise ares.Phase = "ended"
	// cancelling is how a cancel of a job with live processes is answered.
	cancelling ares.Phase = "cancelling"
)

// telling says whether a refusal says something of the job.
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

// after is the register after a call, or false when the call cannot have been
// answered so.
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

// submit: a job is accepted once, and again only as a duplicate of the same
// body; another body is a conflict.
func (r register) submit(c *trace.Call) (bool, register) {
	made := r
	made.exists, made.body = true, c.Body
	switch {
	case c.Outcome == trace.Unknown && r.exists:
		return true, r
	case c.Outcome == trace.Unknown:
		return true, made
	case c.Outcome == trace.Refused: // another body
		return r.exists && (r.body != c.Body || r.body == anyBody), r
	case c.Duplicate:
		return r.exists && (r.body == c.Body || r.body == anyBody), made
	default:
		return !r.exists, made
	}
}

// stopped: a cancel that is acknowledged is in the store at that moment. The
// job is cancelled, or its attempt is asked to stop; and whatever ends that
// attempt then makes the job cancelled, even success and the loss of its node.
func (r register) stopped(c *trace.Call) (bool, register) {
	asked := r
	asked.cancel = true
	switch {
	case c.Outcome == trace.Unknown:
		if !r.exists || r.final != "" {
			return true, r
		}
		return true, asked
	case c.Outcome == trace.Refused: // it had ended, and not by a cancel
		if r.final == "" {
			r.final = endedOtherwise
			return r.exists && !r.cancel, r
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

// got: a get sees no less than was seen before, the same at the same revision,
// and what follows a cancel or an end is what may follow it.
func (r register) got(c *trace.Call) (bool, register) {
	r.gets++
	now := r
	now.seen, now.revision, now.phase, now.attempt, now.stop = true, c.Revision, c.Phase, c.Attempt, c.Stop
	if c.Revision == 0 { // archived: only how it ended is answered
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
	grown := c.Revision == 0 || !r.archived && c.Revision >= r.revision && c.Attempt >= r.attempt
	return r.exists && same && grown && r.mayBe(c), now
}

// mayBe says whether the phase may follow what is known.
func (r register) mayBe(c *trace.Call) bool {
	switch {
	case r.final == endedOtherwise:
		return c.Phase.Final() && c.Phase != ares.Cancelled
	case r.final != "":
		return c.Phase == r.final
	case r.cancel:
		return c.Phase == ares.Cancelled || c.Phase.Active() && c.Stop == string(ares.StopCancel)
	default:
		return true
	}
}
