package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/client"
)

// demoServer is a private server in a temporary directory. The demo server has no agents, because the demos act as the nodes through the
// agent service.
type demoServer struct {
	admin *client.Client
	node  *client.Client
	close func() error
}

// zombieTTL is the session timeout in the demo with an unresponsive node. zombieTTL is shorter than
// the default timeout of 20 s, so that the demo is short.
const zombieTTL = 4 * time.Second

// demoTimeout is the time limit of a demo.
const demoTimeout = 3 * time.Minute

func (a *commands) demoCommand() *cobra.Command {
	demos := []struct {
		name, short string
		ttl         time.Duration // lifetime of a node's session
		play        func(*demo, context.Context) error
	}{
		{"idempotency", "Show that repeating a request creates only one job", time.Minute, (*demo).idempotency},
		{"lease", "Show that Ares rejects a second claim of a job and an outdated fencing token", time.Minute, (*demo).lease},
		{"retry", "Show that a failing job is retried with growing delays", time.Minute, (*demo).retry},
		{"gpu", "Show that a job gets the GPUs with the fastest link", time.Minute, (*demo).gpus},
		{"exactly-once", "Show that a node that was declared lost cannot commit a result", zombieTTL, (*demo).exactlyOnce},
	}
	c := command.Group("demo", "Demonstrate a guarantee of Ares on a private server", "  ares demo idempotency", "Each demo starts a private server in a temporary directory and stops it afterwards.")
	for _, d := range demos {
		c.AddCommand(&cobra.Command{
			Use: d.name, Short: d.short, Example: "  ares demo " + d.name, Args: command.ExactArgs(),
			RunE: func(cmd *cobra.Command, _ []string) error {
				ctx, cancel := context.WithTimeout(cmd.Context(), demoTimeout)
				defer cancel()
				st, err := a.startDemoServer(ctx, d.ttl)
				if err != nil {
					return fmt.Errorf("prepare the demo: %w", err)
				}
				output.Printf(a.Out, "%s: %s.\n\n", d.name, d.short)
				err = d.play(&demo{app: a, demoServer: st, begin: a.Now()}, ctx)
				if err = errors.Join(err, st.close()); err != nil {
					return err
				}
				output.Printf(a.Out, "\nIt holds.\n")
				return nil
			},
		})
	}
	return c
}

// The type `demo` is one demonstration on a demoServer. A demo's methods print each step and fail if Ares does not
// behave as described.
type demo struct {
	*demoServer
	app   *commands
	begin time.Time
}

func (d *demo) tell(format string, args ...any) {
	output.Printf(d.app.Out, "%6.2fs  %s\n", d.app.Now().Sub(d.begin).Seconds(), output.Clean(fmt.Sprintf(format, args...)))
}

// The method `refused` checks that a call failed with one of the expected error codes.
func (d *demo) refused(what string, err error, want ...ares.Code) error {
	if err == nil {
		return fmt.Errorf("%s was accepted, but it must be refused", what)
	}
	err = apipb.FromStatus(err)
	for _, code := range want {
		if ares.CodeOf(err) == code {
			d.tell("%s is refused: %s", what, err)
			return nil
		}
	}
	return fmt.Errorf("%s: the server returned an unexpected error: %w", what, err)
}

func (d *demo) idempotency(ctx context.Context) error {
	const times = 10
	spec := &apipb.JobSpec{RequestId: client.NewRequestID(), Name: "demo", Command: []string{"true"}}
	var wg sync.WaitGroup
	answers, errs := make([]*apipb.SubmitJobResponse, times), make([]error, times)
	for i := range times {
		wg.Go(func() { answers[i], errs[i] = d.admin.Submit(ctx, spec) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	count := map[string]int{}
	for _, answer := range answers {
		count[answer.GetStatus()]++
		if answer.GetJobId() != answers[0].GetJobId() {
			return fmt.Errorf("one request created two jobs: %s and %s", answers[0].GetJobId(), answer.GetJobId())
		}
	}
	d.tell("request %s was sent %d times at once", spec.GetRequestId(), times)
	d.tell("every answer names %s: %d submitted, %d duplicate", answers[0].GetJobId(), count["submitted"], count["duplicate"])
	if count["submitted"] != 1 {
		return fmt.Errorf("%d submissions were reported as new, expected 1", count["submitted"])
	}
	other := &apipb.JobSpec{RequestId: spec.GetRequestId(), Name: "demo", Command: []string{"false"}}
	_, err := d.admin.Submit(ctx, other)
	if err = d.refused("the same request_id with another command", err, ares.Conflict); err != nil {
		return err
	}
	job, err := d.admin.Job(ctx, answers[0].GetJobId())
	if err != nil {
		return err
	}
	list, err := d.admin.Jobs(ctx, &apipb.ListJobsRequest{Name: "demo", MinRevision: job.GetRevision()})
	if err != nil {
		return err
	}
	d.tell("the store holds %d job", list.GetTotal())
	if list.GetTotal() > 1 {
		return fmt.Errorf("one request created %d jobs, expected 1", list.GetTotal())
	}
	return nil
}

func (d *demo) lease(ctx context.Context) error {
	a, err := d.join(ctx, "node-a", client.NewRequestID())
	if err != nil {
		return err
	}
	id, err := d.submit(ctx, &apipb.JobSpec{Name: "demo-lease", Command: []string{"true"}})
	if err != nil {
		return err
	}
	seat, err := a.seat(ctx, id, 1)
	if err != nil {
		return err
	}
	d.tell("%s is placed on node-a under fence %d", id, seat.GetFence())
	if err = a.claim(ctx, seat); err != nil {
		return err
	}
	d.tell("node-a claims the seat")
	b, err := d.join(ctx, "node-b", client.NewRequestID())
	if err != nil {
		return err
	}
	if err = d.refused("node-b's claim of the same seat", b.claim(ctx, seat), ares.Fenced, ares.Conflict, ares.Forbidden, ares.Invalid, ares.NotFound); err != nil {
		return err
	}
	_, err = d.join(ctx, "node-a", client.NewRequestID())
	if err = d.refused("a second agent that calls itself node-a", err, ares.Conflict, ares.Fenced, ares.Forbidden); err != nil {
		return err
	}
	old := &apipb.SeatRef{JobId: id, Fence: seat.GetFence() - 1}
	if err = d.refused(fmt.Sprintf("a commit with fence %d", old.GetFence()), a.finish(ctx, old, 0), ares.Fenced); err != nil {
		return err
	}
	return d.commit(ctx, a, seat)
}

// The method `commit` reports that a job succeeded, and checks the job's state.
func (d *demo) commit(ctx context.Context, p *demoAgent, seat *apipb.SeatRef) error {
	if err := errors.Join(p.finish(ctx, seat, 0), p.release(ctx, seat)); err != nil {
		return err
	}
	job, err := d.admin.Wait(ctx, seat.GetJobId())
	if err != nil {
		return err
	}
	d.tell("%s commits with fence %d and releases its devices: the job is %s", p.name, seat.GetFence(), job.GetState())
	if job.GetState() != string(ares.Succeeded) {
		return fmt.Errorf("the job is %s, want succeeded", job.GetState())
	}
	return nil
}

func (d *demo) retry(ctx context.Context) error {
	a, err := d.join(ctx, "node-a", client.NewRequestID())
	if err != nil {
		return err
	}
	const retries = 3
	id, err := d.submit(ctx, &apipb.JobSpec{
		Name: "demo-retry", Command: []string{"false"},
		Retry: &apipb.RetryPolicy{MaxRetries: new(int32(retries)), InitialBackoffSeconds: 0.5, Multiplier: 2, MaxBackoffSeconds: 60},
	})
	if err != nil {
		return err
	}
	d.tell("%s may be retried %d times: 0.5s, doubled each time, give or take a quarter", id, retries)
	for n := 1; n <= retries+1; n++ {
		if err = d.failOnce(ctx, a, id, n); err != nil {
			return err
		}
	}
	job, err := d.admin.Wait(ctx, id)
	if err != nil {
		return err
	}
	if job.GetState() != string(ares.Failed) {
		return fmt.Errorf("the job is %s, want failed", job.GetState())
	}
	return nil
}

// failOnce runs attempt n of a job and lets the attempt fail.
func (d *demo) failOnce(ctx context.Context, p *demoAgent, id string, n int) error {
	seat, err := p.seat(ctx, id, n)
	if err != nil {
		return err
	}
	if err = errors.Join(p.claim(ctx, seat), p.finish(ctx, seat, 1), p.release(ctx, seat)); err != nil {
		return err
	}
	job, err := d.admin.WaitUntil(ctx, id, func(j *apipb.Job) bool { return int(j.GetAttempt()) == n && !ares.Phase(j.GetState()).Active() })
	if err != nil {
		return err
	}
	d.tell("attempt %d, fence %d, ends with exit code 1: the job is %s (%s)", n, seat.GetFence(), job.GetState(), job.GetReason())
	return nil
}

func (d *demo) exactlyOnce(ctx context.Context) error {
	a, err := d.join(ctx, "node-a", client.NewRequestID())
	if err != nil {
		return err
	}
	id, err := d.submit(ctx, &apipb.JobSpec{Name: "demo-zombie", Command: []string{"true"}, LostAfterSeconds: int32(zombieTTL / time.Second)})
	if err != nil {
		return err
	}
	first, err := a.seat(ctx, id, 1)
	if err != nil {
		return err
	}
	if err = a.claim(ctx, first); err != nil {
		return err
	}
	d.tell("node-a claims %s under fence %d, and falls silent", id, first.GetFence())
	d.tell("its job is given to another after lost_after_seconds, %.0f here; a real node's supervisor would have killed it before", zombieTTL.Seconds())
	_, err = d.admin.WaitUntil(ctx, id, func(j *apipb.Job) bool { return j.GetState() != string(ares.Running) })
	if err != nil {
		return err
	}
	d.tell("node-a's session has ended and its seat is void: the job waits again")
	b, err := d.join(ctx, "node-b", client.NewRequestID())
	if err != nil {
		return err
	}
	second, err := b.seat(ctx, id, 2)
	if err != nil {
		return err
	}
	if err = b.claim(ctx, second); err != nil {
		return err
	}
	d.tell("node-b claims it under fence %d, which is higher", second.GetFence())
	what := fmt.Sprintf("the zombie's commit with fence %d", first.GetFence())
	if err = d.refused(what, a.finish(ctx, first, 0), ares.Fenced); err != nil {
		return err
	}
	if err = d.commit(ctx, b, second); err != nil {
		return err
	}
	return d.refused(what+", once more", a.finish(ctx, first, 0), ares.Fenced)
}

func (d *demo) submit(ctx context.Context, spec *apipb.JobSpec) (string, error) {
	answer, err := d.admin.Submit(ctx, spec)
	return answer.GetJobId(), err
}

// demoAgent is a node agent that a demo controls.
type demoAgent struct {
	name string
	api  apipb.AgentServiceClient
	ref  *apipb.SessionRef
}

func (d *demo) join(ctx context.Context, name, instance string) (*demoAgent, error) {
	return d.joinAs(ctx, instance, &apipb.NodeInfo{
		NodeId: name, Address: "127.0.0.1", CpuCores: 8, MemoryMb: 16384, Mock: true, Contains: true, Version: d.app.Version,
	})
}

func (d *demo) joinAs(ctx context.Context, instance string, node *apipb.NodeInfo) (*demoAgent, error) {
	p := &demoAgent{name: node.GetNodeId(), api: apipb.NewAgentServiceClient(d.node.Conn())}
	answer, err := p.api.OpenSession(ctx, &apipb.OpenSessionRequest{Instance: instance, Node: node})
	if err != nil {
		return nil, apipb.FromStatus(err)
	}
	p.ref = &apipb.SessionRef{NodeId: p.name, Session: answer.GetSession()}
	if _, err := p.api.ReportClean(ctx, &apipb.ReportCleanRequest{Ref: p.ref}); err != nil {
		return nil, apipb.FromStatus(err)
	}
	return p, nil
}

// The method `seat` waits until the server sends a seat in attempt n of a job to the node, and returns the seat.
func (p *demoAgent) seat(ctx context.Context, job string, n int) (*apipb.SeatRef, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := p.api.WatchSeats(ctx, &apipb.WatchSeatsRequest{Ref: p.ref})
	if err != nil {
		return nil, apipb.FromStatus(err)
	}
	for {
		now, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("wait for an allocation on %s: %w", p.name, apipb.FromStatus(err))
		}
		for _, order := range now.GetSeats() {
			if order.GetSeat().GetJobId() == job && int(order.GetAttempt()) == n && order.GetState() == string(ares.SeatPlaced) {
				return order.GetSeat(), nil
			}
		}
	}
}

func (p *demoAgent) claim(ctx context.Context, seat *apipb.SeatRef) error {
	_, err := p.api.ClaimSeat(ctx, &apipb.ClaimSeatRequest{Ref: p.ref, Seat: seat})
	return apipb.FromStatus(err)
}

func (p *demoAgent) finish(ctx context.Context, seat *apipb.SeatRef, exit int32) error {
	result := &apipb.RankResult{Outcome: string(ares.OutcomeSucceeded), ExitCode: exit}
	if exit != 0 {
		result.Outcome, result.Reason = string(ares.OutcomeFailed), fmt.Sprintf("exit code %d", exit)
	}
	_, err := p.api.FinishSeat(ctx, &apipb.FinishSeatRequest{Ref: p.ref, Seat: seat, Result: result})
	return apipb.FromStatus(err)
}

func (p *demoAgent) release(ctx context.Context, seat *apipb.SeatRef) error {
	_, err := p.api.ReleaseSeat(ctx, &apipb.ReleaseSeatRequest{Ref: p.ref, Seat: seat})
	return apipb.FromStatus(err)
}
