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
)

// Limits on one batch call; SubmitBatch makes several where they are passed.
const (
	maxBatchJobs  = 1000
	maxBatchBytes = 2 << 20
)

// NewRequestID makes an ID for a submission that nobody else will make.
func NewRequestID() string { return "req-" + strings.ToLower(rand.Text()) }

// Submit asks for a job. Without a request_id in spec one is made before the
// first try, so that the job is accepted once however often it is sent. To
// repeat a submission across processes, give your own.
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

// SubmitBatch asks for many jobs, each answered for itself in the order given.
// It makes several calls when there are more than one takes; after an error
// the answer holds what was done until then.
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

// Job reads one job as it is now.
func (c *Client) Job(ctx context.Context, id string) (*apipb.Job, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.GetJobResponse, error) {
		return apipb.NewJobServiceClient(conn).GetJob(ctx, &apipb.GetJobRequest{JobId: id})
	})
	return answer.GetJob(), err
}

// Jobs reads one page of a list. The answer's next_page_token, put into req,
// reads the next.
func (c *Client) Jobs(ctx context.Context, req *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJobsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListJobs(ctx, req)
	})
}

// AllJobs goes over a list of any length, page by page. An error ends it.
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

// Preemptions reads one page of who gave way to whom, newest first. The answer's
// next_page_token, put into req, reads the next.
func (c *Client) Preemptions(ctx context.Context, req *apipb.ListPreemptionsRequest) (*apipb.ListPreemptionsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListPreemptionsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListPreemptions(ctx, req)
	})
}

// PlanConsolidation says which running jobs would be moved now to make room for
// waiting ones, and what that gains and costs.
func (c *Client) PlanConsolidation(ctx context.Context) (*apipb.PlanConsolidationResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PlanConsolidationResponse, error) {
		return apipb.NewJobServiceClient(conn).PlanConsolidation(ctx, &apipb.PlanConsolidationRequest{})
	})
}

// Cancel ends a job in whatever phase it is. Its devices stay taken until its
// processes are dead.
func (c *Client) Cancel(ctx context.Context, id string) (*apipb.CancelJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.CancelJobResponse, error) {
		return apipb.NewJobServiceClient(conn).CancelJob(ctx, &apipb.CancelJobRequest{JobId: id})
	})
}

// Retry submits a finished job again as a new one. requestID makes it
// repeatable as with Submit; "" for a new one.
func (c *Client) Retry(ctx context.Context, id, requestID string) (*apipb.RetryJobResponse, error) {
	if requestID == "" {
		requestID = NewRequestID()
	}
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.RetryJobResponse, error) {
		return apipb.NewJobServiceClient(conn).RetryJob(ctx, &apipb.RetryJobRequest{JobId: id, RequestId: requestID})
	})
}

// Events lists the steps of a job's life.
func (c *Client) Events(ctx context.Context, id string) (*apipb.ListJobEventsResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ListJobEventsResponse, error) {
		return apipb.NewJobServiceClient(conn).ListJobEvents(ctx, &apipb.ListJobEventsRequest{JobId: id})
	})
}

// Explain says everything that keeps a waiting job waiting.
func (c *Client) Explain(ctx context.Context, id string) (*apipb.Explanation, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.ExplainJobResponse, error) {
		return apipb.NewJobServiceClient(conn).ExplainJob(ctx, &apipb.ExplainJobRequest{JobId: id})
	})
	return answer.GetExplanation(), err
}

// Plan says where a job would go now, or why it would wait. Nothing changes.
func (c *Client) Plan(ctx context.Context, spec *apipb.JobSpec) (*apipb.PlanJobResponse, error) {
	return try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PlanJobResponse, error) {
		return apipb.NewJobServiceClient(conn).PlanJob(ctx, &apipb.PlanJobRequest{Job: spec})
	})
}

// Predict says how long a job will run that is not submitted. Nothing changes.
func (c *Client) Predict(ctx context.Context, spec *apipb.JobSpec) (*apipb.RuntimeForecast, error) {
	return c.predict(ctx, &apipb.PredictJobRequest{Job: spec})
}

// Forecast says how long a submitted job will run.
func (c *Client) Forecast(ctx context.Context, id string) (*apipb.RuntimeForecast, error) {
	return c.predict(ctx, &apipb.PredictJobRequest{JobId: id})
}

func (c *Client) predict(ctx context.Context, req *apipb.PredictJobRequest) (*apipb.RuntimeForecast, error) {
	answer, err := try(ctx, c, func(ctx context.Context, conn *grpc.ClientConn) (*apipb.PredictJobResponse, error) {
		return apipb.NewJobServiceClient(conn).PredictJob(ctx, req)
	})
	return answer.GetForecast(), err
}

// How a waiting client asks: often at first, then every second; and how long
// it bears a server that is away.
const (
	firstPoll = 50 * time.Millisecond
	slowPoll  = time.Second
	maxAway   = time.Minute
)

// Wait returns the job once it is in a final phase. A server that is away for
// less than a minute does not end it. Beside an error is the job as it was when a
// server last answered, nil if none did.
func (c *Client) Wait(ctx context.Context, id string) (*apipb.Job, error) {
	return c.WaitUntil(ctx, id, func(j *apipb.Job) bool { return ares.Phase(j.GetState()).Final() })
}

// WaitUntil is Wait for a job that is as done wants it.
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
		if bad := sleep(ctx, poll); bad != nil {
			return last, errors.Join(bad, err) // why it is not known how the job is now, if so
		}
	}
}
