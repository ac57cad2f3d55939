package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// O5: the calls about one job are as if made one after the other, each at some
// moment between its start and its end. The scheduler's own steps are no calls,
// so the model is a register that only grows: what was seen once may be
// followed by more, never by less. See register.go for what each answer means.
//
// A call whose outcome is unknown may take effect at any moment from its start
// on, or never: it ends at infinity, and at the end of every order it changes
// nothing that anybody sees. Of several alike the first is enough: only one of
// them can be the one that made a difference, and whatever a later one could
// have done, the first could have too. So they never make the search large.
// (After a call that took effect the job is there, or asked to stop, for good.)
//
// Each epoch is judged for itself. It begins with what the store held at the
// backup's revision; a call that a restore falls into is unknown to both sides.

// decideWithin bounds the search for one job; each job it does not suffice for
// halves it, so that a bad record is judged in bounded time too.
const decideWithin = 2 * time.Second

func (j *judge) linearize(b *book) {
	calls := map[string][]*trace.Call{}
	for i := range j.run.Calls {
		if c := &j.run.Calls[i]; c.Job != "" && c.Op != trace.List {
			calls[c.Job] = append(calls[c.Job], c)
		}
	}
	for id, all := range calls {
		for epoch := range len(j.run.Meta.Restores) + 1 {
			ops := j.operations(all, epoch)
			if len(ops) == 0 {
				continue
			}
			j.Totals.Linearized++
			begin := origin(b, id, epoch)
			model := porcupine.Model{
				Init: func() any { return begin },
				Step: func(s, in, _ any) (bool, any) { return s.(register).after(in.(asked)) },
			}
			switch porcupine.CheckOperationsTimeout(model, inPlace(ops), j.within) {
			case porcupine.Ok:
			case porcupine.Illegal:
				at, text := j.blame(model, ops)
				j.wrong(Linearizable, id, at, "%s", text)
			case porcupine.Unknown:
				j.Totals.Undecided++
				j.wrong(Linearizable, id, all[0].Start, "whether its %d calls can be put in order was not decided within %s", len(ops), j.within)
				j.within = max(j.within/2, 10*time.Millisecond)
			}
		}
	}
}

// operations are the calls that say something about a job in an epoch.
func (j *judge) operations(calls []*trace.Call, epoch int) []porcupine.Operation {
	var out []porcupine.Operation
	doubtful := map[[2]string]int{} // index of the first of its kind
	for _, c := range calls {
		from, to := j.epochAt(c.Start), j.epochAt(c.End)
		if from > epoch || to < epoch && c.Outcome != trace.Unknown || j.fromHistory(c, epoch) {
			continue
		}
		op := porcupine.Operation{ClientId: c.Client, Input: asked{Call: c}, Call: int64(c.Start), Return: int64(c.End)}
		if from < epoch {
			op.Call = int64(j.run.Meta.Restores[epoch-1].At)
		}
		if from != to || c.Outcome == trace.Unknown {
			if c.Op == trace.Get || c.Outcome == trace.Refused {
				continue
			}
			if c.Outcome != trace.Unknown {
				doubt := *c
				doubt.Outcome = trace.Unknown
				op.Input = asked{Call: &doubt}
			}
			op.Return = math.MaxInt64
			key := [2]string{string(c.Op), c.Body}
			if i, known := doubtful[key]; known {
				if op.Call < out[i].Call {
					out[i] = op
				}
				continue
			}
			doubtful[key] = len(out)
		} else if c.Outcome == trace.Refused && !telling(c) {
			continue // not done, and nothing said of the job
		}
		out = append(out, op)
	}
	if len(out) == len(doubtful) {
		return nil // nothing was answered
	}
	return out
}

// fromHistory says whether a get was answered what history has of a job that a
// restore made the store forget: its end, at a revision that is no more. That says
// nothing of the store. That the job ended so is compareGet's to check.
func (j *judge) fromHistory(c *trace.Call, epoch int) bool {
	return c.Op == trace.Get && c.Outcome == trace.OK && c.Phase.Final() &&
		slices.ContainsFunc(j.run.Meta.Restores[:epoch], func(r trace.Restore) bool { return r.Backup < c.Revision && c.Revision <= r.Highest })
}

// asked is a call with its place among the gets, -1 for other calls.
type asked struct {
	*trace.Call
	place int
}

// inPlace gives each get its place. Revisions are in order, so whoever saw an
// older one saw it before; archived comes last; and of gets that saw the same,
// the one that ended first may as well have been first. Without this the search
// would try every subset of the gets that wait together at a server that hangs.
func inPlace(ops []porcupine.Operation) []porcupine.Operation {
	var gets []int
	for i := range ops {
		c := ops[i].Input.(asked)
		if c.place = -1; c.Op == trace.Get && c.Outcome == trace.OK {
			gets = append(gets, i)
		}
		ops[i].Input = c
	}
	rank := func(i int) int64 {
		if c := ops[i].Input.(asked); c.Revision > 0 {
			return c.Revision
		}
		return math.MaxInt64
	}
	slices.SortStableFunc(gets, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(ops[a].Return, ops[b].Return))
	})
	for place, i := range gets {
		ops[i].Input = asked{ops[i].Input.(asked).Call, place}
	}
	return ops
}

// blame finds the call without which no contradiction is left to see: the first
// at whose end the calls so far cannot be put in order.
func (j *judge) blame(m porcupine.Model, ops []porcupine.Operation) (time.Duration, string) {
	ends := slices.Clone(ops)
	slices.SortStableFunc(ends, func(a, b porcupine.Operation) int { return int(min(max(a.Return-b.Return, -1), 1)) })
	for _, last := range ends {
		if last.Return == math.MaxInt64 {
			break
		}
		var upTo []porcupine.Operation
		for _, o := range ops {
			switch {
			case o.Return <= last.Return:
				upTo = append(upTo, o)
			case o.Call <= last.Return: // under way: it may have been done already
				o.Return = math.MaxInt64
				if c := *o.Input.(asked).Call; c.Op != trace.Get && c.Outcome == trace.OK {
					c.Outcome = trace.Unknown
					o.Input = asked{Call: &c}
					upTo = append(upTo, o)
				} else if c.Outcome == trace.Unknown {
					upTo = append(upTo, o)
				}
			}
		}
		if porcupine.CheckOperationsTimeout(m, inPlace(upTo), j.within) == porcupine.Illegal {
			c := last.Input.(asked).Call
			return c.Start, contradiction(c)
		}
	}
	c := ops[0].Input.(asked).Call
	return c.Start, fmt.Sprintf("its %d calls cannot be put in any order", len(ops))
}

func contradiction(c *trace.Call) string {
	return fmt.Sprintf("what a %s at %s was answered (%s) contradicts what was answered before, in every order", c.Op, c.Server, answer(c))
}

func answer(c *trace.Call) string {
	switch {
	case c.Outcome != trace.OK:
		return string(c.Outcome) + " " + c.Code
	case c.Op == trace.Submit && c.Duplicate:
		return "duplicate, body " + c.Body
	case c.Op == trace.Submit:
		return "new, body " + c.Body
	case c.Op == trace.Cancel:
		return string(c.Phase)
	default:
		return fmt.Sprintf("%s, attempt %d, stop %q, revision %d", c.Phase, c.Attempt, c.Stop, c.Revision)
	}
}

// origin is what is known of a job when an epoch begins.
func origin(b *book, id string, epoch int) register {
	if epoch == 0 {
		return register{}
	}
	backup := b.run.Meta.Restores[epoch-1].Backup
	var held *state
	for _, s := range b.history[id] {
		// What an earlier restore had forgotten, this one cannot bring back.
		forgotten := s.revision > backup || s.job != nil && s.job.Revision > backup
		for _, r := range b.run.Meta.Restores[min(s.epoch, epoch):epoch] {
			forgotten = forgotten || s.revision > r.Backup || s.job != nil && s.job.Revision > r.Backup
		}
		switch {
		case forgotten:
		case s.epoch < epoch, s.epoch == epoch && held == nil:
			if held == nil || s.revision >= held.revision {
				held = s
			}
		}
	}
	if held == nil || held.dropped {
		return register{}
	}
	out := register{exists: true, body: anyBody}
	if held.epoch == epoch {
		return out // known to be there, and no more
	}
	out.cancel = held.stop() == ares.StopCancel
	if held.phase.Final() {
		out.final = held.phase
	}
	return out
}
