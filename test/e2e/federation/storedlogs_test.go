package federation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// TestStoredLogsThroughTheHub reads the output of an ended job at the hub when the node that ran it is gone: at once, and when both sides have
// archived the job.
func TestStoredLogsThroughTheHub(t *testing.T) {
	t.Parallel()
	archive := cluster.Config("jobs: {archive_after_minutes: 1}\n")
	f := startHub(t, archive)
	east := f.start("east", "dgx-h100", archive)
	f.join("east")
	f.await("east", "ready")
	id := f.submit(&apipb.JobSpec{
		Name: "prints", Command: []string{"sh", "-c", `seq "$ARES_RANK"0001 "$ARES_RANK"5000; echo end of rank $ARES_RANK`}, GpuCount: 1, Members: 2, GangScheduling: new(true),
	})
	f.awaitState(id, "east", string(ares.Succeeded))
	var want [2]string
	for rank := range want {
		var b strings.Builder
		for n := 1; n <= 5000; n++ {
			fmt.Fprintf(&b, "%d\n", rank*10_000+n)
		}
		want[rank] = b.String() + fmt.Sprint("end of rank ", rank)
	}
	seats := filepath.Join(east.Path("east-1"), "agent", "seats")
	live.Await(t, cluster.Patience, "the output to be stored", func() (bool, string) {
		left := 0
		for _, dir := range []string{"seats", "logs"} {
			list, err := os.ReadDir(filepath.Join(seats, dir))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return false, err.Error()
			}
			left += len(list)
		}
		return left == 0, fmt.Sprint(left, " ranks are not stored")
	})
	east.Agents[0].Kill()
	if err := os.RemoveAll(seats); err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "the node to be removed", func() (bool, string) {
		_, err := east.Client().RemoveNode(t.Context(), "east-1", true)
		return err == nil, fmt.Sprint(err)
	})
	check := func(when string) {
		t.Helper()
		for name, c := range map[string]struct {
			args []string
			want string
		}{
			"rank 0":  {nil, want[0]},
			"rank 1":  {[]string{"--rank", "1"}, want[1]},
			"follow":  {[]string{"--follow"}, want[0]},
			"tail":    {[]string{"--tail", "2"}, "5000\nend of rank 0"},
			"matches": {[]string{"--grep", "^end", "--all-ranks"}, "r00| end of rank 0\nr01| end of rank 1"},
		} {
			out, bad, err := run(t, f.hub, append([]string{"job", "logs", id}, c.args...)...)
			if name == "matches" { // either rank may have ended first
				out = strings.Join(slices.Sorted(strings.SplitSeq(out, "\n")), "\n")
			}
			if err != nil || out != c.want {
				t.Errorf("%s, %s: %v, %d bytes of %d\n%s", when, name, err, len(out), len(c.want), bad)
			}
		}
		if status, body, err := rest(f.hub.Servers[0], "/api/v1/jobs/"+id+"/logs?tail_lines=1"); err != nil || status != 200 || body != "end of rank 0\n" {
			t.Errorf("%s, over REST: %d %q, %v", when, status, body, err)
		}
	}
	check("at once")
	for name, c := range map[string]*client.Client{"the hub": f.admin, "the cluster": east.Client()} {
		live.Await(t, 2*cluster.Patience, name+" to archive the job", func() (bool, string) {
			job, err := c.Job(t.Context(), id)
			return err == nil && job.GetArchived(), fmt.Sprint(job, err)
		})
	}
	check("archived")
	f.refuseOthers(id)
}
