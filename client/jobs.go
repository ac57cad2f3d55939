package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// These constants limit the number of jobs and the number of bytes in one batch call. SubmitBatch
// splits larger batches into several calls.
const (
	maxBatchJobs  = 1000
	maxBatchBytes = 2 << 20
)

// NewRequestID returns a new random request ID.
func NewRequestID() string { return "req-" + strings.ToLower(rand.Text()) }

// Submit submits a job. If the argument `spec` has no request_id, Submit generates one before the first try. All
// tries then use the same ID, so the job is accepted only once. To repeat a submission from another process, set
// your own request_id.
func (c *Client) Submit(ctx context.Context, spec *apipb.JobSpec) (*apipb.SubmitJobResponse, error) {
	spec = identified(spec)
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.SubmitJobResponse, error) {
		return apipb.NewJobServiceClient(conn).SubmitJob(ctx, &apipb.SubmitJobRequest{Job: spec})
	})
	if ares.CodeOf(err) == ares.Unavailable {
		return nil, fmt.Errorf("submit with request_id %s: %w", spec.GetRequestId(), err)
	}
	return answer, err
}

func identified(spec *apipb.JobSpec) *apipb.JobSpec {
	if spec.GetRequestId() != "" {
		return spec
	}
	spec = proto.CloneOf(spec)
	if spec == nil {
		spec = &apipb.JobSpec{}
	}
	spec.RequestId = NewRequestID()
	return spec
}

// SubmitBatch submits many jobs and returns one result for each, in the same
// order. SubmitBatch makes several calls if the jobs exceed the limits of one
// call. If a call fails, SubmitBatch returns the error and the results of the calls before it.
func (c *Client) SubmitBatch(ctx context.Context, specs []*apipb.JobSpec) (*apipb.SubmitJobsResponse, error) {
	all := &apipb.SubmitJobsResponse{}
	for len(specs) > 0 {
		req, size := &apipb.SubmitJobsRequest{}, 0
		for len(specs) > 0 && len(req.Jobs) < maxBatchJobs {
			spec := identified(specs[0])
			size += proto.Size(spec)
			if len(req.Jobs) > 0 && size > maxBatchBytes {
				break
			}
			req.Jobs, specs = append(req.Jobs, spec), specs[1:]
		}
		answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.SubmitJobsResponse, error) {
			return apipb.NewJobServiceClient(conn).SubmitJobs(ctx, req)
		})
		if err != nil {
			return all, fmt.Errorf("submit jobs %d to %d: %w", len(all.Results)+1, len(all.Results)+len(req.Jobs), err)
		}
		all.Results = append(all.Results, answer.GetResults()...)
		all.Accepted += answer.GetAccepted()
		all.Duplicates += answer.GetDuplicates()
		all.Refused += answer.GetRefused()
	}
	return all, nil
}

// Job reads the current state of one job.
func (c *Client) Job(ctx context.Context, id string) (*apipb.Job, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetJobResponse, error) {
		return apipb.NewJobServiceClient(conn).GetJob(ctx, &apipb.GetJobRequest{JobId: id})
	})
	return answer.GetJob(), err
}

// ConsistentJob is Job, except that a hub asks the cluster that owns the job. If that cluster cannot be reached, the answer is the
// hub's copy and has a StaleReason.
func (c *Client) ConsistentJob(ctx context.Context, id string) (*apipb.Job, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetJobResponse, error) {
		return apipb.NewJobServiceClient(conn).GetJob(ctx, &apipb.GetJobRequest{JobId: id, Consistent: true})
	})
	return answer.GetJob(), err
}

// Jobs reads one page of a list of jobs. For the next page, put the answer's next_page_token into
// req.
func (c *Client) Jobs(ctx context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJobsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListJobs(ctx, req)
	})
}

// AllJobs iterates over all jobs of a list and reads the list page by page. The iteration ends
// after the first error.
func (c *Client) AllJobs(ctx context.Context, req *apipb.ListJobsRequest) iter.Seq2[*apipb.Job, error] {
	return func(yield func(*apipb.Job, error) bool) {
		page := &apipb.ListJobsRequest{}
		proto.Merge(page, req)
		for {
			answer, err := c.Jobs(ctx, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, job := range answer.GetJobs() {
				if !yield(job, nil) {
					return
				}
			}
			if page.PageToken = answer.GetNextPageToken(); page.PageToken == "" {
				return
			}
		}
	}
}

// Preemptions reads one page of preemptions, newest first. For the next page, put the answer's next_page_token into
// req.
func (c *Client) Preemptions(ctx context.Context, req *apipb.ListPreemptionsRequest) (*apipb.ListPreemptionsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListPreemptionsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListPreemptions(ctx, req)
	})
}

// PlanConsolidation returns which running jobs would be moved now so that waiting jobs fit. It also returns the gain
// and the cost of the moves.
func (c *Client) PlanConsolidation(ctx context.Context) (*apipb.PlanConsolidationResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PlanConsolidationResponse, error) {
		return apipb.NewJobServiceClient(conn).PlanConsolidation(ctx, &apipb.PlanConsolidationRequest{})
	})
}

// Cancel cancels a job in any phase. A cancelled job's devices stay allocated until its processes
// are dead. If states are given, the job is cancelled only if it is in one of them.
func (c *Client) Cancel(ctx context.Context, id string, states ...string) (*apipb.CancelJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CancelJobResponse, error) {
		return apipb.NewJobServiceClient(conn).CancelJob(ctx, &apipb.CancelJobRequest{JobId: id, State: states})
	})
}

// Update changes fields of a job that has not ended. Repeating the call changes nothing more.
func (c *Client) Update(ctx context.Context, req *apipb.UpdateJobRequest) (*apipb.UpdateJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.UpdateJobResponse, error) {
		return apipb.NewJobServiceClient(conn).UpdateJob(ctx, req)
	})
}

// Hold keeps a waiting job from starting until it is released. Holding a held job changes nothing.
func (c *Client) Hold(ctx context.Context, id string) (*apipb.HoldJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.HoldJobResponse, error) {
		return apipb.NewJobServiceClient(conn).HoldJob(ctx, &apipb.HoldJobRequest{JobId: id})
	})
}

// Release ends the hold of a job. Releasing a job that is not held changes nothing.
func (c *Client) Release(ctx context.Context, id string) (*apipb.ReleaseJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ReleaseJobResponse, error) {
		return apipb.NewJobServiceClient(conn).ReleaseJob(ctx, &apipb.ReleaseJobRequest{JobId: id})
	})
}

// Retry submits a finished job again as a new job. Repeating the call with the
// same requestID returns the same job. If requestID is "", Retry generates one.
func (c *Client) Retry(ctx context.Context, id, requestID string) (*apipb.RetryJobResponse, error) {
	if requestID == "" {
		requestID = NewRequestID()
	}
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RetryJobResponse, error) {
		return apipb.NewJobServiceClient(conn).RetryJob(ctx, &apipb.RetryJobRequest{JobId: id, RequestId: requestID})
	})
}

// Events lists the transitions of a job.
func (c *Client) Events(ctx context.Context, id string) (*apipb.ListJobEventsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJobEventsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListJobEvents(ctx, &apipb.ListJobEventsRequest{JobId: id})
	})
}

// Explain lists every reason why a waiting job does not start.
func (c *Client) Explain(ctx context.Context, id string) (*apipb.Explanation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ExplainJobResponse, error) {
		return apipb.NewJobServiceClient(conn).ExplainJob(ctx, &apipb.ExplainJobRequest{JobId: id})
	})
	return answer.GetExplanation(), err
}

// Plan returns where a job would be placed now, or why it would wait. Nothing changes.
func (c *Client) Plan(ctx context.Context, spec *apipb.JobSpec) (*apipb.PlanJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PlanJobResponse, error) {
		return apipb.NewJobServiceClient(conn).PlanJob(ctx, &apipb.PlanJobRequest{Job: spec})
	})
}

// Predict predicts the runtime of a job that has not been submitted. Nothing changes.
func (c *Client) Predict(ctx context.Context, spec *apipb.JobSpec) (*apipb.RuntimeForecast, error) {
	return c.predict(ctx, &apipb.PredictJobRequest{Job: spec})
}

// Forecast predicts the runtime of a submitted job.
func (c *Client) Forecast(ctx context.Context, id string) (*apipb.RuntimeForecast, error) {
	return c.predict(ctx, &apipb.PredictJobRequest{JobId: id})
}

func (c *Client) predict(ctx context.Context, req *apipb.PredictJobRequest) (*apipb.RuntimeForecast, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PredictJobResponse, error) {
		return apipb.NewJobServiceClient(conn).PredictJob(ctx, req)
	})
	return answer.GetForecast(), err
}

// Wait polls the job: with short delays at first, and later once per second.
// Wait tolerates an unreachable server for a limited time.
const (
	firstPoll = 50 * time.Millisecond
	slowPoll  = time.Second
	maxAway   = time.Minute
)

// Wait returns the job once it is in a final phase. Wait continues if the server is unreachable for less than a
// minute. If Wait returns an error, it also returns the last state of the job that it has read. This state is nil if
// Wait has read none.
func (c *Client) Wait(ctx context.Context, id string) (*apipb.Job, error) {
	return c.WaitUntil(ctx, id, func(j *apipb.Job) bool { return ares.Phase(j.GetState()).Final() })
}

// WaitUntil is like Wait, but the caller supplies the condition that ends the wait.
func (c *Client) WaitUntil(ctx context.Context, id string, done func(*apipb.Job) bool) (last *apipb.Job, err error) {
	var away time.Time
	for poll := firstPoll; ; poll = min(poll*3/2, slowPoll) {
		job, err := c.Job(ctx, id)
		switch {
		case err == nil && done(job):
			return job, nil
		case err == nil:
			last, away = job, time.Time{}
		case ctx.Err() != nil, ares.CodeOf(err) != ares.Unavailable:
			return last, err
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > maxAway:
			return last, err
		}
		if !pause.For(ctx, poll) {
			return last, errors.Join(ctx.Err(), err) // err says why the current state is unknown, if it is
		}
	}
}
