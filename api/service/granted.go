package service

import (
	"context"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
)

// hubCaller is the beginning of the name of a user of the hub. No user of this cluster can have such a name.
const hubCaller = "hub:"

// AnswerHub answers a read of the hub about a job that this cluster holds under a grant. The call passes through the pipeline like
// one of a viewer of the job's tenant, whatever roles the user has at the hub: the limits, the access policies and the audit
// log of this cluster apply. The function `granted` returns an error if the hub may not read the job any more. The argument
// `attempt` is the number of the requested attempt in this cluster.
func (d *Services) AnswerHub(ctx context.Context, q *apipb.OwnerRead, attempt int, granted func(context.Context) error, send func(*apipb.ReadAnswer) error) error {
	who := ares.Identity{
		Name: hubCaller + q.GetCaller(), Kind: ares.ByHub, Tenant: q.GetTenantId(),
		Bindings: []ares.Binding{{Role: ares.Viewer, Tenant: q.GetTenantId(), Queue: q.GetQueue()}},
	}
	caller, err := auth.NewCaller(ctx, func(ctx context.Context) (ares.Identity, error) { return who, granted(ctx) })
	if err != nil {
		return err
	}
	ctx = pipeline.WithHubCall(ctx, caller)
	switch q.GetKind() {
	case apipb.OwnerRead_KIND_LOGS:
		req := proto.CloneOf(q.GetLogs())
		if req == nil {
			req = &apipb.StreamLogsRequest{}
		}
		req.JobId, req.Attempt = q.GetJobId(), int32(attempt)
		return d.Stream(ctx, apipb.JobService_StreamLogs_FullMethodName, func(ctx context.Context) error {
			if err := d.Check(ctx, req); err != nil {
				return err
			}
			return d.ReadLogs(ctx, req, func(m *apipb.StreamLogsResponse) error {
				return send(&apipb.ReadAnswer{Body: &apipb.ReadAnswer_Logs{Logs: m}})
			})
		})
	case apipb.OwnerRead_KIND_EXPLANATION:
		req := &apipb.ExplainJobRequest{JobId: q.GetJobId()}
		return d.Run(ctx, apipb.JobService_ExplainJob_FullMethodName, req, func(ctx context.Context, _ *pipeline.Call) error {
			resp, err := (&jobService{Services: d}).ExplainJob(ctx, req)
			if err != nil {
				return err
			}
			return send(&apipb.ReadAnswer{Body: &apipb.ReadAnswer_Explanation{Explanation: resp.GetExplanation()}})
		})
	}
	return ares.Errorf(ares.FeatureDisabled, "this version cannot answer reads of kind %d", q.GetKind())
}
