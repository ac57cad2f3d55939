// Package crowd is the clients of a chaos suite. They submit, read, list and cancel jobs, and record each call with its answer.
package crowd

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// Crowd holds clients of the servers of one store. Each client makes one call at a time, without retries, to a server of its
// choice. It records the call and its answer.
type Crowd struct {
	T       testing.TB
	Clients int
	Servers []string                        // their names
	Dial    func(server int) *client.Client // a new client of one server, which must not repeat calls
	Record  *trace.Writer
	Seed    uint64
	// Most is the largest number of unfinished jobs; Unfinished counts them.
	Most       int
	Unfinished func() int
	// While Away returns true, the clients call nothing. It may be nil.
	Away func() bool
	// NewJob returns the n-th job of a client, and ID the ID that it will get.
	NewJob func(rng *rand.Rand, client, n int) *apipb.JobSpec
	ID     func(tenant, request string) ares.JobID

	mu    sync.Mutex
	known []*apipb.JobSpec // submitted jobs, whatever the answer was
}

// CallTimeout is the time limit of one call.
const CallTimeout = 4 * time.Second

// Run runs the clients until ctx ends.
func (c *Crowd) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range c.Clients {
		wg.Go(func() { c.work(ctx, i) })
	}
	wg.Wait()
}

func (c *Crowd) work(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(c.Seed, uint64(1000+i)))
	at := make([]*client.Client, len(c.Servers))
	for k := range at {
		at[k] = c.Dial(k)
		defer func() { _ = at[k].Close() }() // every call has ended
	}
	seen := int64(0) // the highest revision that this client has seen
	for n := 0; ctx.Err() == nil; n++ {
		if c.Away != nil && c.Away() {
			pause.For(ctx, 100*time.Millisecond)
			continue
		}
		k := rng.IntN(len(at))
		call := trace.Call{Client: i, Server: c.Servers[k]}
		switch p := rng.IntN(100); {
		case p < 40 && c.Unfinished() < c.Most:
			c.submit(ctx, at[k], &call, c.NewJob(rng, i, n), "a")
		case p < 46:
			c.submitAgain(ctx, at[k], &call, rng)
		case p < 52:
			c.cancel(ctx, at[k], &call, rng)
		case p < 58:
			call.MinRevision = seen * int64(rng.IntN(2))
			c.list(ctx, at[k], &call)
		default:
			c.get(ctx, at[k], &call, rng)
		}
		if call.Op != "" {
			seen = max(seen, call.Revision)
			if err := c.Record.Call(call); err != nil {
				c.T.Error(err)
			}
		}
		pause.For(ctx, time.Duration(20+rng.IntN(120))*time.Millisecond)
	}
}

func (c *Crowd) submit(ctx context.Context, at *client.Client, call *trace.Call, spec *apipb.JobSpec, body string) {
	if body == "a" {
		c.mu.Lock()
		c.known = append(c.known, spec)
		c.mu.Unlock()
	}
	call.Op, call.Request, call.Body = trace.Submit, spec.GetRequestId(), body
	call.Job = c.idOf(spec)
	call.Start = trace.Now()
	answer, err := at.Submit(ctx, spec)
	if finish(call, err) {
		call.Duplicate = answer.GetStatus() == "duplicate"
	}
}

// submitAgain repeats a request of any client, sometimes with a different body.
func (c *Crowd) submitAgain(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.Pick(rng)
	if spec == nil {
		return
	}
	if rng.IntN(3) > 0 {
		c.submit(ctx, at, call, spec, "again")
		call.Body = "a"
		return
	}
	other := proto.CloneOf(spec)
	other.Name = "other"
	c.submit(ctx, at, call, other, "b")
}

func (c *Crowd) get(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.Pick(rng)
	if spec == nil {
		return
	}
	call.Op, call.Job = trace.Get, c.idOf(spec)
	call.Start = trace.Now()
	job, err := at.Job(ctx, call.Job)
	if finish(call, err) {
		call.Phase, call.Attempt, call.Stop = ares.Phase(job.GetState()), int(job.GetAttempt()), job.GetStop().GetWhy()
		call.Revision = number(job.GetRevision())
	}
}

func (c *Crowd) cancel(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.Pick(rng)
	if spec == nil {
		return
	}
	call.Op, call.Job = trace.Cancel, c.idOf(spec)
	call.Start = trace.Now()
	answer, err := at.Cancel(ctx, call.Job)
	if finish(call, err) {
		call.Phase = ares.Phase(answer.GetStatus())
	}
}

// This method reads every page of a server's job list. If something changes
// between two pages, the pages do not belong to one revision. In this case the
// jobs are not recorded.
func (c *Crowd) list(ctx context.Context, at *client.Client, call *trace.Call) {
	call.Op, call.Start = trace.List, trace.Now()
	req := &apipb.ListJobsRequest{PageSize: 1000}
	if call.MinRevision > 0 {
		req.MinRevision = strconv.FormatInt(call.MinRevision, 10)
	}
	answer, err := at.Jobs(ctx, req)
	if !finish(call, err) {
		return
	}
	call.Revision = number(answer.GetRevision())
	if answer.GetNextPageToken() != "" {
		return
	}
	call.Listed = []trace.Listed{}
	for _, j := range answer.GetJobs() {
		call.Listed = append(call.Listed, trace.Listed{Job: j.GetJobId(), Phase: ares.Phase(j.GetState()), Revision: number(j.GetRevision())})
	}
}

// Pick returns a random submitted job, or nil. Recently submitted jobs are more likely.
func (c *Crowd) Pick(rng *rand.Rand) *apipb.JobSpec {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.known)
	if n == 0 {
		return nil
	}
	if recent := 60; n > recent && rng.IntN(4) > 0 {
		return c.known[n-1-rng.IntN(recent)]
	}
	return c.known[rng.IntN(n)]
}

// This function records how a call ended, and reports whether the call
// succeeded.
func finish(call *trace.Call, err error) bool {
	call.End, call.Outcome = trace.Now(), trace.OK
	if err == nil {
		return true
	}
	code := ares.CodeOf(err)
	call.Code, call.Error, call.Outcome = string(code), err.Error(), trace.Unknown
	notDone := []ares.Code{
		ares.Invalid, ares.Conflict, ares.NotFound, ares.TooLarge, ares.Exhausted, ares.Unauthentic, ares.Forbidden,
	}
	if slices.Contains(notDone, code) || code.Rejects() {
		call.Outcome = trace.Refused
	}
	return false
}

func (c *Crowd) idOf(spec *apipb.JobSpec) string {
	return string(c.ID(spec.GetTenantId(), spec.GetRequestId()))
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}
