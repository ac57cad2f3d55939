package notices

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
)

// TestManyWaitingNotices checks that the notifications of a tenant which wait for its rate cost nothing when other jobs
// change: the leader handles every event of the cluster.
func TestManyWaitingNotices(t *testing.T) {
	const waiting, events = 100_000, 3000
	now := time.Unix(1_800_000_000, 0)
	n := &Notices{
		Now: func() time.Time { return now }, PerMinute: 60, changed: true,
		due: map[key]*delivery{}, paces: map[string]*rate.Limiter{}, sending: map[string]int{},
	}
	for i := range waiting {
		n.due[key{job: ares.JobID(fmt.Sprint("job-", i))}] = &delivery{tenant: "ann", next: now.Add(time.Minute)}
	}
	var wg sync.WaitGroup
	began := time.Now()
	for range events {
		if wait := n.startDue(t.Context(), &wg, nil); wait != time.Minute {
			t.Fatalf("waits for %s", wait)
		}
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("%d events take %s while %d notifications wait", events, took, waiting)
	}
	now = now.Add(20 * time.Second)
	if wait := n.startDue(t.Context(), &wg, nil); wait != 40*time.Second {
		t.Errorf("later, it waits for %s", wait)
	}
}

// TestANewNoticeStartsAtOnce checks that a notification which becomes due while others wait is tried at once.
func TestANewNoticeStartsAtOnce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	n := &Notices{
		Now: func() time.Time { return now }, PerMinute: 60, changed: true,
		due: map[key]*delivery{{job: "a"}: {tenant: "ann", next: now.Add(time.Minute)}}, paces: map[string]*rate.Limiter{}, sending: map[string]int{},
	}
	var wg sync.WaitGroup
	n.startDue(t.Context(), &wg, nil)
	n.total = maxSending // so that nothing is sent in this test
	n.due[key{job: "b"}], n.changed = &delivery{tenant: "bob"}, true
	n.startDue(t.Context(), &wg, nil)
	if n.changed {
		t.Error("the new notification was not considered")
	}
	n.due[key{job: "b"}].busy = true
	n.sending["bob"] = 1
	n.settle(result{key: key{job: "b"}, recorded: true})
	if !n.changed || len(n.due) != 1 || n.total != maxSending-1 || n.sending["bob"] != 0 {
		t.Errorf("after the delivery: changed %t, %d due, %d sending", n.changed, len(n.due), n.total)
	}
}
