// Package notices notifies users about events of their jobs, by mail, Slack or a webhook.
//
// The notifications that are due follow from a job's spec and run, and the run also records which of them were
// delivered. So they survive the restart of a server and a change of leader. A notification is recorded after it was
// delivered: it is delivered at least once, and a repeated delivery has the same event ID. Only the leader delivers, and
// it does not delay scheduling. A target that does not answer delays only the notifications of its own tenant.
package notices

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/store"
)

// These are the limits of deliveries.
const (
	maxSending   = 16 // deliveries at the same time
	maxPerTenant = 2  // deliveries at the same time for one tenant
	maxTries     = 14 // with the pauses between them, for about one hour
	firstPause   = time.Second
	maxPause     = 10 * time.Minute
	timeout      = 15 * time.Second
)

// Sender delivers one notification once. An error with the code Invalid is permanent.
type Sender interface {
	Send(ctx context.Context, j *ares.Job, r *ares.Run, n *ares.Notice, now time.Time) error
}

// Notices delivers the notifications of jobs while its server leads.
type Notices struct {
	Store  *store.Store
	View   *cache.View
	Sender Sender
	Now    func() time.Time
	Log    *slog.Logger
	// PerMinute limits the notifications of one tenant in a minute. Further ones wait.
	PerMinute int
	// Pause is the time after the first failed try, which doubles with each try. Default one second.
	Pause time.Duration
	// Observe is called with the outcome of each try: sent, failed or retried. It may be nil.
	Observe func(outcome string)

	due     map[key]*delivery
	paces   map[string]*rate.Limiter // by tenant
	sending map[string]int           // deliveries under way, by tenant
	total   int
	changed bool      // a notification became due, or a try ended, since `start` was called
	wakeAt  time.Time // when `start` has something to do although nothing changed
}

// A key identifies a notification.
type key struct {
	job     ares.JobID
	rule    int
	event   ares.NotifyEvent
	attempt int
}

// A delivery is a notification that is due.
type delivery struct {
	notice ares.Notice
	tenant string
	tries  int
	next   time.Time
	busy   bool
	sent   bool   // only its record is missing
	failed string // why it was given up; only its record is missing
}

// result is the outcome of a try.
type result struct {
	key key
	err error
	// recorded means that the run has the mark, or that the job is gone.
	recorded bool
}

// Lead delivers notifications until ctx ends.
func (n *Notices) Lead(ctx context.Context, lead *store.Leadership) error {
	if err := n.View.WaitFor(ctx, lead.Revision); err != nil {
		return ctx.Err()
	}
	n.due, n.paces, n.sending, n.total = map[key]*delivery{}, map[string]*rate.Limiter{}, map[string]int{}, 0
	n.changed = true
	results := make(chan result)
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	seen := n.scan()
	for {
		events, upTo, more, err := n.View.EventsSince(seen)
		if err != nil { // too many events have passed
			seen = n.scan()
			continue
		}
		for i := range events {
			if events[i].Job != "" {
				n.collect(n.View.Job(events[i].Job))
			}
		}
		seen = upTo
		wake := time.NewTimer(n.startDue(ctx, &wg, results))
		select {
		case <-ctx.Done():
			wake.Stop()
			return ctx.Err()
		case <-more:
		case <-wake.C:
		case r := <-results:
			n.settle(r)
		}
		wake.Stop()
	}
}

// The method `scan` finds the due notifications of all live jobs. It returns the revision of the view before.
func (n *Notices) scan() int64 {
	at := n.View.Revision()
	n.View.Search(func(j *ares.Job) bool { return len(j.Notify) > 0 }, func(e *cache.Entry) bool {
		n.collect(e)
		return true
	})
	return at
}

// The method `collect` adds the due notifications of a job.
func (n *Notices) collect(e *cache.Entry) {
	if e == nil || len(e.Job.Notify) == 0 {
		return
	}
	for _, notice := range e.Run.DueNotices(e.Job) {
		k := key{e.Job.ID, notice.Rule, notice.Event, notice.Attempt}
		if n.due[k] == nil {
			n.due[k] = &delivery{notice: notice, tenant: e.Job.Tenant}
			n.changed = true
		}
	}
}

// startDue calls `start` when a delivery may be able to start, and returns how long to wait for the next one. It is called
// after each event of the cluster, and a tenant can have many notifications that wait for its rate.
func (n *Notices) startDue(ctx context.Context, wg *sync.WaitGroup, results chan<- result) time.Duration {
	now := n.Now()
	if !n.changed && now.Before(n.wakeAt) {
		return n.wakeAt.Sub(now)
	}
	wait := n.start(ctx, wg, results)
	n.changed, n.wakeAt = false, now.Add(wait)
	return wait
}

// The method `start` starts the deliveries whose time has come, and returns how long to wait for the next one.
func (n *Notices) start(ctx context.Context, wg *sync.WaitGroup, results chan<- result) time.Duration {
	now, wait := n.Now(), time.Hour
	for k, d := range n.due { // order-free: each is independent; the limits choose some of them
		switch {
		case d.busy:
			continue
		case d.next.After(now):
			wait = min(wait, d.next.Sub(now))
			continue
		case n.total >= maxSending || n.sending[d.tenant] >= maxPerTenant:
			continue // the end of another delivery wakes the loop
		case d.tries == 0 && !d.sent && d.failed == "":
			if pause := n.turn(d.tenant, now); pause > 0 {
				d.next = now.Add(pause)
				wait = min(wait, pause)
				continue
			}
		}
		d.busy = true
		n.total++
		n.sending[d.tenant]++
		try := *d
		wg.Go(func() {
			r := n.try(ctx, k, &try)
			select {
			case results <- r:
			case <-ctx.Done():
			}
		})
	}
	return wait
}

// The method `turn` returns how long the next notification of a tenant must wait because of the tenant's rate.
func (n *Notices) turn(tenant string, now time.Time) time.Duration {
	pace := n.paces[tenant]
	if pace == nil {
		pace = rate.NewLimiter(rate.Every(time.Minute/time.Duration(n.PerMinute)), max(1, n.PerMinute/6))
		n.paces[tenant] = pace
	}
	r := pace.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}

// The method `try` sends a notification once, unless that was done before, and records the outcome in the job's run.
func (n *Notices) try(ctx context.Context, k key, d *delivery) result {
	e := n.View.Job(k.job)
	if e == nil {
		return result{key: k, recorded: true} // it was archived
	}
	problem := d.failed
	if !d.sent && problem == "" {
		sending, cancel := context.WithTimeout(ctx, timeout)
		err := n.Sender.Send(sending, e.Job, &e.Run, &d.notice, n.Now())
		cancel()
		if err != nil && (ctx.Err() != nil || ares.CodeOf(err) != ares.Invalid && d.tries+1 < maxTries) {
			return result{key: k, err: err}
		}
		if err != nil {
			problem = err.Error()
			n.Log.Warn("a notification about a job could not be delivered", "job", k.job, "event", k.event, "error", err)
		}
	}
	err := n.Store.MarkNotified(ctx, k.job, d.notice, n.Now(), problem)
	return result{key: k, err: errors.Join(errRecord{problem}, err), recorded: err == nil || ares.CodeOf(err) == ares.NotFound}
}

// errRecord says that a notification is settled, delivered or given up, but not recorded yet.
type errRecord struct{ problem string }

func (e errRecord) Error() string { return "the notification is not recorded yet" }

// The method `settle` handles the result of a try.
func (n *Notices) settle(r result) {
	d := n.due[r.key]
	d.busy, n.changed = false, true
	n.total--
	if n.sending[d.tenant]--; n.sending[d.tenant] == 0 {
		delete(n.sending, d.tenant)
	}
	record, settled := errors.AsType[errRecord](r.err)
	if r.recorded {
		delete(n.due, r.key)
		if settled && record.problem != "" {
			n.observe("failed")
		} else if settled {
			n.observe("sent")
		}
		return
	}
	if settled {
		d.sent, d.failed = record.problem == "", record.problem
	} else {
		n.observe("retried")
	}
	pause := n.Pause
	if pause == 0 {
		pause = firstPause
	}
	d.next = n.Now().Add(min(pause<<min(d.tries, 20), maxPause))
	d.tries++
}

func (n *Notices) observe(outcome string) {
	if n.Observe != nil {
		n.Observe(outcome)
	}
}
