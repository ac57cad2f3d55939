package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// openAPI holds the parts of the OpenAPI document that the tests read.
type openAPI struct {
	OpenAPI string
	Info    struct{ Title, Version string }
	Paths   map[string]map[string]struct {
		OperationID string
		RequestBody *struct {
			Content map[string]struct{ Example json.RawMessage }
		}
		Responses map[string]any
	}
	Components struct {
		Responses map[string]struct {
			Content map[string]struct {
				Schema struct {
					AllOf []struct {
						Properties struct {
							Code struct{ Enum []ares.Code }
						}
					}
				}
			}
		}
	}
}

func readOpenAPI(t *testing.T) *openAPI {
	t.Helper()
	var doc openAPI
	must(t, json.Unmarshal(apipb.OpenAPI, &doc))
	return &doc
}

// TestOpenAPI checks that the document is public. The document must list every
// route with its success status, and every error code with its status. `make
// verify` validates the document against the schema of OpenAPI 3.1.
func TestOpenAPI(t *testing.T) {
	h := newHouse(t)
	a := h.do("GET", "/api/v1/openapi.json", nil, func(r *http.Request) { r.Header.Del("Authorization") })
	if a.code != 200 || a.json["openapi"] != "3.1.0" {
		t.Errorf("answered %d %.100s", a.code, a.body)
	}
	doc := readOpenAPI(t)
	if doc.Info.Title == "" || doc.Info.Version == "" {
		t.Errorf("title %q, version %q", doc.Info.Title, doc.Info.Version)
	}
	n, all := 0, allRoutes()
	for path, operations := range doc.Paths {
		for verb, op := range operations {
			n++
			if !slices.ContainsFunc(all, func(r method.Route) bool { return r.Path == path && strings.EqualFold(r.HTTPMethod, verb) }) {
				t.Errorf("%s %s is no route", verb, path)
			}
			want := http.StatusOK
			if m, _ := method.Find(strings.ToUpper(verb), path); m != nil {
				want = m.Status
			}
			if op.Responses[strconv.Itoa(want)] == nil {
				t.Errorf("%s does not have the status %d of its row", op.OperationID, want)
			}
		}
	}
	if n != len(all) {
		t.Errorf("the document has %d operations, there are %d routes", n, len(all))
	}
	statuses := map[ares.Code]string{}
	for path, operations := range doc.Paths {
		for _, op := range operations {
			for status, response := range op.Responses {
				name, _ := response.(map[string]any)["$ref"].(string)
				for _, part := range doc.Components.Responses[strings.TrimPrefix(name, "#/components/responses/")].Content["application/json"].Schema.AllOf {
					for _, code := range part.Properties.Code.Enum {
						if was := statuses[code]; was != "" && was != status {
							t.Errorf("%s: %s has status %s and %s", path, code, was, status)
						}
						statuses[code] = status
					}
				}
			}
		}
	}
	for _, code := range ares.Codes() {
		if statuses[code] != strconv.Itoa(pipeline.StatusOf[code]) {
			t.Errorf("%s has status %q in the document, %d in answers", code, statuses[code], pipeline.StatusOf[code])
		}
	}
}

// TestExamples sends the example requests of the OpenAPI document. The examples
// are ordered so that the objects that each example needs already exist.
func TestExamples(t *testing.T) {
	now := time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)
	h := newHouse(t, func(c *Config) {
		c.Now = func() time.Time { return now }
		c.Admission.Now = c.Now
		c.Secrets, c.Code = newSecrets(t, c.Store), newCode(t, c)
	})
	_, err := h.store.OpenSession(t.Context(), ares.Node{ID: "gpu-17", CPUs: 64, MemoryMB: 512_000}, "0123456789abcdef", "here:1", 5*time.Minute, 0)
	must(t, err)
	h.seen()
	type call struct {
		method, path string
		body         json.RawMessage
		statuses     map[string]any
	}
	calls := map[string]call{}
	for path, operations := range readOpenAPI(t).Paths {
		for method, op := range operations {
			if op.RequestBody != nil {
				calls[op.OperationID] = call{strings.ToUpper(method), path, op.RequestBody.Content["application/json"].Example, op.Responses}
			}
		}
	}
	elsewhere := []string{"AuditService_VerifyAudit", "HistoryService_SetPrice", "PolicyService_TestAlertChannel", "JobService_PredictJob"} // this server has no log, history, alert channel or predictor
	values := strings.NewReplacer("{tenant_id}", "vision", "{name}", "training", "{node_id}", "gpu-17")
	for _, id := range []string{
		"TenantService_CreateTenant", "TenantService_UpdateTenant", "QueueService_CreateQueue", "QueueService_UpdateQueue",
		"JobService_SubmitJob", "JobService_SubmitJobs", "JobService_PlanJob", "JobService_UpdateJob", "JobService_RetryJob", "JobService_HoldJob", "JobService_ReleaseJob",
		"ReservationService_CreateReservation", "IdentityService_CreateToken", "IdentityService_CreateBinding", "IdentityService_AcceptBinding", "TrustService_CreateJoinToken",
		"ClusterService_CordonNode", "ClusterService_UncordonNode", "ClusterService_DrainNode", "TrustService_LabelNode", "TrustService_RevokeNode",
		"PolicyService_ApplyPolicy", "TopologyService_ApplyTopology", "SecretService_PutSecret", "SecretService_RotateSecretKey",
		"ObjectService_PutChunks", "ObjectService_CommitSnapshot",
	} {
		c, ok := calls[id]
		if !ok {
			t.Errorf("%s has no example", id)
			continue
		}
		delete(calls, id)
		path := values.Replace(c.path)
		if strings.Contains(path, "{job_id}") {
			job := h.submit()
			if id == "JobService_RetryJob" { // only a job that has ended can be retried
				h.do("DELETE", "/api/v1/jobs/"+job, nil)
			}
			path = strings.Replace(path, "{job_id}", job, 1)
		}
		a := h.do(c.method, path, string(c.body))
		if a.code >= 300 || c.statuses[strconv.Itoa(a.code)] == nil {
			t.Errorf("%s %s answered %d %s", c.method, path, a.code, a.body)
		}
	}
	for id := range calls {
		if !slices.Contains(elsewhere, id) && !strings.HasPrefix(id, "ClustersService_") { // TestAuditOfClusters sends these
			t.Errorf("the example of %s is not sent", id)
		}
	}
}
