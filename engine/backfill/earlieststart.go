package backfill

import (
	"iter"
	"math/bits"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/engine/cluster"
	"github.com/ares-scheduler/ares/engine/job"

	ares "github.com/ares-scheduler/ares"
)

// Limits on the search for a reservation, so that a decision stays short however
// many wait: in so many domains a gang is tried at the time when enough members
// have room there, and if its other rules are met nowhere, when there is room
// for two, four and eight times as many. The soonest time is narrowed down in so
// many steps.
const (
	maxDomainsTried = 4
	maxDoublings    = 3
	maxBisections   = 5
)

// EarliestStart is the place that the job will have as soon as those have left who are
// foreseen to. What is taken of it stays taken.
func (b *Round) EarliestStart(e *job.Entry, members int, ban uint64, now time.Time) (backfillReservation, bool) {
	sh := e.Shape
	if b.Jobs.Estimated+len(b.Jobs.Running.Stopping) == 0 {
		return backfillReservation{}, false // nobody's end is foreseen
	}
	w := b.Cluster.WithoutModels(sh.Request, ban)
	reach, ok := b.Place.FeasibleNodes(sh, w)
	if !ok || b.Cluster.ExceedsLeafLimit(w) {
		return backfillReservation{}, false
	}
	level := ares.Level("")
	if sh.Members > 1 {
		level = sh.Wish.Required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	m := b.Txn.Mark()
	o := b.refreshOpenings(w, now, b.Quantile)
	spans := b.domainOpenings(w, o, reach, level, sh.MinMembers, now, b.Quantile)
	for _, sp := range spans {
		if r, fits := b.placeAt(sp, e, w, members, ban, now); fits {
			return r, true
		}
		b.Txn.Undo(m)
	}
	if len(spans) == 0 || sh.Members == 1 {
		return backfillReservation{}, false
	}
	// Enough room, and yet no place: the rules of the topology want it elsewhere.
	for k := range maxDoublings {
		lo, hi := spans[0].lo, spans[0].hi
		o, reach = b.refreshOpenings(w, now, b.Quantile), b.Place.FeasibleAgain(sh, w)
		wide := domainOpening{lo, hi, b.whenEnough(w, o, reach, lo, hi, sh.MinMembers<<(k+1), job.NoEnd, now, b.Quantile)}
		if wide.at == job.NoEnd {
			break
		}
		if r, fits := b.placeAt(wide, e, w, members, ban, now); fits {
			return b.narrowStart(m, r, domainOpening{lo, hi, spans[0].at}, wide, e, w, members, ban, now), true
		}
		b.Txn.Undo(m)
	}
	return backfillReservation{}, false
}

// narrowStart looks for an earlier time between one at which the job does not fit
// and one at which it does.
func (b *Round) narrowStart(m cluster.Savepoint, r backfillReservation, not, fits domainOpening, e *job.Entry, w *cluster.Request, members int, ban uint64, now time.Time) backfillReservation {
	b.Txn.Undo(m)
	o, reach := b.refreshOpenings(w, now, b.Quantile), b.Place.FeasibleAgain(e.Shape, w)
	var times []int64
	for at := reach.Next(fits.lo); at >= 0 && at < fits.hi; at = reach.Next(at + 1) {
		for _, d := range b.ReleasesOn(b.Cluster.Nodes[at], now, b.Quantile).List {
			if o.first[at] <= fits.at && d.at > not.at && d.at < fits.at {
				times = append(times, d.at)
			}
		}
	}
	slices.Sort(times)
	times = slices.Compact(times)
	lo, hi := -1, len(times)
	for range maxBisections {
		if lo+1 >= hi {
			break
		}
		mid := (lo + hi) / 2
		if at, ok := b.placeAt(domainOpening{fits.lo, fits.hi, times[mid]}, e, w, members, ban, now); ok {
			r, hi = at, mid
		} else {
			lo = mid
		}
		b.Txn.Undo(m)
	}
	return r
}

// placeAt is the job's place on the nodes of a span when those have left who are
// foreseen to leave by then.
func (b *Round) placeAt(sp domainOpening, e *job.Entry, w *cluster.Request, members int, ban uint64, now time.Time) (backfillReservation, bool) {
	from := len(b.Txn.Deltas)
	reach := b.Place.FeasibleAgain(e.Shape, w)
	o := b.openings[b.Quantile][w]
	bound := sp.at + 1
	for at := range o.openBefore(&bound, reach, sp.lo, sp.hi) {
		n := b.Cluster.Nodes[at]
		list := b.ReleasesOn(n, now, b.Quantile).List
		for i := range list {
			if list[i].at > sp.at {
				break
			}
			b.Txn.ReleaseSeat(n, list[i].seat)
		}
		b.Cluster.CapacityChanged(n)
	}
	given := len(b.Txn.Deltas)
	today := *b.Windows
	if len(today.Windows) > 0 { // which nodes administrators keep, by then
		b.Windows.SetWindowTime(job.LaterOf(today.At, time.Unix(0, max(sp.at, now.UnixNano()))))
		b.Windows.SetExpectedStay(e)
	}
	p, ok := b.Place.PlaceJob(e.Shape, members, ban, e)
	*b.Windows = today
	if !ok {
		return backfillReservation{}, false
	}
	r := backfillReservation{
		Entry: e, leaf: e.Shape.Leaf, At: max(sp.at, now.UnixNano()), ends: job.NoEnd,
		Seats: p.Seats, Merit: p.Merit, toHold: b.missingFor(p.Seats, b.Txn.Deltas[from:given]),
	}
	if runs := e.ExpectedRuntime(b.Quantile); runs != job.Forever {
		r.ends = r.At + int64(max(runs-e.Done(now), 0))
	}
	b.setBackfillLimit(&r, sp.at, now)
	return r, true
}

// setBackfillLimit says until when those must have ended who start before a reservation.
// Its slack is counted from when it could begin if nobody had come since a place
// is kept for it: so those who come now and those who will come delay it by that
// much together.
func (b *Round) setBackfillLimit(r *backfillReservation, at int64, now time.Time) {
	e := r.Entry
	qualified := now.Add(b.Backfill.After - e.Waited(now)).UnixNano()
	could := int64(job.AlreadyOver)
	var last *cluster.Node
	for i := range r.Seats {
		n := b.Cluster.NodesByID[r.Seats[i].Node]
		if n == last {
			continue
		}
		last = n
		for _, d := range b.forecastOf(n).releases[b.Quantile].List {
			if d.at > at {
				break
			}
			if d.from < qualified {
				could = max(could, d.at)
			}
			r.Sources[d.source]++
			if d.overdue {
				r.Overdue++
			}
		}
	}
	r.limit = r.At
	if could != job.AlreadyOver && (b.Backfill.SlackPercent > 0 || b.Backfill.SlackLeast > 0) {
		wait := time.Duration(could-now.UnixNano()) + e.Waited(now)
		r.limit = max(r.At, could+int64(b.Backfill.Slack(wait)))
	}
}

// drainReservation is a place for a job of which nobody knows when it will be free: where
// the least has to come free yet. What is free of it is kept, and what comes
// free stays so; since nobody else is put there, less and less is lacking, and
// at last the job starts.
func (b *Round) drainReservation(e *job.Entry, members int, ban uint64, now time.Time) (backfillReservation, bool) {
	sh := e.Shape
	w := b.Cluster.WithoutModels(sh.Request, ban)
	reach, ok := b.Place.FeasibleNodes(sh, w)
	if !ok || b.Cluster.ExceedsLeafLimit(w) {
		return backfillReservation{}, false
	}
	m := b.Txn.Mark()
	old := now.Add(-max(longRunning, 4*e.Waited(now))).UnixNano()
	for _, cut := range [2]int64{old, job.AlreadyOver} {
		for k := range maxDoublings {
			nodes := b.nearestNodes(sh, w, reach, sh.MinMembers<<k, cut)
			for _, n := range nodes {
				for _, sit := range n.Occupants {
					b.Txn.ReleaseSeat(n, sit.Seat)
				}
				b.Cluster.CapacityChanged(n)
			}
			p, fits := b.Place.PlaceJob(sh, members, ban, e)
			b.Txn.Undo(m)
			if fits {
				return backfillReservation{Entry: e, leaf: sh.Leaf, drain: true, At: job.NoEnd, ends: job.NoEnd, Seats: p.Seats, Merit: p.Merit, toHold: b.freePart(p.Seats, w)}, true
			}
			reach = b.Place.FeasibleAgain(sh, w)
		}
	}
	return backfillReservation{}, false
}

// longRunning is how long somebody has run of whom nobody knows when it will end, to
// be taken for one that never does, as long as there are others to wait for.
const longRunning = 24 * time.Hour

// nearestNodes is the nodes of one domain that the shape may use where the least has
// to come free for so many members, not counting those where one runs since
// before a time.
func (b *Round) nearestNodes(sh *job.Shape, w *cluster.Request, reach *cluster.Set, members int, cut int64) []*cluster.Node {
	level := ares.Level("")
	if sh.Members > 1 {
		level = sh.Wish.Required
		if level.Rank() > ares.LevelNode.Rank() {
			level = ares.LevelNode
		}
	}
	var best []*cluster.Node
	least := -1
	b.shortage.clear(len(b.Cluster.Nodes))
	for lo := 0; lo < len(b.Cluster.Nodes); {
		hi := len(b.Cluster.Nodes)
		if level != "" {
			_, hi = b.Cluster.Domains.EnclosingDomain(lo, level)
		}
		var nodes []*cluster.Node
		sum, room := 0, 0
		for at, much := range b.nodesByShortage(w, reach, lo, hi) {
			if more := b.roomWhen(b.Cluster.Nodes[at], w, cut); more > 0 {
				nodes = append(nodes, b.Cluster.Nodes[at])
				sum, room = sum+much, room+more
			}
			if room >= members {
				break
			}
		}
		if room >= sh.MinMembers && (least < 0 || sum < least) {
			best, least = nodes, sum
		}
		lo = hi
	}
	return best
}

// deviceShortage is how many devices have to come free on each node for one member of a
// want. It is found out for 64 nodes at a time, when they are asked for.
type deviceShortage struct {
	missing []int8      // by position; -1 where none may go
	least   []int8      // of each 64: at least; -1 while nobody has asked
	found   cluster.Set // of these 64
}

func (l *deviceShortage) clear(nodes int) {
	l.missing = slices.Grow(l.missing[:0], nodes)[:nodes]
	l.least = slices.Grow(l.least[:0], (nodes+63)/64)[:(nodes+63)/64]
	for k := range l.least {
		l.least[k] = -1
	}
	l.found.Resize(len(l.least))
}

// nodesByShortage yields the open nodes from lo up to hi with what they lack, those that
// lack the least first. There are few devices in a node: sorting would take longer.
func (b *Round) nodesByShortage(w *cluster.Request, reach *cluster.Set, lo, hi int) iter.Seq2[int, int] {
	return func(yield func(at, much int) bool) {
		l := &b.shortage
		for much := range min(max(w.GPUs, 1), cluster.MaxDevices) + 1 {
			for k := lo / 64; 64*k < hi; k++ {
				if l.least[k] < 0 {
					l.least[k] = b.Cluster.BlockMaxAt(k).MissingDevices(w)
				}
				if int(l.least[k]) > much {
					continue
				}
				if !l.found.Has(k) {
					l.found.Add(k)
					b.computeShortage(k, w, reach)
				}
				for at := max(64*k, lo); at < min(64*k+64, hi); at++ {
					if int(l.missing[at]) == much && !yield(at, much) {
						return
					}
				}
			}
		}
	}
}

// computeShortage finds out what the k-th 64 nodes lack. Nearly always the gists say so:
// where a fleet is large the walk must not touch each node itself.
func (b *Round) computeShortage(k int, w *cluster.Request, reach *cluster.Set) {
	last, mask := int32(-1), uint64(0)
	for at := 64 * k; at < min(64*k+64, len(b.Cluster.Nodes)); at++ {
		g, sp := &b.Cluster.Summaries[at], &b.Cluster.FreeCPUMem[at]
		b.shortage.missing[at] = -1
		if !g.Open || !reach.Has(at) {
			continue
		}
		if g.Profile != last {
			last, mask = g.Profile, w.DeviceMask(b.Cluster.NodeTypes.All[g.Profile])
		}
		much := min(max(w.GPUs-bits.OnesCount64(mask&g.Free), 0), cluster.MaxDevices)
		full := int(sp.CPUs) < w.CPUs || int(sp.Memory) < w.Memory || w.Milli > int(g.Part) && mask&g.Free == 0
		if much == 0 && (full || b.Cluster.Nodes[at].RoomFor(w) == 0) {
			much = 1 // something else than whole devices
		}
		b.shortage.missing[at] = int8(much)
	}
}

// freePart is what is free of seats, and of whole devices any that are as good: the
// members take what is free first when it is their turn.
func (b *Round) freePart(seats []ares.Seat, w *cluster.Request) []cluster.Delta {
	var out []cluster.Delta
	for i := 0; i < len(seats); {
		n, members := b.Cluster.NodesByID[seats[i].Node], 0
		kind, from := cluster.KindOfSeat(&seats[i]), i
		for ; i < len(seats) && seats[i].Node == n.ID; i++ {
			members++
		}
		free := w.DeviceMask(n.Type) & n.Free
		for k := 0; k < members*w.GPUs && free != 0; k, free = k+1, free&(free-1) {
			out = append(out, cluster.Delta{Node: n, Device: bits.TrailingZeros64(free), Milli: cluster.WholeMilli})
		}
		for k := range seats[from:i] {
			for x := range seats[from+k].Shares {
				if sh := &seats[from+k].Shares[x]; w.GPUs == 0 && n.DeviceIndex(sh) >= 0 {
					out = append(out, cluster.Delta{Node: n, Device: n.DeviceIndex(sh), Milli: sh.Milli})
				}
			}
		}
		out = append(out, cluster.Delta{Node: n, Device: cluster.RestOfSeat, CPUs: members * w.CPUs, Memory: members * w.Memory, NUMA: -1, Kind: kind})
	}
	return out
}
