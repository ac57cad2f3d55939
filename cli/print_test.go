package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
)

func TestFormats(t *testing.T) {
	f := &fake{job: &apipb.Job{JobId: "job-1", Name: "a\x1b[2J\u009b2J\u202e", State: "running", GpuCount: 0}}
	serve(t, f)
	_, stdout, _ := run(t, "job", "get", "job-1", "-o", "json")
	for _, want := range []string{"\n  \"job_id\": \"job-1\",\n", `"gpu_count": 0`, `"name": "a\u001b[2J\u009b2J\u202e"`, `"attempts": []`} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %s in\n%s", want, stdout)
		}
	}
	_, stdout, _ = run(t, "job", "list", "-o", "yaml")
	if !strings.Contains(stdout, "- archived: false\n") || !strings.Contains(stdout, "  job_id: job-1\n") || strings.ContainsAny(stdout, "\x1b\u009b") {
		t.Errorf("yaml:\n%s", stdout)
	}
	if _, stdout, _ = run(t, "version", "-o", "json"); !strings.Contains(stdout, `"version": "dev"`) {
		t.Errorf("version: %s", stdout)
	}
}

// TestListsOfManyPages checks that a list of several pages shows the total, which only the
// first page contains.
func TestListsOfManyPages(t *testing.T) {
	f := &fake{}
	for range 2500 {
		f.jobs = append(f.jobs, &apipb.Job{JobId: "job-1", State: "succeeded"})
	}
	serve(t, f)
	if _, stdout, stderr := run(t, "job", "list", "--all", "--limit", "1500"); !strings.HasSuffix(stdout, "\n1500 of 2500 jobs; show more with --limit N\n") {
		t.Errorf("%.100s … %s", stdout, stderr)
	}
	if _, stdout, stderr := run(t, "job", "list", "--all", "--limit", "0", "-o", "json"); !strings.Contains(stdout, `"total": 2500`) {
		t.Errorf("%.100s … %s", stdout, stderr)
	}
}

func TestWatchOnAPipe(t *testing.T) {
	serve(t, &fake{job: &apipb.Job{JobId: "job-1", State: "running"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var errs bytes.Buffer
	out := &untilLine{then: cancel}
	code := Main(ctx, []string{"job", "list", "--watch", "-o", "json"}, nil, out, &errs)
	if code != 0 || strings.Count(out.String(), "\n") != 1 || !strings.HasPrefix(out.String(), `{"jobs":[{"job_id":"job-1"`) {
		t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}

// untilLine is a buffer that calls the function `then` once it contains a complete line.
type untilLine struct {
	bytes.Buffer

	then func()
}

func (u *untilLine) Write(data []byte) (int, error) {
	n, err := u.Buffer.Write(data)
	if bytes.IndexByte(u.Bytes(), '\n') >= 0 {
		u.then()
	}
	return n, err
}
