package client_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
)

func (f *fake) ListQueues(ctx context.Context, req *apipb.ListQueuesRequest) (*apipb.ListQueuesResponse, error) {
	switch req.GetTenantId() + req.GetPageToken() {
	case "vision":
		return &apipb.ListQueuesResponse{Queues: []*apipb.Queue{{Name: "a"}, {Name: "b"}}, Total: 3, NextPageToken: "2"}, f.fault(ctx)
	case "vision2":
		return &apipb.ListQueuesResponse{Queues: []*apipb.Queue{{Name: "c"}}, Total: 3}, f.fault(ctx)
	}
	return nil, status.Error(codes.InvalidArgument, "page_token")
}

// DeleteQueue of the test server finds the queue only on the first call.
func (f *fake) DeleteQueue(ctx context.Context, req *apipb.DeleteQueueRequest) (*apipb.DeleteQueueResponse, error) {
	f.mu.Lock()
	gone := f.jobs[req.GetName()]
	f.jobs[req.GetName()] = true // the queue is deleted before the fault, so only the answer is lost
	f.mu.Unlock()
	if err := f.fault(ctx); err != nil {
		return nil, err
	}
	if gone {
		return nil, apipb.ToStatus(ares.Errorf(ares.NotFound, "there is no queue"))
	}
	return &apipb.DeleteQueueResponse{}, nil
}

func TestQueuesAreListedPageByPage(t *testing.T) {
	f := &fake{faults: []error{status.Error(codes.Unavailable, "restarting")}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	all, err := c.Queues(t.Context(), "vision")
	if err != nil || len(all.GetQueues()) != 3 || all.GetTotal() != 3 || all.GetQueues()[2].GetName() != "c" {
		t.Errorf("got %v, %v", all, err)
	}
	if _, err = c.Queues(t.Context(), "other"); ares.CodeOf(err) != ares.Invalid {
		t.Errorf("got %v", err)
	}
}

// TestADeletedQueueIsDeleted checks that a repeated deletion succeeds when the first try deleted the queue and its
// answer was lost.
func TestADeletedQueueIsDeleted(t *testing.T) {
	f := &fake{faults: []error{status.Error(codes.Unavailable, "the answer is lost")}}
	c := connect(t, client.Options{Addresses: []string{serve(t, f)}})
	if err := c.DeleteQueue(t.Context(), "vision", "training"); err != nil {
		t.Error(err)
	}
	if err := c.DeleteQueue(t.Context(), "vision", "training"); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("a second deletion: %v", err)
	}
}
