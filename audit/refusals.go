package audit

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// These constants limit the cost of rejections. A flood of rejections from many addresses adds at most about a hundred
// entries per second to the log.
const (
	window       = 10 * time.Second
	aloneOfKind  = 16  // number of similar rejections in a window that get their own entries
	aloneOfAll   = 500 // number of rejections of all kinds that may get their own entries at once
	aloneEach    = 20 * time.Millisecond
	kindsAtOnce  = 512 // kinds that are counted separately in a window
	anotherPlace = "(others)"
)

// refusalKind holds the properties that similar rejections share.
type refusalKind struct{ host, door, user, action, code string }

// refusalCount counts rejections of a kind.
type refusalCount struct {
	alone   int // rejections that got their own entry
	counted int
	tenant  string
	outside bool
	since   time.Time // time of the first that was only counted
	began   time.Time // start of the window
}

// The type `refusals` decides which rejections get a separate entry, and counts the others. The type `refusals` is not
// safe for concurrent use.
type refusals struct {
	kinds      map[refusalKind]*refusalCount
	spare      int // number of rejections that may still get their own entry
	refilled   time.Time
	aggregated func()
}

func newRefusals(aggregated func()) *refusals {
	return &refusals{kinds: map[refusalKind]*refusalCount{}, spare: aloneOfAll, aggregated: aggregated}
}

func kindOf(e *Entry) refusalKind {
	host, _, err := net.SplitHostPort(e.Source)
	if err != nil {
		host = e.Source
	}
	return refusalKind{clean(host, maxField), e.Door, clean(e.User, maxField), clean(e.Action, maxField), e.Code}
}

// The method `of` returns the count to which a rejection belongs. When there are too many kinds of rejections, all
// further kinds with the same error code share one count.
func (r *refusals) of(e *Entry) *refusalCount {
	k := kindOf(e)
	if t := r.kinds[k]; t != nil {
		return t
	}
	if len(r.kinds) >= kindsAtOnce {
		k = refusalKind{anotherPlace, "", "", anotherPlace, e.Code}
		if t := r.kinds[k]; t != nil {
			return t
		}
	}
	t := &refusalCount{began: e.Time, tenant: e.Tenant}
	r.kinds[k] = t
	return t
}

// isWrittenAlone reports whether a rejection gets a separate entry.
func (r *refusals) isWrittenAlone(e *Entry) bool {
	if n := int(e.Time.Sub(r.refilled) / aloneEach); n > 0 {
		r.spare, r.refilled = min(r.spare+n, aloneOfAll), e.Time
	}
	t := r.of(e)
	if t.alone >= aloneOfKind || r.spare == 0 {
		return false
	}
	t.alone++
	r.spare--
	return true
}

// The method `count` counts a rejection that gets no separate entry.
func (r *refusals) count(e *Entry) {
	t := r.of(e)
	if t.counted++; t.counted == 1 {
		t.since = e.Time
	}
	if t.tenant != e.Tenant {
		t.tenant = ""
	}
	t.outside = t.outside || e.Outside
	if r.aggregated != nil {
		r.aggregated()
	}
}

// The method `expired` removes the counts whose time window is over, and returns these counts as entries.
func (r *refusals) expired(now time.Time) []Entry {
	return r.take(now, func(t *refusalCount) bool { return now.Sub(t.began) >= window })
}

// The method `all` removes every count and returns the counts as entries.
func (r *refusals) all(now time.Time) []Entry {
	return r.take(now, func(*refusalCount) bool { return true })
}

func (r *refusals) take(now time.Time, over func(*refusalCount) bool) []Entry {
	var out []Entry
	for k, t := range maps.Clone(r.kinds) {
		if !over(t) {
			continue
		}
		delete(r.kinds, k)
		if t.counted == 0 {
			continue
		}
		out = append(out, Entry{
			Time: now, Action: k.action, User: k.user, Tenant: t.tenant, Outside: t.outside, Source: k.host, Door: k.door, Status: Refused, Code: k.code,
			Count: t.counted, Since: t.since, Detail: fmt.Sprintf("%d refusals alike, counted", t.counted),
		})
	}
	slices.SortFunc(out, func(a, b Entry) int { return a.Since.Compare(b.Since) })
	return out
}
