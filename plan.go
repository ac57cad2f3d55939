package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Plan is what one decision wants changed. It is true only at Revision.
type Plan struct {
	Revision int64 // of the state it was made from
	Now      time.Time
	Ready    []JobID   // delays that are over
	Place    []Placing // seats to give
	// Arrays are brought forward, at most one step for each in a plan.
	Arrays []ArrayStep
	Stop   []Stopping // jobs to be stopped
	// Nominate keeps seats for waiting jobs while others give way: those are in
	// Stop too, and all of it is written together or not at all.
	Nominate []Nominating
	Withdraw []Withdrawing // seats that are no longer kept
	Note     []Noting      // how jobs stand to their deadlines
	Refuse   []Refusal     // one for each shape that found no place
	Wake     time.Time     // when the plan could change without an event, zero for never
}

// Placing gives one job its seats.
type Placing struct {
	Job JobID
	// ArrayOf is set when the placing makes an element: Job is then its ID, and
	// the plan has the step of its array.
	ArrayOf JobID
	Index   int // of the element
	Seats   []Seat
	Score   int
	Merit   PlacementScore
}

// Stopping asks one job to end.
type Stopping struct {
	Job  JobID
	Stop Stop
}

// Nominating keeps seats for one job.
type Nominating struct {
	Job        JobID
	Nomination Nomination
}

// Withdrawing gives up the seats that are kept for one job.
type Withdrawing struct {
	Job JobID
	Why string
}

// PlacementScore says what speaks for a placement, by parts.
type PlacementScore struct {
	Level  Level  // the narrowest level that holds every seat, "" for none
	Domain string // the name of the place at that level
	// Of jobs over several nodes, each 0 to 1000, and their weighted sum.
	Availability, Alignment, Utilization, History, Weighted int
	// Stranded is what the placement adds to the GPU capacity that waiting
	// kinds of jobs could not use, in thousandths of a device. It may be negative.
	Stranded int
	// Bandwidth is what the slowest link between two of its devices carries by
	// the model, MB/s, and FirstFit that of the devices a first fit would have
	// taken. Both are 0 with fewer than two devices.
	Bandwidth, FirstFit int
}

// Apply gives the run its seats, with what speaks for them.
func (p *Placing) Apply(r *Run, now time.Time) error {
	if err := r.Place(p.Seats, p.Score, now); err != nil {
		return err
	}
	r.Last().Merit = p.Merit
	return nil
}

// Empty says whether the plan changes nothing.
func (p *Plan) Empty() bool {
	return len(p.Ready) == 0 && len(p.Place) == 0 && len(p.Arrays) == 0 && len(p.Stop) == 0 &&
		len(p.Nominate) == 0 && len(p.Withdraw) == 0 && len(p.Note) == 0
}

// Digest identifies what the plan changes, so that a replay can be compared.
func (p *Plan) Digest() string {
	h := sha256.New()
	var n [8]byte
	num := func(v int) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		_, _ = h.Write(n[:]) // a hash never fails
	}
	str := func(s string) {
		num(len(s))
		_, _ = h.Write([]byte(s))
	}
	seats := func(list []Seat) {
		num(len(list))
		for _, s := range list {
			str(s.Node)
			num(s.Rank)
			num(len(s.Shares))
			for _, sh := range s.Shares {
				str(sh.Device)
				num(sh.Milli)
			}
		}
	}
	num(len(p.Ready))
	for _, id := range p.Ready {
		str(string(id))
	}
	num(len(p.Place))
	for _, pl := range p.Place {
		str(string(pl.Job))
		seats(pl.Seats)
	}
	if len(p.Arrays) > 0 || len(p.Stop) > 0 { // or else as before there were any
		num(len(p.Arrays))
		for _, s := range p.Arrays {
			str(string(s.Job))
			num(s.Next)
			str(string(s.Phase))
		}
		num(len(p.Stop))
		for _, s := range p.Stop {
			str(string(s.Job))
			str(string(s.Stop.Why))
		}
	}
	if len(p.Nominate) > 0 || len(p.Withdraw) > 0 { // as above
		num(len(p.Nominate))
		for i := range p.Nominate {
			str(string(p.Nominate[i].Job))
			seats(p.Nominate[i].Nomination.Seats)
		}
		num(len(p.Withdraw))
		for _, w := range p.Withdraw {
			str(string(w.Job))
		}
	}
	if len(p.Note) > 0 { // as above
		num(len(p.Note))
		for i := range p.Note {
			str(string(p.Note[i].Job))
			str(string(p.Note[i].Lateness))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Refusal says why a job waits: every blocker, with counts.
type Refusal struct {
	Job      JobID
	Blockers []Blocker
}

// Blocker is one reason a job waits.
type Blocker struct {
	Kind   string // one of BlockerQuota and the others
	Count  int    // nodes it rules out, 0 when it is not about nodes
	Of     int
	Detail string
}

// The kinds of blockers.
const (
	BlockerQuota       = "quota"
	BlockerBudget      = "budget"
	BlockerNodes       = "nodes"       // what the nodes are like
	BlockerCapacity    = "capacity"    // what is free of them
	BlockerAffinity    = "affinity"    // to other jobs
	BlockerDelay       = "delay"       // before the next attempt
	BlockerDependency  = "dependency"  // on other jobs
	BlockerArray       = "array"       // its parallelism, or its end
	BlockerOrder       = "order"       // jobs ahead of it
	BlockerReservation = "reservation" // of an administrator
	BlockerPreemption  = "preemption"  // why no job is preempted for it
)

func (r Refusal) String() string {
	parts := make([]string, len(r.Blockers))
	for i, b := range r.Blockers {
		parts[i] = b.String()
	}
	return strings.Join(parts, "; ")
}

func (b Blocker) String() string {
	if b.Of > 0 {
		return fmt.Sprintf("%d of %d nodes: %s", b.Count, b.Of, b.Detail)
	}
	return b.Detail
}
