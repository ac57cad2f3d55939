package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func refusal(source, user, object string) Entry {
	return Entry{Action: "GET_JOB", Code: "forbidden", Source: source, Door: "rest", User: user, Object: object}
}

// The function `stands` returns how many operations a list of entries describes.
func stands(entries []Entry) (n int) {
	for i := range entries {
		n += entries[i].EventCount()
	}
	return n
}

func (r *running) kinds() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.refusals.kinds)
}

// TestFloodOfRefusals sends many more rejections than may be written separately, from one address and from many
// addresses. All rejections must be counted, and the log must stay small.
func TestFloodOfRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		sources int
		atMost  int // maximum number of entries
	}{
		"one address":    {1, aloneOfKind + 2},
		"many addresses": {20_000, aloneOfAll + kindsAtOnce + 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const sent = 50_000
				counted := 0
				l := start(t, t.TempDir(), func(cfg *Config) { cfg.Aggregated = func() { counted++ } })
				for i := range sent {
					l.Refuse(t.Context(), refusal(fmt.Sprintf("10.0.%d.%d:%d", i%c.sources/256, i%c.sources%256, i%60_000), "token:eve", fmt.Sprint("job-", i)))
				}
				if n := l.kinds(); n > kindsAtOnce+1 {
					t.Errorf("%d kinds are remembered, at most %d may be", n, kindsAtOnce+1)
				}
				pass(2 * window)
				synctest.Wait()
				got := l.all(Query{Action: "GET_JOB", Limit: 1000})
				others := l.all(Query{Action: anotherPlace, Limit: 1000})
				if n := stands(got) + stands(others); n != sent {
					t.Errorf("the entries stand for %d refusals, %d were sent", n, sent)
				}
				if n := len(got) + len(others); n > c.atMost {
					t.Errorf("%d entries, want at most %d", n, c.atMost)
				}
				if alone := sent - counted; alone > len(got) || c.sources == 1 && alone != aloneOfKind {
					t.Errorf("%d were written each, of %d entries", alone, len(got))
				}
				if n := l.kinds(); n != 0 {
					t.Errorf("%d kinds are still remembered after their window", n)
				}
				l.stop()
				good(t, l.Dir())
			})
		})
	}
}

// TestRefusalsApart checks that different kinds of rejections are counted separately, and that the entry with a count
// names the caller.
func TestRefusalsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, t.TempDir())
		for i := range 100 {
			l.Refuse(t.Context(), refusal("10.0.0.1:1", "token:eve", fmt.Sprint(i)))
			l.Refuse(t.Context(), refusal("10.0.0.1:2", "token:adam", fmt.Sprint(i)))
		}
		pass(2 * window)
		synctest.Wait()
		for _, user := range []string{"token:eve", "token:adam"} {
			got := l.all(Query{User: user})
			if stands(got) != 100 || len(got) != aloneOfKind+1 {
				t.Errorf("%s: %d entries for %d refusals, want %d for 100", user, len(got), stands(got), aloneOfKind+1)
			}
			if last := got[0]; last.Count != 100-aloneOfKind || last.Since.IsZero() || last.Source != "10.0.0.1" || last.Code != "forbidden" {
				t.Errorf("%s: the rest is told as %+v", user, last)
			}
		}
		l.stop()
	})
}

// TestCountedAtTheEnd checks that a server writes its counts of rejections when it stops.
func TestCountedAtTheEnd(t *testing.T) {
	l := start(t, t.TempDir())
	for i := range 50 {
		l.Refuse(t.Context(), refusal("10.0.0.1:1", "token:eve", fmt.Sprint(i)))
	}
	l.stop()
	again := start(t, l.Dir())
	if n := stands(again.all(Query{User: "token:eve"})); n != 50 {
		t.Errorf("%d of 50 refusals are in the log after the end", n)
	}
}

// TestOutsidersAreCountedAsSuch checks that an entry with a count still says that the caller was outside the tenant.
// The entry must omit the caller's name if the reader may not see it.
func TestOutsidersAreCountedAsSuch(t *testing.T) {
	r := newRefusals(nil)
	now := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, who := range []string{"token:b/thief", "token:a/lead"} {
		e := Entry{Time: now, Action: "CANCEL_JOB", User: who, Tenant: "a", Source: "10.0.0.1:7", Status: Refused, Code: "not_found"}
		if who == "token:b/thief" {
			e.Outside = true
		}
		for range 3 {
			r.count(&e)
		}
	}
	named := map[string]bool{}
	for i, e := range r.all(now) {
		_, err := e.seal(nil, uint64(i+1), genesis)
		if out := e.WithoutActor(); err != nil || e.Hash == "" || out.Hash != "" || out.Previous != "" {
			t.Errorf("%+v is shown as %+v, %v", e, out, err)
		}
		out := e.WithoutActor()
		named[out.User] = true
		if e.Outside != (e.User == "token:b/thief") || e.Outside != (out.Source == "") || out.Count != 3 || !strings.Contains(out.Detail, "3 refusals alike") {
			t.Errorf("%+v is shown as %+v", e, out)
		}
		if q := (Query{User: e.User, Unnamed: true}); q.Matches(&e) == e.Outside {
			t.Errorf("found by name: %v, of %+v", !e.Outside, e)
		}
	}
	if !named[Outsider] || !named["token:a/lead"] || len(named) != 2 {
		t.Errorf("named are %v", named)
	}
}
