package api

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// The function `admit` runs the first step of the pipeline for a call of a method.
func admit(ctx context.Context, d *pipeline.Pipeline, name string) (context.Context, error) {
	ctx, c := pipeline.WithCall(ctx)
	c.Method = method.Of(name)
	return ctx, d.Authenticate(ctx, c, nil)
}

// callAs returns a call of another method by the same caller. If `first` is not nil, it becomes the
// first message of the call's stream.
func callAs(ctx context.Context, name string, first any) *pipeline.Call {
	c := &pipeline.Call{Method: method.Of(name), Caller: pipeline.CallOf(ctx).Caller}
	if first != nil {
		c.First.Store(&first)
	}
	return c
}

// The function `permit` runs the pipeline step that finds a request's scope and checks the caller's
// permission.
func permit(ctx context.Context, d *pipeline.Pipeline, name string, req any) error {
	return d.Authorize(ctx, callAs(ctx, name, nil), req)
}

// allRoutes lists every REST route.
func allRoutes() []method.Route {
	all := []method.Route{method.OpenAPI}
	for _, m := range method.All() {
		all = append(all, m.Routes...)
	}
	return all
}

// TestRequestIsNotChanged checks that the pipeline stores the resolved tenant in
// the call and does not change the request.
func TestRequestIsNotChanged(t *testing.T) {
	e := newEstate(t)
	who, err := e.cfg.Auth.Check(t.Context(), e.tokens["tenant-admin"])
	must(t, err)
	for name, req := range map[string]proto.Message{
		apipb.JobService_SubmitJob_FullMethodName:          &apipb.SubmitJobRequest{Job: &apipb.JobSpec{Command: []string{"true"}}},
		apipb.JobService_PlanJob_FullMethodName:            &apipb.PlanJobRequest{Job: &apipb.JobSpec{Command: []string{"true"}}},
		apipb.QueueService_CreateQueue_FullMethodName:      &apipb.CreateQueueRequest{Queue: &apipb.Queue{Name: "new"}},
		apipb.HistoryService_GetUsage_FullMethodName:       &apipb.GetUsageRequest{},
		apipb.AuditService_ListAuditEntries_FullMethodName: &apipb.ListAuditEntriesRequest{},
	} {
		ctx := pipeline.WithCaller(t.Context(), who)
		sent, c := proto.Clone(req), pipeline.CallOf(ctx)
		c.Method = method.Of(name)
		if err := e.Check(ctx, req); err != nil && ares.CodeOf(err) != ares.Forbidden {
			t.Errorf("%s: %v", name, err)
		}
		if c.Tenant != "a" || !proto.Equal(req, sent) {
			t.Errorf("%s acts on tenant %q, and its request became %v", name, c.Tenant, req)
		}
	}
}

// TestUnknownMethodIsRejected checks that a call of a method without a row in
// the method table is rejected before any other check.
func TestUnknownMethodIsRejected(t *testing.T) {
	h := newHouse(t)
	err := h.Run(t.Context(), "/ares.v1.JobService/Steal", &apipb.GetJobRequest{}, func(context.Context, *pipeline.Call) error {
		t.Error("it ran")
		return nil
	})
	if ares.CodeOf(apipb.FromStatus(err)) != ares.Forbidden {
		t.Errorf("a method without a row: %v", err)
	}
}
