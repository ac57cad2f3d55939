package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/apipb"
)

// The type `owners` is a hub's connection to clusters that never answer. It counts how often it is asked.
type owners struct {
	err   error
	asked []service.Reader
	// The hub's jobs are offered to these clusters.
	offered []string
}

func (o *owners) OwnerRun(_ context.Context, _ ares.JobID, who service.Reader) (*ares.Run, *ares.Progress, error) {
	o.asked = append(o.asked, who)
	return nil, nil, o.err
}

func (o *owners) OwnerLogs(_ context.Context, _ *ares.Run, _ *ares.Attempt, _ *apipb.StreamLogsRequest, who service.Reader, _ func(*apipb.StreamLogsResponse) error) error {
	o.asked = append(o.asked, who)
	return o.err
}

func (o *owners) OwnerExplanation(_ context.Context, _ ares.JobID, who service.Reader) (*apipb.Explanation, error) {
	o.asked = append(o.asked, who)
	return nil, o.err
}

func (*owners) Outlook(context.Context, *ares.Job, *ares.Run, *ares.RuntimePredicted) ([]*apipb.ClusterOutlook, error) {
	return []*apipb.ClusterOutlook{{Cluster: "east", Verdict: "blocked"}}, nil
}

func (o *owners) OfferedTo(ares.JobID) []string { return o.offered }

func (*owners) Heard(string) (time.Time, bool) { return time.Now().Add(-time.Minute), true }

// TestOwnersAreNotAskedInVain checks that a hub asks no cluster about a job that no cluster owns.
func TestOwnersAreNotAskedInVain(t *testing.T) {
	o := &owners{err: ares.Errorf(ares.Unavailable, "cluster east cannot be reached")}
	h := newHouse(t, func(c *Config) { c.Federation = service.Federation{Hub: true, Owners: o} })
	id := h.submit()
	a := h.do("GET", "/api/v1/jobs/"+id+"?consistent=true", nil)
	if a.code != 200 || strings.Contains(a.body, "cannot be reached") {
		t.Errorf("the answer is %d %s", a.code, a.body)
	}
	if a = h.do("GET", "/api/v1/jobs/"+id+"/events", nil); a.code != 200 || strings.Contains(a.body, "cannot be reached") {
		t.Errorf("the events are %d %s", a.code, a.body)
	}
	if a = h.do("GET", "/api/v1/jobs/"+id+"/explain", nil); a.code != 200 || !strings.Contains(a.body, `"east"`) {
		t.Errorf("the explanation is %d %s", a.code, a.body)
	}
	for _, path := range []string{"/api/v1/jobs/" + id, "/api/v1/jobs"} { // a hub has no nodes, so it must not say that nodes are missing
		o.offered = nil
		if a = h.do("GET", path, nil); a.code != 200 || !strings.Contains(a.body, "it is offered to no cluster") || strings.Contains(a.body, "nodes yet") {
			t.Errorf("%s: the answer is %d %s", path, a.code, a.body)
		}
		o.offered = []string{"east", "west"}
		if a = h.do("GET", path, nil); !strings.Contains(a.body, "it is offered to east, west, and not claimed yet") {
			t.Errorf("%s: the answer is %d %s", path, a.code, a.body)
		}
	}
	h.place(id)
	h.refused(h.do("GET", "/api/v1/jobs/"+id+"/logs", nil), 409, ares.Conflict, "no cluster has job")
	if len(o.asked) > 0 {
		t.Errorf("a cluster was asked for %+v", o.asked)
	}
}

// TestAnswerHub reads the output and the explanation of a job as a user of the hub. The user is a viewer of the tenant that the
// hub names, so jobs of other tenants do not exist for it.
func TestAnswerHub(t *testing.T) {
	src := &script{lines: []string{"one\n", "two\n"}, asked: make(chan service.LogQuery, 4)}
	h := newHouse(t, func(c *Config) { c.Logs = src })
	id := h.submit()
	h.place(id)
	ask := func(q *apipb.OwnerRead, granted error) (out string, explained *apipb.Explanation, err error) {
		q.JobId, q.Caller = id, "token:ada"
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("authorization", "Bearer own"))
		err = h.AnswerHub(ctx, q, 1, func(context.Context) error { return granted }, func(m *apipb.ReadAnswer) error {
			out += string(m.GetLogs().GetData())
			if m.GetExplanation() != nil {
				explained = m.GetExplanation()
			}
			return nil
		})
		return out, explained, err
	}
	logs, explain := apipb.OwnerRead_KIND_LOGS, apipb.OwnerRead_KIND_EXPLANATION
	out, _, err := ask(&apipb.OwnerRead{Kind: logs, TenantId: ares.DefaultTenant, Logs: &apipb.StreamLogsRequest{JobId: "another", Attempt: 9, TailBytes: 7}}, nil)
	if q := <-src.asked; err != nil || out != "one\ntwo\n" || q.Job != ares.JobID(id) || q.Attempt != 1 || q.TailBytes != 7 {
		t.Errorf("%q, %v, asked for %+v", out, err, q)
	}
	if _, e, err := ask(&apipb.OwnerRead{Kind: explain, TenantId: ares.DefaultTenant}, nil); err != nil || len(e.GetPlacements()) != 1 {
		t.Errorf("%v, %v", e, err)
	}
	for name, q := range map[string]*apipb.OwnerRead{
		"output for another tenant":      {Kind: logs, TenantId: "other"},
		"explanation for another tenant": {Kind: explain, TenantId: "other"},
		"output for another queue":       {Kind: logs, TenantId: ares.DefaultTenant, Queue: "other"},
	} {
		if _, _, err := ask(q, nil); ares.CodeOf(apipb.FromStatus(err)) != ares.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err = ask(&apipb.OwnerRead{Kind: logs, TenantId: ares.DefaultTenant}, ares.Errorf(ares.NotFound, "returned")); ares.CodeOf(apipb.FromStatus(err)) != ares.NotFound {
		t.Errorf("of a job that was returned: %v", err)
	}
	if _, _, err = ask(&apipb.OwnerRead{Kind: 77, TenantId: ares.DefaultTenant}, nil); ares.CodeOf(apipb.FromStatus(err)) != ares.FeatureDisabled {
		t.Errorf("of a later version: %v", err)
	}
	if _, _, err = ask(&apipb.OwnerRead{Kind: logs, TenantId: ares.DefaultTenant, Logs: &apipb.StreamLogsRequest{Grep: "("}}, nil); ares.CodeOf(apipb.FromStatus(err)) != ares.Invalid {
		t.Errorf("a wrong expression: %v", err)
	}
	if len(src.asked) > 0 {
		t.Error("output was read for a refused request")
	}
}
