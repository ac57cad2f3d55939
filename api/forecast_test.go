package api

import (
	"net/http"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/service"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

func TestPredict(t *testing.T) {
	h := newHouse(t, func(c *Config) {
		c.Predict = func(j *ares.Job) ares.RuntimePredicted {
			return ares.RuntimePredicted{P50: 90 * time.Second, P90: time.Duration(j.GPUs) * time.Hour, Basis: "runs of " + j.Owner}
		}
	})
	want := `{"p50_seconds":90,"p90_seconds":7200,"basis":"runs of token:admin"}`
	if a := h.do("POST", "/api/v1/jobs:predict", job("gpu_count", 2)); a.code != http.StatusOK || a.body != want {
		t.Errorf("predicted %d %s", a.code, a.body)
	}
	h.refused(h.do("POST", "/api/v1/jobs:predict", job("gpu_count", -1)), 400, ares.Invalid, "gpu_count")
	if a := h.do("GET", "/api/v1/jobs", nil); a.json["total"] != 0.0 {
		t.Errorf("a prediction left %s", a.body)
	}
	id := h.do("POST", "/api/v1/jobs", job("gpu_count", 2)).json["job_id"].(string)
	if a := h.do("GET", "/api/v1/jobs/"+id, nil); a.json["forecast"] != nil {
		t.Errorf("nothing was said of it, and it has %v", a.json["forecast"])
	}
	if a := h.do("GET", "/api/v1/jobs/"+id+"/forecast", nil); a.body != want {
		t.Errorf("what would be said now is %d %s", a.code, a.body)
	}
	// The stored prediction does not change, even if a prediction made now would
	// differ.
	snap, err := h.store.Job(t.Context(), ares.JobID(id))
	must(t, err)
	lead, _ := storetest.NewLead(t, h.store)
	must(t, h.store.Predict(t.Context(), lead, []store.Prediction{{Accepted: snap.Job.Revision, RuntimePredicted: ares.RuntimePredicted{
		Job: snap.Job.ID, P50: time.Second, P90: time.Minute, Basis: "it was said",
	}}}))
	h.seen()
	for _, path := range []string{"", "/forecast"} {
		if a := h.do("GET", "/api/v1/jobs/"+id+path, nil); !strings.Contains(a.body, `"p90_seconds":60,"basis":"it was said"`) || strings.Contains(a.body, "p90_end") {
			t.Errorf("%q: %s", path, a.body)
		}
	}
	h.do("DELETE", "/api/v1/jobs/"+id, nil)
	h.refused(h.do("GET", "/api/v1/jobs/"+id+"/forecast", nil), 409, ares.Conflict, "")
	h.refused(h.do("GET", "/api/v1/jobs/job-aaaaaaaaaaaaaaaaaaaaaaaa/forecast", nil), 404, ares.NotFound, "there is no job")
	h.refused(h.do("POST", "/api/v1/jobs:predict?job_id="+id, job()), 400, ares.Invalid, "job_id")
}

func TestEndsOfARunningJob(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := &ares.Run{Phase: ares.Running, Attempts: []ares.Attempt{{Number: 1, StartedAt: start}}}
	got := service.NewForecast(&ares.RuntimePredicted{P50: time.Minute, P90: time.Hour}, run)
	if !got.GetP50End().AsTime().Equal(start.Add(time.Minute)) || !got.GetP90End().AsTime().Equal(start.Add(time.Hour)) {
		t.Errorf("ends %v", got)
	}
}
