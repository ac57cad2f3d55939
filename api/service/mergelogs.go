package service

import (
	"context"
	"sync"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

const (
	// maxMergedRanks limits the ranks that one reader reads at once, and allMergedRanks those of all readers, and so the memory that they
	// need in the server.
	maxMergedRanks = 128
	allMergedRanks = 512
	// maxLogHold is how long a follower's lines wait for a rank from which nothing is heard, not even that it printed nothing.
	maxLogHold = 2 * time.Second
	// rankRetry is the delay before the server reads a rank again whose node was not connected.
	rankRetry = time.Second
)

// mergeLogs sends the lines of all ranks of an attempt, ordered by time. Each rank has a reader, and waits for the others after each part
// that it has read, so a fast rank does not fill the memory.
func (d *Services) mergeLogs(ctx context.Context, q LogQuery, positions []*apipb.LogPosition, send func(*apipb.StreamLogsResponse) error) error {
	a, _ := q.Seat()
	if a == nil {
		return nil
	}
	if n := len(a.Seats); n > maxMergedRanks {
		return ares.Errorf(ares.TooLarge, "job %s has %d ranks, but the output of at most %d ranks can be read at once: read the output of one rank", q.Job, n, maxMergedRanks).At("all_ranks")
	}
	tenant, ranks := q.Entry.Job.Tenant, len(a.Seats)
	if !d.merged.take(tenant, ranks) {
		return ares.Errorf(ares.Exhausted, "this server already reads the output of many ranks for readers of all ranks (%d for all tenants, and a share of them for one): try again later, or read the output of one rank", allMergedRanks)
	}
	defer d.merged.giveBack(tenant, ranks)
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	events := make(chan rankEvent)
	m := newLogMerge(q.Follow && !a.Ended())
	for i := range a.Seats {
		r := rankReader{services: d, query: q, events: events, taken: make(chan struct{}, 1)}
		r.query.Rank = a.Seats[i].Rank
		for _, p := range positions {
			if int(p.GetRank()) == r.query.Rank {
				r.query.Offset = new(p.GetOffset())
			}
		}
		m.add(r.query.Rank, r.taken)
		wg.Go(func() { r.run(ctx) })
	}
	return m.run(ctx, events, func(out *apipb.StreamLogsResponse) error {
		out.Attempt, out.Ranks = int32(q.Attempt), int32(len(a.Seats))
		return send(out)
	})
}

// A rankEvent is what the reader of one rank has to say.
type rankEvent struct {
	rank   int
	part   LogPart
	notice string // why the output is missing or late
	absent bool   // the output is late: do not wait for it
	ended  bool   // there is no more output
}

// A rankReader reads the output of one rank.
type rankReader struct {
	services *Services
	query    LogQuery
	events   chan<- rankEvent
	taken    chan struct{} // gets a value when all lines of the last part were sent
}

func (r *rankReader) run(ctx context.Context) {
	for {
		err := r.services.Cfg.Logs.Logs(ctx, r.query, func(p LogPart) error {
			if p.Offset != nil {
				r.query.Offset = p.Offset
			}
			if !r.tell(ctx, rankEvent{part: p, notice: p.Notice}) {
				return ctx.Err()
			}
			if len(p.Lines) == 0 {
				return nil
			}
			select {
			case <-r.taken:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			r.tell(ctx, rankEvent{ended: true})
			return
		case ares.CodeOf(err) != ares.Unavailable || !r.query.Follow || r.hasEnded():
			r.tell(ctx, rankEvent{ended: true, notice: noticeOf(err)})
			return
		}
		// The agent or this server has just restarted, or the node is lost. In the last case, the attempt ends soon.
		if !r.tell(ctx, rankEvent{absent: true, notice: noticeOf(err)}) || !pause.For(ctx, rankRetry) {
			return
		}
	}
}

func (r *rankReader) tell(ctx context.Context, e rankEvent) bool {
	e.rank = r.query.Rank
	select {
	case r.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

// hasEnded reports whether the attempt has ended by now.
func (r *rankReader) hasEnded() bool {
	e := r.services.Cfg.View.Job(r.query.Job)
	if e == nil {
		return true // archived
	}
	now := r.query
	now.Entry = *e
	a, _ := now.Seat()
	return a == nil || a.Ended()
}

// noticeOf returns the text of an error for the reader of a log. Unexpected errors are for the server's own log.
func noticeOf(err error) string {
	if code := ares.CodeOf(err); code == ares.Internal || code == "" {
		return "its output cannot be read"
	}
	return err.Error()
}

// logMerge merges the lines of several ranks.
type logMerge struct {
	follow bool
	ranks  []*mergedRank
	byRank map[int]*mergedRank
}

// The type `mergedRank` is the state of one rank in a merge.
type mergedRank struct {
	rank    int
	lines   []*apipb.LogLine // received and not sent yet
	key     int64            // of the first of them; see keyOf
	taken   chan<- struct{}
	until   int64 // every later line counts as completed at this time or later; nanoseconds
	ended   bool
	absent  bool
	noticed bool
}

func newLogMerge(follow bool) *logMerge {
	return &logMerge{follow: follow, byRank: map[int]*mergedRank{}}
}

func (m *logMerge) add(rank int, taken chan<- struct{}) {
	r := &mergedRank{rank: rank, taken: taken}
	m.ranks, m.byRank[rank] = append(m.ranks, r), r
}

// The method `run` sends lines in the order of time until all ranks have ended.
func (m *logMerge) run(ctx context.Context, events <-chan rankEvent, send func(*apipb.StreamLogsResponse) error) error {
	hold := time.NewTimer(maxLogHold)
	defer hold.Stop()
	for {
		out := &apipb.StreamLogsResponse{}
		if m.done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e := <-events:
			m.take(e, out)
		case <-hold.C:
			m.stopWaiting()
			hold.Reset(maxLogHold)
		}
		for sent := true; sent; {
			sent = m.release(out)
			if len(out.Lines)+len(out.Positions)+len(out.Notices) == 0 {
				break
			}
			if sent {
				hold.Reset(maxLogHold)
			}
			if err := send(out); err != nil {
				return err
			}
			out = &apipb.StreamLogsResponse{}
		}
		if !m.waiting() {
			hold.Reset(maxLogHold)
		}
	}
}

func (m *logMerge) done() bool {
	for _, r := range m.ranks {
		if !r.ended || len(r.lines) > 0 {
			return false
		}
	}
	return true
}

// The method `waiting` reports whether lines wait for another rank.
func (m *logMerge) waiting() bool {
	for _, r := range m.ranks {
		if len(r.lines) > 0 {
			return true
		}
	}
	return false
}

// stopWaiting ends the wait of a follower for ranks from which nothing is heard, until something is.
func (m *logMerge) stopWaiting() {
	for _, r := range m.ranks {
		r.absent = r.absent || m.follow && len(r.lines) == 0
	}
}

// The method `take` processes an event.
func (m *logMerge) take(e rankEvent, out *apipb.StreamLogsResponse) {
	r := m.byRank[e.rank]
	r.ended, r.absent = r.ended || e.ended, e.absent
	if e.notice != "" && (e.ended || !r.noticed) {
		r.noticed = true
		out.Notices = append(out.Notices, &apipb.LogNotice{Rank: int32(e.rank), Message: e.notice, Missing: e.ended})
	}
	if t := e.part.CompleteUntil; t != nil {
		r.until = max(r.until, t.AsTime().UnixNano())
	}
	if len(e.part.Lines) > 0 {
		r.lines, r.noticed = e.part.Lines, false
		r.key = r.keyOf(r.lines[0])
		for _, line := range r.lines {
			line.Rank = int32(e.rank)
		}
	} else if e.part.Offset != nil {
		out.Positions = append(out.Positions, &apipb.LogPosition{Rank: int32(e.rank), Offset: *e.part.Offset})
	}
}

// keyOf returns the time by which a line is ordered. It never decreases within a rank: a line that was not there when the node last
// looked was completed later, even if its own time is less exact.
func (r *mergedRank) keyOf(line *apipb.LogLine) int64 {
	if line.Time != nil {
		return max(r.until, line.Time.AsTime().UnixNano())
	}
	return r.until
}

// maxMergedLines is the maximum number of lines in one message to the reader.
const maxMergedLines = 256

// The method `release` moves lines that no other rank can precede to the output. It returns true if there may be more of them.
func (m *logMerge) release(out *apipb.StreamLogsResponse) bool {
	for size := 0; len(out.Lines) < maxMergedLines && size < 64<<10; {
		r := m.first()
		if r == nil {
			return false
		}
		r.until = r.key
		size += len(r.lines[0].Data)
		out.Lines, r.lines = append(out.Lines, r.lines[0]), r.lines[1:]
		if len(r.lines) > 0 {
			r.key = r.keyOf(r.lines[0])
		} else {
			r.taken <- struct{}{}
		}
	}
	return true
}

// The method `first` returns the rank whose next line is the earliest. It returns nil if there is none, or if a rank without lines may
// still send an earlier one.
func (m *logMerge) first() *mergedRank {
	var best *mergedRank
	for _, r := range m.ranks {
		if len(r.lines) > 0 && (best == nil || r.key < best.key) {
			best = r
		}
	}
	for _, r := range m.ranks {
		if best != nil && len(r.lines) == 0 && !r.ended && !r.absent && r.until < best.key {
			return nil
		}
	}
	return best
}
