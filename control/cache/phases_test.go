package cache_test

import (
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/history"
)

// TestPhasesIn checks that jobs are counted only in the given tenants and queues, and each job once.
func TestPhasesIn(t *testing.T) {
	t.Parallel()
	v := cache.NewView(time.Now)
	job := func(id, tenant, queue string) ares.Event {
		return ares.Event{Revision: 1, Job: &ares.Job{ID: ares.JobID(id), Revision: 1, Spec: ares.Spec{Tenant: tenant, Queue: queue}}}
	}
	v.Apply(ares.Batch{Revision: 1, Events: []ares.Event{
		job("j1", "red", "day"), job("j2", "red", "night"), job("j3", "red", "night"), job("j4", "blue", "day"),
	}})
	for _, c := range []struct {
		name   string
		scopes []history.Scope
		want   int
	}{
		{"everything", nil, 4},
		{"nothing", []history.Scope{}, 0},
		{"a tenant", []history.Scope{{Tenant: "red"}}, 3},
		{"a queue", []history.Scope{{Tenant: "red", Queue: "night"}}, 2},
		{"the same queue twice", []history.Scope{{Tenant: "red", Queue: "night"}, {Tenant: "red", Queue: "night"}}, 2},
		{"a tenant and its queue", []history.Scope{{Tenant: "red", Queue: "night"}, {Tenant: "red"}}, 3},
		{"queues of two tenants", []history.Scope{{Tenant: "red", Queue: "day"}, {Tenant: "blue", Queue: "day"}}, 2},
		{"no queue", []history.Scope{{Tenant: "blue", Queue: "night"}}, 0},
	} {
		sum := 0
		for _, n := range v.PhasesIn(c.scopes) { // order-free: a sum
			sum += n
		}
		if sum != c.want {
			t.Errorf("%s: %d jobs, want %d", c.name, sum, c.want)
		}
	}
	v.Apply(ares.Batch{Revision: 2, Events: []ares.Event{{Revision: 2, Gone: ares.Gone{Kind: ares.KindJob, ID: "j2"}}}})
	if got := v.PhasesIn([]history.Scope{{Tenant: "red", Queue: "night"}}); got[ares.Pending] != 1 {
		t.Errorf("after a removal: %v", got)
	}
}
