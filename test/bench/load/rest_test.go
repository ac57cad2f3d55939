package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/server"
)

// The type `rest` is a client of a real server's REST API.
type rest struct {
	url, token string
	http       *http.Client
}

func newREST(b *testing.B) *rest {
	cfg := server.Default()
	cfg.DataDir = b.TempDir()
	cfg.HTTPAddr, cfg.GRPCAddr, cfg.MetricsAddr = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	s, err := server.Start(b.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(s.Close)
	token, err := os.ReadFile(s.AdminToken)
	if err != nil {
		b.Fatal(err)
	}
	return &rest{
		url: "http://" + s.Endpoints.HTTP, token: strings.TrimSpace(string(token)),
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
	}
}

// This method posts one job or a batch of jobs, and returns how many jobs were
// accepted as new.
func (r *rest) submit(b *testing.B, tag string, call, size int) int64 {
	if size == 1 {
		var answer struct{ Status string }
		r.post(b, "/api/v1/jobs", spec(tag, call), &answer)
		if answer.Status != "submitted" {
			return 0
		}
		return 1
	}
	body := struct {
		Jobs []ares.Spec `json:"jobs"`
	}{make([]ares.Spec, size)}
	for k := range body.Jobs {
		body.Jobs[k] = spec(tag, call*size+k)
	}
	var answer struct{ Accepted int64 }
	r.post(b, "/api/v1/jobs:batch", body, &answer)
	return answer.Accepted
}

func (r *rest) post(b *testing.B, path string, body, answer any) {
	data, err := json.Marshal(body)
	if err != nil {
		b.Error(err)
		return
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, r.url+path, bytes.NewReader(data))
	if err != nil {
		b.Error(err)
		return
	}
	req.Header.Set("Authorization", "Bearer "+r.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		b.Error(fmt.Errorf("%s: %s %s %w", path, resp.Status, text, err))
		return
	}
	if err := json.Unmarshal(text, answer); err != nil {
		b.Error(err)
	}
}
