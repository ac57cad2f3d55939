package cancel

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
)

// BenchmarkCancelBySelector cancels 10,000 waiting jobs by the pattern of their names. As many other jobs wait, and must
// not be cancelled. The server has no node, so that no job starts.
func BenchmarkCancelBySelector(b *testing.B) {
	jobs := rounds.Sized(10_000, 50)
	c := cluster.Start(b, cluster.Servers(1))
	admin := c.Client(c.Servers[0])
	submit := func(name string, round int) {
		var specs []*apipb.JobSpec
		for i := range jobs {
			specs = append(specs, &apipb.JobSpec{Name: fmt.Sprintf("%s-%d-%d", name, round, i), Command: []string{"true"}, GpuCount: 1})
		}
		if got, err := admin.SubmitBatch(b.Context(), specs); err != nil || int(got.GetAccepted()) != jobs {
			b.Fatalf("%v: %d accepted", err, got.GetAccepted())
		}
	}
	count := func(state ares.Phase) int {
		list, err := admin.Jobs(b.Context(), &apipb.ListJobsRequest{PageSize: 1, State: []string{string(state)}})
		if err != nil {
			b.Fatal(err)
		}
		return int(list.GetTotal())
	}
	submit("other", 0)
	var took time.Duration
	n := 0
	for b.Loop() {
		submit("sweep", n)
		n++
		cmd := exec.Command(os.Getenv("ARES_TEST_BIN"), "--data-dir", c.Servers[0].Dir, "cancel", "--name", "sweep-*", "--state", "pending", "--yes")
		began := time.Now()
		out, err := cmd.CombinedOutput()
		took += time.Since(began)
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		if done, left := count(ares.Cancelled), count(ares.Pending); done != n*jobs || left != jobs {
			b.Fatalf("%d jobs are cancelled and %d wait: %s", done, left, out)
		}
	}
	b.ReportMetric(took.Seconds()/float64(n), "s/"+fmt.Sprint(jobs)+"-jobs")
	b.ReportMetric(0, "ns/op")
}
