package rest

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// GPUSchedulerForm is the media type of answers in the form of the gpu-scheduler's README. A client asks for it with the header Accept.
// Jobs, tenants and the cluster status then have the names of that document, and the states are its seven states.
const GPUSchedulerForm = "application/vnd.gpu-scheduler+json"

// formStates are the states that have another name in the form. The other states have the same name.
var formStates = map[string]string{
	string(ares.Succeeded): "completed", string(ares.Lost): string(ares.Failed), string(ares.Retrying): string(ares.Pending),
	string(ares.Returned): string(ares.Cancelled), // this cluster no longer has it
}

// FormState returns the name of a state in the form.
func FormState(state string) string {
	if s, ok := formStates[state]; ok {
		return s
	}
	return state
}

// The fields of each object. A field that an answer of Ares does not have is left out.
var (
	formJob = []string{
		"id", "job_id", "tenant_id", "name", "state", "reason", "priority", "gpu_count", "gpu_memory_mb", "cpu_cores", "memory_mb", "command", "args", "image",
		"created_at", "started_at", "finished_at", "submitted_by",
	}
	formSpec   = []string{"environment", "gang_scheduling", "max_runtime_minutes"}
	formTenant = []string{
		"id", "name", "max_gpus", "max_gpu_memory_mb", "max_cpu_cores", "max_memory_mb", "max_concurrent_jobs", "priority_tier", "fair_share_weight", "allow_preemption",
		"created_at", "current",
	}
	formCluster = []string{"total_nodes", "online_nodes", "total_gpus", "available_gpus", "total_jobs", "running_jobs", "pending_jobs"}
)

// formJSON encodes answers in the form. Requests are the same in both forms.
type formJSON struct{ PublicJSON }

// Marshal implements runtime.Marshaler.
func (f formJSON) Marshal(v any) ([]byte, error) {
	data, err := f.PublicJSON.Marshal(v)
	if err != nil {
		return nil, err
	}
	change := formOf(v)
	if change == nil {
		return data, nil
	}
	answer := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err = d.Decode(&answer); err != nil {
		return nil, err
	}
	return json.Marshal(change(answer))
}

// NewEncoder implements runtime.Marshaler.
func (f formJSON) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := f.Marshal(v)
		if err == nil {
			_, err = w.Write(data)
		}
		return err
	})
}

// ContentType implements runtime.Marshaler.
func (formJSON) ContentType(any) string { return GPUSchedulerForm }

// formOf returns the function that changes an answer into the form, or nil if the answer is the same in both forms.
func formOf(v any) func(map[string]any) map[string]any {
	switch v.(type) {
	case *apipb.Job:
		return jobForm
	case *apipb.ListJobsResponse:
		return eachOf("jobs", jobForm)
	case *apipb.Tenant:
		return func(m map[string]any) map[string]any { return only(m, formTenant) }
	case *apipb.ListTenantsResponse:
		return eachOf("tenants", func(m map[string]any) map[string]any { return only(m, formTenant) })
	case *apipb.GetClusterStatusResponse:
		return func(m map[string]any) map[string]any { return only(m, formCluster) }
	case *apipb.ListJobEventsResponse:
		return eachOf("events", stateForm)
	case *apipb.SubmitJobResponse, *apipb.RetryJobResponse, *apipb.WatchEventsResponse:
		return stateForm
	default:
		return nil
	}
}

func jobForm(m map[string]any) map[string]any {
	out := only(m, formJob)
	if spec, ok := m["spec"].(map[string]any); ok {
		for _, name := range formSpec {
			if v, set := spec[name]; set {
				out[name] = v
			}
		}
	}
	return stateForm(out)
}

// stateForm changes the state of an object.
func stateForm(m map[string]any) map[string]any {
	if state, ok := m["state"].(string); ok {
		m["state"] = FormState(state)
	}
	return m
}

// eachOf changes each object of a list.
func eachOf(list string, change func(map[string]any) map[string]any) func(map[string]any) map[string]any {
	return func(m map[string]any) map[string]any {
		values, _ := m[list].([]any)
		for i := range values {
			if v, ok := values[i].(map[string]any); ok {
				values[i] = change(v)
			}
		}
		return m
	}
}

func only(m map[string]any, fields []string) map[string]any {
	out := make(map[string]any, len(fields))
	for _, name := range fields {
		if v, ok := m[name]; ok {
			out[name] = v
		}
	}
	return out
}

// wantsForm reports whether a request asks for the form.
func wantsForm(r *http.Request) bool {
	for _, line := range r.Header.Values("Accept") {
		for part := range strings.SplitSeq(line, ",") {
			if kind, _, err := mime.ParseMediaType(part); err == nil && kind == GPUSchedulerForm {
				return true
			}
		}
	}
	return false
}

// withForm prepares a request that asks for the form. The gateway compares the whole header with a media type. A filter for a state of
// the form selects all jobs that the form shows in that state.
func withForm(r *http.Request) *http.Request {
	if !wantsForm(r) {
		return r
	}
	r = r.Clone(r.Context())
	r.Header.Set("Accept", GPUSchedulerForm)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || !query.Has("state") {
		return r // the route rejects a query that cannot be read
	}
	var states []string
	for _, line := range query["state"] {
		for state := range strings.SplitSeq(line, ",") {
			states = append(states, state)
			for own, shown := range formStates { // order-free: each state of the form has at most one more
				if shown == state && state != "completed" && !slices.Contains(states, own) {
					states = append(states, own)
				}
			}
		}
	}
	query["state"] = states
	r.URL.RawQuery = query.Encode()
	return r
}
