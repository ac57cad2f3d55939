package api

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// throughGateway makes the generated gateway serve a submission, because only the gateway understands this header.
func throughGateway(r *http.Request) { r.Header.Set("Grpc-Timeout", "20S") }

// TestSubmissionsAnswerAsTheGateway compares the route for ordinary submissions with the generated gateway. Accepted, repeated and rejected
// requests must have the same status, headers and body, and the same entry in the audit log.
func TestSubmissionsAnswerAsTheGateway(t *testing.T) {
	h, log := audited(t)
	variable := regexp.MustCompile(`job[-_][0-9a-z]+|(direct|gateway)-[0-9]+`)
	for i, body := range []string{
		`{"request_id":"%s","gpu_count":1,"command":["a"]}`,
		`{"request_id":"%s","gpu_count":1,"command":["a"],"environment":{"A":"b\n"},"placement":{"regions":["eu"]},"deadline":"2999-01-31T18:00:00Z"}`,
		`{"request_id":"%s","name":"größe","gpu_count":1,"command":["a"]}`,
		`{"request_id":"%s","gpu_count":-1}`, `{"request_id":"%s","gpus":1}`, `{"request_id":"%s","tenant_id":"nowhere","gpu_count":1,"command":["a"]}`,
		`{"request_id":"%s","queue":"nowhere","gpu_count":1,"command":["a"]}`, `{"request_id":"%s"`, ``, ` `, `[]`, `null`, `{}`, "\xff", `{"request_id":"%s","command":["a"]} {}`,
	} {
		for range 2 { // the second request repeats the first one
			var got [2]string
			for k, who := range []string{"direct", "gateway"} {
				text := body
				if strings.Contains(body, "%s") {
					text = fmt.Sprintf(body, fmt.Sprintf("%s-%d", who, i))
				}
				change := []func(*http.Request){func(*http.Request) {}, throughGateway}[k]
				a := h.do("POST", "/api/v1/jobs", text, change)
				a.header.Del("Date")
				a.header.Del("X-Request-Id")
				a.header.Del("Content-Length") // the IDs differ in their length
				entry := log.one(t, text)
				entry.Time, entry.Source, entry.Request, entry.After = time.Time{}, "", "", ""
				if !strings.Contains(entry.RequestID, who) { // the server chose it
					entry.RequestID = ""
				}
				got[k] = variable.ReplaceAllString(fmt.Sprintf("%d %v %s %+v", a.code, a.header, a.body, entry), "x")
			}
			if got[0] != got[1] {
				t.Errorf("%s:\nthe route   %s\nthe gateway %s", body, got[0], got[1])
			}
		}
	}
	if a := h.do("POST", "/api/v1/jobs", job("request_id", "in-form"), inForm); a.code != http.StatusCreated || !strings.Contains(a.header.Get("Content-Type"), "gpu-scheduler") {
		t.Errorf("the form: %d %v %s", a.code, a.header, a.body)
	}
}
