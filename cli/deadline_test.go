package cli

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares/apipb"
)

func TestAnEndedJobSaysWhetherItMetItsDeadline(t *testing.T) {
	due := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state string
		ended time.Duration
		want  string
	}{
		{"succeeded", -time.Minute, "2030-01-02T12:00:00Z: met"},
		{"succeeded", 2 * time.Minute, "2030-01-02T12:00:00Z: missed, it ended 2m00s late"},
		{"failed", -time.Minute, "2030-01-02T12:00:00Z: it ended before, without success"},
	} {
		j := &apipb.Job{State: c.state, Spec: &apipb.JobSpec{Deadline: timestamppb.New(due)}, FinishedAt: timestamppb.New(due.Add(c.ended))}
		if got := deadlineKept(j); got != c.want {
			t.Errorf("%s after %s: %q, want %q", c.state, c.ended, got, c.want)
		}
	}
	if got := deadlineKept(&apipb.Job{Spec: &apipb.JobSpec{}, FinishedAt: timestamppb.New(due)}); got != "" {
		t.Errorf("no deadline was set: %q", got)
	}
}
