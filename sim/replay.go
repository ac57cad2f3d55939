package sim

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
)

// ReplayResult is the result of replaying the decisions of a recording.
type ReplayResult struct {
	Server    string      `json:"server"`
	Build     string      `json:"build"` // version of Ares that made the recording
	Began     time.Time   `json:"began"`
	Until     time.Time   `json:"until"` // time of the last decision or batch
	Revision  int64       `json:"-"`     // the last revision
	Batches   int         `json:"batches"`
	Events    int         `json:"events"`
	Decisions int         `json:"decisions"`
	Placed    int         `json:"placed"` // jobs placed by all decisions
	Different int         `json:"different"`
	First     *Difference `json:"first_difference,omitzero"`
	End       string      `json:"end"` // why the recording ends, or "" if it was cut off
}

// Difference is a decision that differs in the replay. A recording has only the digest of a
// decision, and not its placements. The recorded placements are therefore the placements that were
// stored soon after the decision.
type Difference struct {
	Recorded recording.Decision `json:"recorded"`
	Replayed recording.Decision `json:"replayed"`
	// OnlyRecorded lists the placements that are only in the recording. OnlyReplayed lists the placements that
	// are only in the replay.
	OnlyRecorded []string `json:"only_recorded"`
	OnlyReplayed []string `json:"only_replayed"`
}

// A plan is committed in parts. After a difference, the replay therefore searches this number of further batches
// for the placements of the plan.
const lookAhead = 64

// Replay applies the recorded batches to a new engine state. It makes a decision at each point where the server
// made one. If the function `tick` is not nil, Replay calls it after every decision.
func Replay(from io.Reader, tick func(*ReplayResult)) (*ReplayResult, error) {
	in, err := recording.NewReader(from)
	if err != nil {
		return nil, err
	}
	h := &in.Header
	r := &replay{state: engine.NewWith(h.Config), out: &ReplayResult{Server: h.Server, Build: h.Build, Began: h.Began, Until: h.Began}}
	for {
		f, err := in.Next()
		if errors.Is(err, io.EOF) {
			r.finish()
			r.out.End = in.End
			return r.out, nil
		}
		if err != nil {
			return r.out, err
		}
		if f.Batch != nil {
			r.apply(f.Batch)
			continue
		}
		if err = r.decide(f.Decision); err != nil {
			return r.out, err
		}
		if tick != nil {
			tick(r.out)
		}
	}
}

// This type is the state of a replay that has not ended yet.
type replay struct {
	state *engine.State
	out   *ReplayResult
	// At the first difference, these fields hold the placements of the replay and of the recording.
	replayed, recorded []string
	// The recording may contain these placements in one of the next batches. This field is the number of further
	// batches in which the replay searches for these placements.
	ahead int
}

func (r *replay) apply(b *ares.Batch) {
	r.out.Batches++
	r.out.Events += len(b.Events)
	r.out.Revision = b.Revision
	if b.At.After(r.out.Until) {
		r.out.Until = b.At
	}
	r.state.Apply(*b)
	if r.ahead == 0 {
		return
	}
	at := r.out.First.Recorded.Now.Truncate(time.Microsecond) // truncated to the precision of the store
	for i := range b.Events {
		if ev := b.Events[i].Run; ev != nil && ev.Run.Last() != nil && ev.Run.Last().PlacedAt.Equal(at) {
			r.recorded = append(r.recorded, placedLine(ev.Job, seatsOf(ev.Run.Last())))
		}
	}
	if r.ahead--; r.ahead == 0 {
		r.finish()
	}
}

func (r *replay) decide(d *recording.Decision) error {
	if got := r.state.Revision(); got != d.Revision {
		return ares.Errorf(ares.Invalid, "the recording has a decision for revision %d, but the replay is at revision %d: the recording lacks a batch of events", d.Revision, got)
	}
	plan := engine.Decide(r.state, d.Now)
	r.out.Decisions++
	r.out.Placed += len(plan.Place)
	if d.Now.After(r.out.Until) {
		r.out.Until = d.Now
	}
	got := recording.DecisionOf(&plan)
	if got.Digest == d.Digest {
		return nil
	}
	r.out.Different++
	if r.out.First == nil {
		r.out.First = &Difference{Recorded: *d, Replayed: got}
		r.ahead = lookAhead
		for i := range plan.Place {
			r.replayed = append(r.replayed, placedLine(plan.Place[i].Job, plan.Place[i].Seats))
		}
	}
	return nil
}

// This method removes the placements that are both in the recording and in the replay.
func (r *replay) finish() {
	if r.out.First == nil {
		return
	}
	r.ahead = 0
	r.out.First.OnlyRecorded = missingFrom(r.recorded, r.replayed)
	r.out.First.OnlyReplayed = missingFrom(r.replayed, r.recorded)
}

func missingFrom(lines, others []string) []string {
	var out []string
	for _, line := range lines {
		if !slices.Contains(others, line) && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

func seatsOf(a *ares.Attempt) []ares.Seat {
	seats := make([]ares.Seat, len(a.Seats))
	for i := range a.Seats {
		seats[i] = a.Seats[i].Seat
	}
	return seats
}

// placedLine describes the placement of a job.
func placedLine(id ares.JobID, seats []ares.Seat) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s on", id)
	for i, s := range seats {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s", s.Node)
		for k, sh := range s.Shares {
			fmt.Fprintf(&b, "%c%d", map[bool]byte{true: ':', false: '+'}[k == 0], sh.Index)
			if sh.Milli < 1000 {
				fmt.Fprintf(&b, "(%d/1000)", sh.Milli)
			}
		}
	}
	return b.String()
}
