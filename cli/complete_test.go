package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
)

// slowLists is a server that never answers a list of jobs.
type slowLists struct{ *fake }

func (slowLists) ListJobs(ctx context.Context, _ *apipb.ListJobsRequest) (*apipb.ListJobsResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestCompletionIsQuickAndSilent checks that completion neither waits long for a server that does not answer, nor prints
// an error into the user's command line.
func TestCompletionIsQuickAndSilent(t *testing.T) {
	serveJobs(t, &fake{}, slowLists{&fake{}})
	for _, server := range []string{"", "--server=127.0.0.1:1", "--server=http://x", "--server=10.0.0.1:9090", "--token-file=/nowhere"} {
		args := []string{"__complete", "job", "get"}
		if server != "" {
			args = append(args, server)
		}
		began := time.Now()
		code, stdout, stderr := run(t, append(args, "job-")...)
		if took := time.Since(began); took > 2*time.Second { // 300 ms on an idle machine
			t.Errorf("%s: completion took %s", server, took)
		}
		if code != 0 || stdout != ":4\n" || strings.Contains(stderr, "ares:") {
			t.Errorf("%s: exit %d, %q, %q", server, code, stdout, stderr)
		}
	}
}

// TestCompletionOffersNoQuotes checks that a name which a shell would interpret is not offered.
func TestCompletionOffersNoQuotes(t *testing.T) {
	var jobs []*apipb.Job
	for _, name := range []string{"train", "trick $(touch x)", "tra;in", "tr`id`", "tr\x1b[31m", "tra in", "tr🚀", "tr'x"} {
		jobs = append(jobs, &apipb.Job{JobId: "job-1", Name: name, State: "run\x1b[31mning"})
	}
	serve(t, &fake{jobs: jobs})
	if _, stdout, _ := run(t, "__complete", "logs", "tr"); stdout != "train\trunning job-1\n:4\n" {
		t.Errorf("%q", stdout)
	}
	if _, stdout, _ := run(t, "__complete", "submit", "--after", "job-2,tr"); stdout != "job-2,train\trunning job-1\n:4\n" {
		t.Errorf("%q", stdout)
	}
}
