package check

import (
	"fmt"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// This type passes the record to the engine. It checks that the engine's own
// laws (invariants) hold. The engine's laws repeat the checks of device use and
// tenant limits. Only the laws check that gangs are complete. The check is
// expensive, so it runs only at some revisions.
type laws struct {
	*book
	engine *engine.State
	seen   int
	broken bool
}

// lawEvery is the number of revisions between two checks of the laws.
const lawEvery = 16

func newLaws(b *book) *laws { return &laws{book: b, engine: engine.New()} }

func (f *laws) step(*change) {}

func (f *laws) settle(e *trace.Entry, _ int64) {
	if f.broken {
		return // after a broken law, further violations mean nothing
	}
	f.seen++
	last := e == &f.run.Store[len(f.run.Store)-1]
	if err := f.look(e, last || f.seen%lawEvery == 0); err != nil {
		f.broken = true
		f.wrong(NotOversold, "", e.At, "the engine's own laws do not hold at revision %d: %v", e.Batch.Revision, err)
	}
}

// `look` applies a batch of store changes to the engine. If a change is
// impossible, the engine panics. The method `look` then returns an error, which
// is reported as a violation.
func (f *laws) look(e *trace.Entry, ask bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the engine cannot go on: %v", p)
		}
	}()
	f.engine.Apply(e.Batch)
	if ask {
		f.Totals.Laws++
		return f.engine.Check()
	}
	return nil
}
