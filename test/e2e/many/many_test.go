package many

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
)

// TestCancelIsKilledAndRepeated kills `ares cancel --name` with SIGKILL after some jobs were cancelled, while the others
// wait, and repeats it. Every job must end once, and a job with another name must not end.
func TestCancelIsKilledAndRepeated(t *testing.T) {
	t.Parallel()
	const jobs = 3000
	c := cluster.Start(t, cluster.Servers(1))
	admin := c.Client(c.Servers[0])
	specs := []*apipb.JobSpec{{Name: "other", Command: []string{"true"}, GpuCount: 1}}
	for i := range jobs {
		specs = append(specs, &apipb.JobSpec{Name: fmt.Sprintf("sweep-%d", i), Command: []string{"true"}, GpuCount: 1})
	}
	submitted, err := admin.SubmitBatch(t.Context(), specs)
	if err != nil || submitted.GetAccepted() != jobs+1 {
		t.Fatalf("%v: %d accepted", err, submitted.GetAccepted())
	}
	before, err := admin.Jobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	cancel := func() *exec.Cmd {
		cmd := exec.Command(c.Ares, "--data-dir", c.Servers[0].Dir, "cancel", "--name", "sweep-*", "--yes")
		cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
		return cmd
	}
	first := cancel()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	cancelled := 0
	for ev, err := range admin.WatchEvents(t.Context(), &apipb.WatchEventsRequest{Revision: before.GetRevision()}) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.GetState() == string(ares.Cancelled) {
			cancelled++
		}
		if cancelled >= jobs/20 {
			break
		}
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil {
		t.Fatal("the command ended before it was killed")
	}
	waiting := &apipb.ListJobsRequest{PageSize: 1, State: []string{string(ares.Pending)}, NamePattern: "sweep-*"}
	if left, err := admin.Jobs(t.Context(), waiting); err != nil || left.GetTotal() == 0 {
		t.Fatalf("%v: the killed command has cancelled every job", err)
	}
	for range 2 { // the second time, no job is left
		if err := cancel().Run(); err != nil {
			t.Fatal(err)
		}
	}
	for job, err := range admin.AllJobs(t.Context(), &apipb.ListJobsRequest{PageSize: 1000}) {
		if err != nil {
			t.Fatal(err)
		}
		if swept := strings.HasPrefix(job.GetName(), "sweep-"); swept != (job.GetState() == string(ares.Cancelled)) {
			t.Errorf("%s is %s", job.GetName(), job.GetState())
		}
	}
	ends := map[string]int{}
	for i, r := range submitted.GetResults() {
		if i%10 != 1 { // reading the events of all jobs takes long
			continue
		}
		events, err := admin.Events(t.Context(), r.GetJobId())
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range events.GetEvents() {
			if ev.GetState() == string(ares.Cancelled) {
				ends[r.GetJobId()]++
			}
		}
		if n := ends[r.GetJobId()]; n != 1 {
			t.Errorf("%s has ended %d times", r.GetJobId(), n)
		}
	}
}
