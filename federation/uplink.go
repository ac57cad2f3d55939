package federation

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/federation/boottime"
	"github.com/ares-scheduler/ares/federation/grant"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// DefaultClaimAhead is how far ahead a member claims jobs. What it has claimed is its supply of work while it cannot reach
// the hub.
const DefaultClaimAhead = 10 * time.Minute

// SummaryRefresh is the longest time between two summaries of a member. In between, only those that say something new are
// sent: a summary costs the hub a decision.
const SummaryRefresh = 10 * time.Second

// Uplink connects a member to its hub. It runs on the member's leader. It claims jobs that the hub offers and that would
// start soon here, creates the jobs that it won, and reports their runs.
type Uplink struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// Version is the version of this build, for the hub.
	Version string
	// Dial connects to a server of the hub. When a server does not lead the hub, the Uplink dials again: then Dial should
	// return a connection to another one. The Uplink closes the connection.
	Dial func(ctx context.Context) (*grpc.ClientConn, error)
	// DialServer connects to one server of the hub, over which this cluster answers the users of that server. Without it, the
	// hub cannot read output and explanations of its jobs. The Uplink closes the connection.
	DialServer func(ctx context.Context, addr string) (*grpc.ClientConn, error)
	// Answer answers a read of the hub about a job that this cluster holds under a grant. The Uplink has compared the grant and
	// the tenant. It may be nil.
	Answer func(ctx context.Context, q *apipb.OwnerRead, job store.Snapshot, send func(*apipb.ReadAnswer) error) error
	// Archived returns a job that this cluster has archived, for readers of its output. Its error is NotFound for any other job. It may be
	// nil.
	Archived func(ctx context.Context, id ares.JobID) (store.Snapshot, error)
	// Plan says where a job would be placed if it were submitted now, or why it would wait. It is scheduler.Loop.Plan.
	Plan func(job *ares.Job, p *ares.RuntimePredicted) (ares.Placing, *ares.Explanation)
	// Admit rejects a job that this cluster would not accept: its tenant or queue is unknown, or a limit is exceeded. It may
	// be nil.
	Admit func(ctx context.Context, job *ares.Job) error
	// Explain says when a job that waits here would start. It is scheduler.Loop.Explain. Without it, jobs that would wait here for
	// long are not given back.
	Explain func(id ares.JobID) ares.Explanation
	// LateAfter is for how long a job must not be expected to start within ClaimAhead before it is given back. Default one
	// minute: a node that is back soon is no reason to move a job.
	LateAfter time.Duration
	// UseFrom returns what a tenant's jobs use, after every decision follows the records up to a revision. It is
	// scheduler.Loop.UseFrom.
	UseFrom func(ctx context.Context, tenant string, revision int64) (ares.Use, error)
	// UsedThisMonth returns the month (UTC), and the GPU-seconds that a tenant has used in it. It is scheduler.Loop.UsedThisMonth.
	UsedThisMonth func(tenant string) (month string, gpuSecs int64)
	// Summary describes the capacity of this cluster for the hub. It may be nil.
	Summary func() []byte
	// SummaryEvery is the shortest time between two summaries. Default one second.
	SummaryEvery time.Duration
	// Describe returns what this cluster says about itself, an encoded apipb.ClusterDescription. It may be nil.
	Describe func() []byte
	// DescribeEvery is the shortest time between two descriptions. Default DescribeEvery.
	DescribeEvery time.Duration
	// Heartbeat is the time between two heartbeats. Default DefaultHeartbeat.
	Heartbeat time.Duration
	// ClaimAhead is how far ahead jobs are claimed. 0 means that only jobs which would start now are claimed.
	ClaimAhead time.Duration
	// Boot reads the clock by which the age of the last answer counts (F11). Default boottime.Now: the machine may be suspended.
	Boot func() boottime.Time
	// ModeChanged is called when the hub becomes reachable or unreachable. It may be nil.
	ModeChanged func(grant.Mode)

	view *cache.View
	lead *store.Leadership // of this server, while Run runs

	mu        sync.Mutex
	suspended map[ares.JobID]int64 // fenced jobs that were suspended since the last answer, with their epochs
	touched   map[ares.JobID]bool  // granted jobs that changed since the session last looked
	news      chan struct{}
	answered  boottime.Time // when the last heartbeat was sent that was answered; zero before the first answer
	began     boottime.Time // when this server got the uplink
	mode      grant.Mode
	why       string // why there is no session, "" if there is one

	cookie        string        // of the latest session of this server, "" before the first one
	cookieChanged chan struct{} // closed when it changes
	summary       []byte        // that was sent to the hub last
}

// NewUplink returns an Uplink. The given view keeps it up to date.
func NewUplink(view *cache.View) *Uplink {
	u := &Uplink{
		view: view, Heartbeat: DefaultHeartbeat, SummaryEvery: time.Second, DescribeEvery: DescribeEvery, ClaimAhead: DefaultClaimAhead, LateAfter: time.Minute, Boot: boottime.Now,
		suspended: map[ares.JobID]int64{}, touched: map[ares.JobID]bool{}, news: make(chan struct{}, 1), mode: grant.Autonomous, why: "not connected yet",
		cookieChanged: make(chan struct{}),
	}
	view.Feed(u.apply)
	return u
}

// The method `apply` notes which jobs changed. The view is locked while it runs, so it only notes.
func (u *Uplink) apply(b ares.Batch) {
	u.mu.Lock()
	for i := range b.Events {
		switch e := &b.Events[i]; {
		case e.Job != nil && e.Job.Origin != nil:
			u.touched[e.Job.ID] = true
		case e.Run != nil:
			u.touched[e.Run.Job] = true // it may be a granted job's; the session looks at the job
		}
	}
	u.mu.Unlock()
	wake(u.news)
}

func (u *Uplink) takeTouched() map[ares.JobID]bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := u.touched
	u.touched = map[ares.JobID]bool{}
	return out
}

// Mode says whether the hub answers. Age is how long ago the last answered heartbeat was sent; it is negative before the
// first answer. Why says why there is no session.
func (u *Uplink) Mode() (mode grant.Mode, age time.Duration, why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answered.IsZero() {
		return u.mode, -1, u.why
	}
	return u.mode, u.Boot().Sub(u.answered), u.why
}

// Run keeps a session with the hub until ctx ends. It runs while this server leads its cluster.
func (u *Uplink) Run(ctx context.Context, lead *store.Leadership) error {
	u.lead = lead
	u.mu.Lock()
	u.answered, u.began = 0, u.Boot() // another server may have had the uplink: nothing is known before the first answer
	u.cookie = ""
	u.mu.Unlock()
	var wg sync.WaitGroup
	wg.Go(func() { u.watchMode(ctx) })
	wg.Go(func() { u.serveReads(ctx) })
	defer wg.Wait()
	for wait := retryFirst; ; {
		began := time.Now()
		err := u.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Since(began) > retryLongest {
			wait = retryFirst
		}
		u.mu.Lock()
		u.why = err.Error()
		u.mu.Unlock()
		u.Log.Warn("the session with the hub ended and is opened again", "error", err, "in", wait)
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, retryLongest)
	}
}

// These are the shortest and the longest time between two attempts to open a session.
const (
	retryFirst   = 100 * time.Millisecond
	retryLongest = 2 * time.Second
)

// watchMode keeps the mode up to date while there is no session, and stops fenced jobs in time.
func (u *Uplink) watchMode(ctx context.Context) {
	for {
		now := u.Boot()
		u.setMode(now)
		u.stopFenced(ctx, now)
		wait := max(u.Heartbeat/4, time.Millisecond)
		if left := u.untilAutonomous(u.Boot()); left > 0 {
			wait = min(wait, left)
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// untilAutonomous returns the time after which the hub counts as silent if it answers no more, or 0 if it does already.
func (u *Uplink) untilAutonomous(now boottime.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.answered.IsZero() {
		return 0
	}
	return max(grant.Missed*u.Heartbeat-now.Sub(u.answered), 0)
}

func (u *Uplink) setMode(now boottime.Time) {
	u.mu.Lock()
	mode := grant.Autonomous
	if !u.answered.IsZero() {
		mode = grant.ModeAt(now.Sub(u.answered), u.Heartbeat)
	}
	changed := mode != u.mode
	u.mode = mode
	u.mu.Unlock()
	if changed {
		u.Log.Info("the mode of this cluster changed", "mode", mode)
		if u.ModeChanged != nil {
			u.ModeChanged(mode)
		}
	}
}

// acknowledged records the answer to a heartbeat that was sent at the given time. The age of the link counts from the
// sending, because the hub may have fallen silent right after it received the heartbeat.
func (u *Uplink) acknowledged(sent, now boottime.Time) {
	u.mu.Lock()
	u.answered = max(u.answered, sent)
	u.mu.Unlock()
	u.setMode(now)
}

var errSilent = errors.New("the hub does not answer heartbeats")
