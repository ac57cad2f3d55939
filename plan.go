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
	Refuse   []Refusal // one for each shape that found no place
	Wake     time.Time // when the plan could change without an event, zero for never
}

// Placing gives one job its seats.
type Placing struct {
	Job   JobID
	Seats []Seat
	Score int
}

// Empty says whether the plan changes nothing.
func (p *Plan) Empty() bool { return len(p.Ready) == 0 && len(p.Place) == 0 }

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
	num(len(p.Ready))
	for _, id := range p.Ready {
		str(string(id))
	}
	num(len(p.Place))
	for _, pl := range p.Place {
		str(string(pl.Job))
		num(len(pl.Seats))
		for _, s := range pl.Seats {
			str(s.Node)
			num(s.Rank)
			num(len(s.Shares))
			for _, sh := range s.Shares {
				str(sh.Device)
				num(sh.Milli)
			}
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
	Kind   string // quota, nodes, capacity, delay, dependency, unsupported
	Count  int    // nodes it rules out, 0 when it is not about nodes
	Of     int
	Detail string
}

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
