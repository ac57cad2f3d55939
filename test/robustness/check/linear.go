package check

import (
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
	within := decideWithin
	for id, all := range calls {
		for epoch := range len(j.run.Meta.Restores) + 1 {
			ops := j.operations(all, epoch)
			if len(ops) == 0 {
				continue
			}
			begin := origin(b, id, epoch)
			model := porcupine.Model{
				Init: func() any { return begin },
				Step: func(s, in, _ any) (bool, any) { return s.(register).after(in.(*trace.Call)) },
			}
			j.Totals.Linearized++
			switch porcupine.CheckOperationsTimeout(model, ops, within) {
			case porcupine.Ok:
			case porcupine.Illegal:
				at, text := j.blame(model, ops)
				j.wrong(Linearizable, id, at, "%s", text)
			case porcupine.Unknown:
				j.Totals.Undecided++
				j.wrong(Linearizable, id, all[0].Start, "whether its %d calls can be put in order was not decided within %s", len(ops), within)
				within = max(within/2, 10*time.Millisecond)
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
		if from > epoch || to < epoch && c.Outcome != trace.Unknown {
			continue
		}
		op := porcupine.Operation{ClientId: c.Client, Input: c, Call: int64(c.Start), Return: int64(c.End)}
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
				op.Input = &doubt
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
				if c := *o.Input.(*trace.Call); c.Op != trace.Get && c.Outcome == trace.OK {
					c.Outcome = trace.Unknown
					o.Input = &c
					upTo = append(upTo, o)
				} else if c.Outcome == trace.Unknown {
					upTo = append(upTo, o)
				}
			}
		}
		if porcupine.CheckOperationsTimeout(m, upTo, decideWithin) == porcupine.Illegal {
			c := last.Input.(*trace.Call)
			return c.Start, fmt.Sprintf("what a %s at %s was answered (%s) contradicts what was answered before, in every order", c.Op, c.Server, answer(c))
		}
	}
	c := ops[0].Input.(*trace.Call)
	return c.Start, fmt.Sprintf("its %d calls cannot be put in any order", len(ops))
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
		switch {
		case s.revision > backup || s.job != nil && s.job.Revision > backup:
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
