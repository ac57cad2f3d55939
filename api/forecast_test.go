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
			return ares.RuntimePredicted{P50: 90 * time.Second, P90: time.Duration(j.GPUs) * 10 * time.Minute, Basis: "runs of " + j.Owner, Samples: 3}
		}
	})
	want := `{"p50_seconds":90,"p90_seconds":1200,"basis":"runs of token:admin"}`
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
		Job: snap.Job.ID, P50: 10 * time.Second, P90: time.Minute, Basis: "it was said", Samples: 3, Own: 3,
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
	got := service.NewForecast(&ares.RuntimePredicted{P50: 10 * time.Minute, P90: time.Hour, Samples: 2, Own: 2}, run)
	if !got.GetP50End().AsTime().Equal(start.Add(10*time.Minute)) || !got.GetP90End().AsTime().Equal(start.Add(time.Hour)) {
		t.Errorf("ends %v", got)
	}
	// Other jobs do not make this one late, so without its own runs it has no predicted end.
	if got = service.NewForecast(&ares.RuntimePredicted{P50: 10 * time.Minute, P90: time.Hour, Samples: 20}, run); got.P90Seconds == nil || got.P50End != nil || got.P90End != nil {
		t.Errorf("from other jobs: %v", got)
	}
	// A wide interval has no median.
	if got = service.NewForecast(&ares.RuntimePredicted{P50: time.Minute, P90: time.Hour, Samples: 2, Own: 2}, run); got.P50Seconds != nil || got.P50End != nil || got.GetP90Seconds() != 3600 || got.P90End == nil {
		t.Errorf("a wide interval: %v", got)
	}
}

// TestNoEstimate checks that an answer without an estimate has a text instead of runtimes.
func TestNoEstimate(t *testing.T) {
	said := ares.RuntimePredicted{P50: 12 * time.Hour, P90: 21 * time.Hour, Basis: "no estimate: no run of this job has ended"}
	h := newHouse(t, func(c *Config) { c.Predict = func(*ares.Job) ares.RuntimePredicted { return said } })
	if a := h.do("POST", "/api/v1/jobs:predict", job()); a.code != http.StatusOK || a.body != `{"basis":"no estimate: no run of this job has ended"}` {
		t.Errorf("predicted %d %s", a.code, a.body)
	}
	said.Basis = "its limit of 4h0m0s, because no similar run is known" // by a server of an earlier version
	if a := h.do("POST", "/api/v1/jobs:predict", job()); a.body != `{"basis":"no estimate: no similar run is known"}` {
		t.Errorf("predicted %d %s", a.code, a.body)
	}
}
