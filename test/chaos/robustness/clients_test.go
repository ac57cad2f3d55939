package robustness_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
)

// A `crowd` holds the clients of a run. Each client makes one call at a time,
// without retries, to a server of its choice. It records the call and its
// answer.
type crowd struct {
	fleet    *fleet
	record   *trace.Writer
	recorder *recorder
	witness  string // the program that the jobs run
	seed     uint64
	most     int // limit of unfinished jobs

	mu    sync.Mutex
	known []*apipb.JobSpec // submitted jobs, whatever the answer was
}

const (
	clients     = 6
	callTimeout = 4 * time.Second
)

// The variable `quotas` holds the number of GPUs that each tenant may use at
// the same time.
var quotas = map[string]int{"blue": 10, "green": 18}

// This method runs the clients until ctx ends.
func (c *crowd) run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { c.work(ctx, i) })
	}
	wg.Wait()
}

func (c *crowd) work(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(c.seed, uint64(1000+i)))
	at := make([]*client.Client, members)
	for k := range at {
		at[k] = c.fleet.client(k, callTimeout)
		defer at[k].Close()
	}
	seen := int64(0) // the highest revision that this client has seen
	for n := 0; ctx.Err() == nil; n++ {
		k := rng.IntN(members)
		call := trace.Call{Client: i, Server: c.fleet.controls[k].name}
		switch p := rng.IntN(100); {
		case p < 40 && c.recorder.unfinished() < c.most:
			c.submit(ctx, at[k], &call, c.newJob(rng, i, n), "a")
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
			if err := c.record.Call(call); err != nil {
				c.fleet.t.Error(err)
			}
		}
		rest(ctx, time.Duration(20+rng.IntN(120))*time.Millisecond)
	}
}

// newJob generates the n-th job of a client.
func (c *crowd) newJob(rng *rand.Rand, client, n int) *apipb.JobSpec {
	life := time.Duration(50+rng.IntN(800)) * time.Millisecond
	switch p := rng.IntN(10); {
	case p < 3:
		life = time.Duration(1000+rng.IntN(3000)) * time.Millisecond
	case p < 4:
		life = time.Duration(5000+rng.IntN(7000)) * time.Millisecond
	}
	spec := &apipb.JobSpec{
		RequestId: fmt.Sprintf("seed-%d-client-%d-%d", c.seed, client, n), TenantId: []string{"blue", "green", "default"}[rng.IntN(3)],
		Name: fmt.Sprintf("job-%d-%d", client, n), LostAfterSeconds: int32(6 + rng.IntN(7)), GraceSeconds: new(int32(1)),
		GpuCount: []int32{1, 1, 1, 1, 2, 2, 4}[rng.IntN(7)], Environment: map[string]string{},
		Command: []string{c.witness, "-to", c.record.Dir + "/" + trace.JobsDir, "-for", life.String()},
	}
	if rng.IntN(5) == 0 {
		spec.Members, spec.GpuCount = int32(2+rng.IntN(3)), int32(1+rng.IntN(2))
	} else if rng.IntN(16) == 0 {
		spec.GpuCount, spec.GpuMilli = 0, 500
		spec.Environment["WITNESS_SHARES"] = "yes"
	}
	if spec.Members > 1 && rng.IntN(2) == 0 {
		spec.MinMembers = 1
	}
	// Use several priority classes, so that some jobs preempt others.
	spec.PriorityClass = string([]ares.Class{ares.BestEffort, ares.Low, ares.Normal, ares.Normal, ares.High, ares.Critical}[rng.IntN(6)])
	if rng.IntN(10) == 0 {
		spec.Array = &apipb.Array{Count: int32(1 + rng.IntN(4)), Parallelism: 1}
		spec.Array.Parallelism += rng.Int32N(spec.Array.Count)
	}
	switch rng.IntN(20) {
	case 0:
		spec.Command = append(spec.Command, "-deaf")
	case 1:
		spec.Command = append(spec.Command, "-orphan")
	case 2:
		spec.Command = append(spec.Command, "-exit", "3")
	case 3, 4:
		spec.Command = append(spec.Command, "-fails", strconv.Itoa(1+rng.IntN(2)))
		spec.Retry = &apipb.RetryPolicy{MaxRetries: new(int32(3)), InitialBackoffSeconds: 0.2, RetryOn: []string{string(ares.RetryOnFailure)}}
	case 5, 6:
		spec.ExecutionMode = string(ares.AtMostOnce)
	}
	return spec
}

func (c *crowd) submit(ctx context.Context, at *client.Client, call *trace.Call, spec *apipb.JobSpec, body string) {
	if body == "a" {
		c.mu.Lock()
		c.known = append(c.known, spec)
		c.mu.Unlock()
	}
	call.Op, call.Request, call.Body = trace.Submit, spec.GetRequestId(), body
	call.Job = string(ares.NewJobID(spec.GetTenantId(), spec.GetRequestId()))
	call.Start = trace.Now()
	answer, err := at.Submit(ctx, spec)
	if finish(call, err) {
		call.Duplicate = answer.GetStatus() == "duplicate"
	}
}

// submitAgain repeats a request of any client, sometimes with a different body.
func (c *crowd) submitAgain(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.pick(rng)
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

func (c *crowd) get(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.pick(rng)
	if spec == nil {
		return
	}
	call.Op, call.Job = trace.Get, idOf(spec)
	call.Start = trace.Now()
	job, err := at.Job(ctx, call.Job)
	if finish(call, err) {
		call.Phase, call.Attempt, call.Stop = ares.Phase(job.GetState()), int(job.GetAttempt()), job.GetStop().GetWhy()
		call.Revision = number(job.GetRevision())
	}
}

func (c *crowd) cancel(ctx context.Context, at *client.Client, call *trace.Call, rng *rand.Rand) {
	spec := c.pick(rng)
	if spec == nil {
		return
	}
	call.Op, call.Job = trace.Cancel, idOf(spec)
	call.Start = trace.Now()
	answer, err := at.Cancel(ctx, call.Job)
	if finish(call, err) {
		call.Phase = ares.Phase(answer.GetStatus())
	}
}

// This method reads every page of a server's job list. If something changes
// between two pages, the pages do not belong to one revision. In this case the
// jobs are not recorded.
func (c *crowd) list(ctx context.Context, at *client.Client, call *trace.Call) {
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

// The method `pick` returns a random submitted job. Recently submitted jobs are
// more likely.
func (c *crowd) pick(rng *rand.Rand) *apipb.JobSpec {
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

func idOf(spec *apipb.JobSpec) string {
	return string(ares.NewJobID(spec.GetTenantId(), spec.GetRequestId()))
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// This function waits for the duration d. If ctx ends first, it returns false.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
