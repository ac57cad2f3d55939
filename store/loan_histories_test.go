package store

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	ares "github.com/ares-scheduler/ares"
)

// The pieces of hourHistory: the budget has four of them.
const (
	hourPiece = 900
	hourWhole = 3600
)

// hourHistory is the hub of TestHourHistories: the rules of the verbs, without a store.
type hourHistory struct {
	*rapid.T

	month   int
	version int64
	members []*spender
}

// spender is a member, and the hub's record of it.
type spender struct {
	record      Loan
	incarnation int
	month       int
	used        int64         // in this month, according to its own records
	spent       map[int]int64 // by month: what was used in truth
	version     int64
	loan        ares.LoanBudget
	notices     []hourNotice
	answers     []LoanAnswer
}

// hourNotice is what the hub has told an incarnation of a member.
type hourNotice struct {
	version     int64
	budget      ares.LoanBudget
	incarnation int
	lower       bool
}

func monthName(n int) string { return fmt.Sprintf("%03d", n) }

func incarnationName(n int) string { return fmt.Sprint("incarnation ", n) }

// TestHourHistories lends GPU-hours with messages that are late, repeated or lost, members that are restored, and months that
// begin at different times in hub and members. The loans must never exceed the budget, and what is used in a month neither.
func TestHourHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &hourHistory{T: t, month: 1}
		for range 2 {
			m := &spender{incarnation: 1, month: 1, spent: map[int]int64{}}
			m.record.Hours.Incarnation = incarnationName(1)
			m.record.Hours.Kept = true
			h.members = append(h.members, m)
		}
		for range 1500 {
			h.step(h.members[rapid.IntRange(0, 1).Draw(t, "member")])
			lent, spent := int64(0), map[int]int64{}
			for _, m := range h.members {
				lent += m.record.Hours.Secs
				for month, n := range m.spent {
					if spent[month] += n; spent[month] > hourWhole {
						t.Fatalf("in month %d, %d GPU-seconds were used: %+v, %+v", month, spent[month], *h.members[0], *h.members[1])
					}
				}
			}
			if lent > hourWhole {
				t.Fatalf("%d GPU-seconds are lent: %+v, %+v", lent, *h.members[0], *h.members[1])
			}
		}
	})
}

func (h *hourHistory) step(m *spender) {
	known := m.record.Hours.In(monthName(h.month))
	confirmed := known.Incarnation == incarnationName(m.incarnation)
	current := m.month == h.month && confirmed && known.Month == monthName(h.month)
	if current { // as its last summary says
		known.Used = max(known.Used, m.used+known.Uncounted)
	}
	switch rapid.SampledFrom([]string{"raise", "raise", "lower", "notice", "notice", "answer", "answer", "job", "job", "job", "month", "restore"}).Draw(h.T, "step") {
	case "raise":
		if current && known.Limit == known.Secs {
			known.Secs += hourPiece * rapid.Int64Range(1, 4).Draw(h.T, "pieces")
			known.Limit = known.Secs
			h.lend(m, known)
		}
	case "lower":
		switch {
		case !confirmed || known.Limit < known.Secs: // it is asked again
			h.tell(m)
		case current:
			known.Limit = hourPiece * rapid.Int64Range(0, known.Secs/hourPiece).Draw(h.T, "limit")
			h.lend(m, known)
		}
	case "notice":
		if len(m.notices) > 0 {
			m.take(&m.notices[rapid.IntRange(0, len(m.notices)-1).Draw(h.T, "which")])
		}
	case "answer":
		if len(m.answers) > 0 {
			h.take(m, m.answers[rapid.IntRange(0, len(m.answers)-1).Draw(h.T, "which")])
		}
	case "job":
		if limit, _ := (&ares.Tenant{Loan: &ares.Loan{Budget: m.loan}}).LentSeconds(monthName(m.month)); m.used < limit {
			m.used += hourPiece
			m.spent[m.month] += hourPiece
		}
	case "month":
		if rapid.Bool().Draw(h.T, "at the hub") {
			h.month = min(h.month+1, 1+max(h.members[0].month, h.members[1].month))
		} else if m.month <= h.month {
			m.month, m.used = m.month+1, 0
		}
	case "restore": // the hub knows all use until then
		if current {
			h.lend(m, known)
			m.incarnation++
			m.used = hourPiece * rapid.Int64Range(0, m.used/hourPiece).Draw(h.T, "used in the backup")
			m.loan.Secs = 0
			h.tell(m)
		}
	}
}

// The method `lend` does what Lend does.
func (h *hourHistory) lend(m *spender, next LoanHours) {
	l := &lending{loan: m.record, hours: 1}
	for _, o := range h.members {
		if o != m {
			l.hoursOfOthers = append(l.hoursOfOthers, o.record.Hours)
		}
	}
	to := m.record
	to.Hours = next
	switch err := l.checkHours(&to); {
	case ares.CodeOf(err) == ares.QuotaExceeded:
	case err != nil:
		h.Fatal(err)
	case to != m.record:
		h.version++
		m.record = to.as(h.version)
		h.tell(m)
	}
}

// The method `tell` does what the hub's term does: an incarnation that has not answered may use nothing.
func (h *hourHistory) tell(m *spender) {
	r := &m.record.Hours
	n := hourNotice{version: m.record.Revision, incarnation: m.incarnation, lower: true, budget: ares.LoanBudget{Hours: 1, Uncounted: r.Uncounted, Month: r.Month}}
	if r.Incarnation == incarnationName(m.incarnation) {
		n.budget.Secs, n.lower = r.Limit, r.Limit < r.Secs
	}
	m.notices = append(m.notices[max(len(m.notices)-2, 0):], n)
}

// The method `take` of a member does what Uplink.lent does.
func (m *spender) take(n *hourNotice) {
	if n.incarnation != m.incarnation || n.version < m.version {
		return
	}
	m.version, m.loan = n.version, n.budget
	if n.lower {
		m.answers = append(m.answers[max(len(m.answers)-2, 0):], LoanAnswer{
			Version: n.version, Incarnation: incarnationName(m.incarnation), Hours: &HoursAnswer{Month: monthName(m.month), Used: m.used},
		})
	}
}

// The method `take` of the hub does what LoanAnswered does.
func (h *hourHistory) take(m *spender, a LoanAnswer) {
	if a.Version != m.record.Revision || a.Incarnation != incarnationName(m.incarnation) || a.Hours.Month != monthName(h.month) {
		return
	}
	next := m.record
	if (&lending{loan: m.record, hours: 1}).answered(&next, a.Incarnation, a.Hours); next != m.record {
		h.version++
		m.record = next.as(h.version)
		h.tell(m)
	}
}
