package rest

import (
	"context"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ares-scheduler/ares/api/method"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
)

// submitRoute serves ordinary submissions of one job without the generated gateway. Most writing calls are submissions, and the
// gateway compares each request with every route, copies the request and the answer, and translates the headers, which costs more than
// the rest of the call. The pipeline, the error answers and the texts are the same.
type submitRoute struct {
	directMethod
	path   string
	status int // of a new job
}

// newSubmitRoute returns the route of SubmitJob.
func newSubmitRoute(conn *direct) submitRoute {
	m := method.Of(apipb.JobService_SubmitJob_FullMethodName)
	return submitRoute{conn.methods[m.Name], m.Routes[0].Path, m.Status}
}

// serves reports whether a request is an ordinary submission. A query, and headers that only the gateway understands, are left to it.
func (s *submitRoute) serves(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL.Path == s.path && r.URL.RawPath == "" && r.URL.RawQuery == "" &&
		r.Header["Te"] == nil && r.Header["Grpc-Timeout"] == nil && !wantsForm(r)
}

// serveSubmit serves a submission. The context is the one of the call.
func (d *Handler) serveSubmit(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	in, ok := r.Body.(*body)
	if !ok {
		d.gatewayError(ctx, nil, nil, w, r, status.Errorf(codes.Internal, "the body has type %T", r.Body))
		return
	}
	answer, err := d.submit.handler(d.submit.service, ctx, func(m any) error {
		req, ok := m.(*apipb.SubmitJobRequest)
		if !ok {
			return status.Errorf(codes.Internal, "a submission cannot be read into type %T", m)
		}
		req.Job = &apipb.JobSpec{}
		in.err = apipb.UnmarshalJSON(in.data, req.Job)
		return in.err
	}, d.Unary)
	if err != nil {
		d.gatewayError(ctx, nil, nil, w, r, err)
		return
	}
	resp, _ := answer.(*apipb.SubmitJobResponse)
	data, ok := appendSubmitted(make([]byte, 0, 256), resp)
	if !ok {
		if data, err = (PublicJSON{}).Marshal(resp); err != nil {
			d.gatewayError(ctx, nil, nil, w, r, err)
			return
		}
	}
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(data))}
	if resp.GetStatus() == pipeline.StatusSubmitted {
		w.WriteHeader(d.submit.status)
	}
	_, _ = w.Write(data) // the client may have left
}

// appendSubmitted encodes an answer as PublicJSON does, but without reflection. It returns false if the answer is left to PublicJSON.
func appendSubmitted(b []byte, m *apipb.SubmitJobResponse) (_ []byte, ok bool) {
	for _, field := range [...]struct{ key, value string }{
		{`{"job_id":`, m.GetJobId()}, {`,"status":`, m.GetStatus()}, {`,"message":`, m.GetMessage()}, {`,"state":`, m.GetState()},
	} {
		if b, ok = appendText(append(b, field.key...), field.value); !ok {
			return nil, false
		}
	}
	b = append(b, `,"warnings":[`...)
	for i, warning := range m.GetWarnings() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = appendText(b, warning); !ok {
			return nil, false
		}
	}
	return append(b, "]}"...), true
}

var jsonType = []string{"application/json"}
