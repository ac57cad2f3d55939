package audit

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"time"
)

// Bounds on what refusals may cost. A flood of them from many addresses fills
// the log with about a hundred entries a second at most.
const (
	window       = 10 * time.Second
	aloneOfKind  = 16  // refusals alike, in a window, that are written each
	aloneOfAll   = 500 // that may be written each at once
	aloneEach    = 20 * time.Millisecond
	kindsAtOnce  = 512 // kinds that are counted apart, in a window
	anotherPlace = "(others)"
)

// kind is what makes refusals alike.
type kind struct{ host, door, user, action, code string }

// tally counts refusals of a kind.
type tally struct {
	alone   int // written each
	counted int
	tenant  string
	outside bool
	since   time.Time // of the first that was only counted
	began   time.Time // of the window
}

// refusals decides which refusals are written each, and counts the others. Its
// caller keeps others out.
type refusals struct {
	kinds      map[kind]*tally
	spare      int // how many may be written each, now
	refilled   time.Time
	aggregated func()
}

func newRefusals(aggregated func()) *refusals {
	return &refusals{kinds: map[kind]*tally{}, spare: aloneOfAll, aggregated: aggregated}
}

func kindOf(e *Entry) kind {
	host, _, err := net.SplitHostPort(e.Source)
	if err != nil {
		host = e.Source
	}
	return kind{clean(host, maxField), e.Door, clean(e.User, maxField), clean(e.Action, maxField), e.Code}
}

// of finds the tally of a refusal. When there are too many kinds, all others are
// one for each code.
func (r *refusals) of(e *Entry) *tally {
	k := kindOf(e)
	if t := r.kinds[k]; t != nil {
		return t
	}
	if len(r.kinds) >= kindsAtOnce {
		k = kind{anotherPlace, "", "", anotherPlace, e.Code}
		if t := r.kinds[k]; t != nil {
			return t
		}
	}
	t := &tally{began: e.Time, tenant: e.Tenant}
	r.kinds[k] = t
	return t
}

// alone says whether a refusal is written for itself.
func (r *refusals) alone(e *Entry) bool {
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

// count notes a refusal that is not written for itself.
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

// due takes the tallies whose window is over.
func (r *refusals) due(now time.Time) []Entry {
	return r.take(now, func(t *tally) bool { return now.Sub(t.began) >= window })
}

// all takes every tally.
func (r *refusals) all(now time.Time) []Entry {
	return r.take(now, func(*tally) bool { return true })
}

func (r *refusals) take(now time.Time, over func(*tally) bool) []Entry {
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
