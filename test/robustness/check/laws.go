package check

import (
	"fmt"

	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/test/robustness/trace"
)

// laws shows the record to the engine and asks it for its own laws: a second
// opinion on devices and tenants, and the only one on gangs being whole. They
// look at everything, so only some revisions are asked about.
type laws struct {
	*book
	engine *engine.State
	seen   int
	broken bool
}

// lawEvery is how many revisions pass from one look to the next.
const lawEvery = 16

func newLaws(b *book) *laws { return &laws{book: b, engine: engine.New()} }

func (f *laws) step(*change) {}

func (f *laws) settle(e *trace.Entry, _ int64) {
	if f.broken {
		return // a state that broke a law may break anything next
	}
	f.seen++
	last := e == &f.run.Store[len(f.run.Store)-1]
	if err := f.look(e, last || f.seen%lawEvery == 0); err != nil {
		f.broken = true
		f.wrong(NotOversold, "", e.At, "the engine's own laws do not hold at revision %d: %v", e.Batch.Revision, err)
	}
}

// look shows a batch to the engine. The engine stops at records that cannot be;
// for a judge that is a finding like any other.
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
