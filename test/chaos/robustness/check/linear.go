package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Oracle O5 checks that the calls about one job behave as if they were made one
// after another. Each call must take effect at some moment between its start and its
// end. The changes that the scheduler makes are not calls. Therefore the model holds
// what is known about a job. Each call can only add to this knowledge. A later
// answer about a job may show more progress than an earlier answer, but never less.
// The file register.go defines the meaning of each answer.
//
// A call whose outcome is unknown may take effect at any moment after its start,
// or never. A call with an unknown outcome is modelled as a call that never
// ends. The model can then put the call last, where it changes no visible state.
// If several identical calls have an unknown outcome, only the first call is
// used. At most one of these identical calls can have had an effect. That effect
// could also have come from the first call. Ignoring the later calls keeps the
// search small. (The effect of a submit or a cancel is permanent: the job then
// exists, or is asked to stop.)
//
// Each epoch, which is the time between two restores, is checked separately. An
// epoch begins with the state of the store at the backup's revision. A call that
// overlaps a restore has an unknown outcome in both epochs.

// decideWithin is the time limit of the search for one job. If the search for one
// job exceeds the limit, the limit is halved for the next jobs. The time limit
// ensures that the check of a bad record also ends in bounded time.
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

// This method returns the calls of an epoch that reveal something about a job.
func (j *judge) operations(calls []*trace.Call, epoch int) []porcupine.Operation {
	var out []porcupine.Operation
	doubtful := map[[2]string]int{} // index of the first call of each kind
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
			continue // not done, and it reveals nothing about the job
		}
		out = append(out, op)
	}
	if len(out) == len(doubtful) {
		return nil // no call was answered
	}
	return out
}

// fromHistory reports whether history, and not the store, answered a get call.
// This happens for a job that a restore removed from the store. An answer from
// history contains the job's final phase and a revision that no longer exists.
// Such an answer reveals nothing about the store. The function compareGet
// checks that the job really ended as history says.
func (j *judge) fromHistory(c *trace.Call, epoch int) bool {
	return c.Op == trace.Get && c.Outcome == trace.OK && c.Phase.Final() &&
		slices.ContainsFunc(j.run.Meta.Restores[:epoch], func(r trace.Restore) bool { return r.Backup < c.Revision && c.Revision <= r.Highest })
}

// The type `asked` is a call with its position among all get calls. For other calls,
// the position is -1.
type asked struct {
	*trace.Call
	place int
}

// inPlace assigns each get call its position among all get calls. A get call that
// saw an older revision comes first, and answers from the archive come last. If
// several get calls saw the same revision, the one that ended first comes first.
// Many get calls may wait together at a hanging server. Without these positions, the
// search would try every subset of these calls.
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

// The method `blame` finds the first call whose answer contradicts the earlier
// answers. The calls before it have a valid order. When this call is added, no valid
// order exists.
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
			case o.Call <= last.Return: // still running: it may have taken effect already
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

// forgets reports whether the store once had more attempts of the job than later.
func (b *book) forgets(id string) bool {
	placed := 0
	for _, s := range b.history[id] {
		if s.run != nil && s.run.Placed < placed {
			return true
		}
		placed = max(placed, s.placed())
	}
	return false
}

// This function returns the known state of a job when an epoch begins.
func origin(b *book, id string, epoch int) register {
	none := register{hub: b.run.Meta.Hub, forgets: b.run.Meta.OwnersRestored && b.forgets(id)}
	if epoch == 0 {
		return none
	}
	backup := b.run.Meta.Restores[epoch-1].Backup
	var held *state
	for _, s := range b.history[id] {
		// A restore cannot bring back a job that an earlier restore had already
		// lost.
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
		return none
	}
	out := none
	out.exists, out.body = true, anyBody
	if held.epoch == epoch {
		return out // it is known only that the job exists
	}
	out.cancel = held.stop() == ares.StopCancel
	if held.phase.Final() {
		out.final = held.phase
	}
	return out
}
