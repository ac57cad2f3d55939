package ares

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Plan is the set of changes that one decision makes. A plan is valid only for the state at the
// revision in the field Revision.
type Plan struct {
	Revision int64 // revision of the state it was made from
	Now      time.Time
	Ready    []JobID   // jobs whose delay is over
	Place    []Placing // seats to allocate
	// Arrays contains the next steps of arrays. A plan has at most one step for each array.
	Arrays []ArrayStep
	Stop   []Stopping // jobs to stop
	// Nominate reserves seats for waiting jobs while their victims stop. The victims of a nomination are also listed in
	// the field Stop. A nomination and the stops of its victims are written together or not at all.
	Nominate []Nominating
	Withdraw []Withdrawing // nominations to withdraw
	Note     []Noting      // changes of Lateness
	Refuse   []Refusal     // one for each shape that could not be placed
	Wake     time.Time     // when the plan could change without an event, zero for never
}

// A Placing allocates seats to one job.
type Placing struct {
	Job JobID
	// ArrayOf is set when a Placing creates an array's element. In that case, the field Job holds the element's ID. The
	// plan then also contains a step for its array.
	ArrayOf        JobID
	Index          int // index of the element
	Seats          []Seat
	Score          int
	PlacementScore PlacementScore
}

// A Stopping records a stop intent for one job.
type Stopping struct {
	Job  JobID
	Stop Stop
}

// A Nominating reserves seats for one job.
type Nominating struct {
	Job        JobID
	Nomination Nomination
}

// A Withdrawing withdraws the nomination of one job.
type Withdrawing struct {
	Job JobID
	Why string
}

// PlacementScore holds the components of the score of a placement.
type PlacementScore struct {
	Level  Level  // the narrowest level that holds every seat, "" for none
	Domain string // the name of the domain at that level
	// These are the score components for jobs on several nodes, and the weighted sum of the components. Each
	// component is between 0 and 1000.
	Availability, Alignment, Utilization, History, Weighted int
	// Stranded is the free GPU capacity that the placement makes unusable for the kinds of jobs that are waiting. It is
	// in thousandths of a device. Stranded may be negative.
	Stranded int
	// Bandwidth is the modelled bandwidth of the slowest link between two of the job's devices, in MB/s. FirstFit is
	// the bandwidth that the job would have if its devices were chosen by first fit. Bandwidth and FirstFit are 0 if
	// the job has fewer than two devices.
	Bandwidth, FirstFit int
	// NetworkGbps is the declared bandwidth between the leaves of the placement, 0 if it is unknown or if there is one node.
	NetworkGbps int `json:",omitempty"`
	// NetworkLatencyNanos is the latency between its most distant nodes, 0 if there is one node.
	NetworkLatencyNanos int `json:",omitempty"`
}

// Apply assigns the seats and their score to the run.
func (p *Placing) Apply(r *Run, now time.Time) error {
	if err := r.Place(p.Seats, p.Score, now); err != nil {
		return err
	}
	r.Last().PlacementScore = p.PlacementScore
	return nil
}

// Empty reports whether the plan changes nothing.
func (p *Plan) Empty() bool {
	return len(p.Ready) == 0 && len(p.Place) == 0 && len(p.Arrays) == 0 && len(p.Stop) == 0 &&
		len(p.Nominate) == 0 && len(p.Withdraw) == 0 && len(p.Note) == 0
}

// Digest is a hash of the plan's changes. A replay compares a plan's digest with the digest of the
// original decision.
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
	if len(p.Arrays) > 0 || len(p.Stop) > 0 { // hashed only if present, so that older plans keep their digest
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

// Refusal explains why a job waits. A Refusal lists every blocker, and says how many nodes each blocker excludes.
type Refusal struct {
	Job      JobID
	Blockers []Blocker
}

// Blocker is one reason a job waits.
type Blocker struct {
	Kind   string // one of the Blocker constants
	Count  int    // number of nodes it excludes, 0 if it is not about nodes
	Of     int
	Detail Text
}

// These are the kinds of blockers.
const (
	BlockerQuota       = "quota"
	BlockerBudget      = "budget"
	BlockerNodes       = "nodes"       // properties of the nodes
	BlockerCapacity    = "capacity"    // free capacity of the nodes
	BlockerAffinity    = "affinity"    // affinity to other jobs
	BlockerDelay       = "delay"       // delay before the next attempt
	BlockerDependency  = "dependency"  // other jobs
	BlockerHold        = "hold"        // the job is held
	BlockerBegin       = "begin"       // its begin time
	BlockerArray       = "array"       // the array's parallelism, or its end
	BlockerOrder       = "order"       // jobs ahead of it in the queue
	BlockerReservation = "reservation" // an administrator's reservation
	BlockerPreemption  = "preemption"  // why no job is preempted for it
)

func (r Refusal) String() string {
	parts := make([]string, len(r.Blockers))
	for i, b := range r.Blockers {
		parts[i] = b.String()
	}
	return strings.Join(parts, "; ")
}

func (b Blocker) String() string { return b.Text().String() }

// Text describes the blocker in words, with the number of nodes that it excludes.
func (b Blocker) Text() Text {
	if b.Of > 0 {
		return Textf("%d of %d nodes: %s", b.Count, b.Of, b.Detail)
	}
	return b.Detail
}
