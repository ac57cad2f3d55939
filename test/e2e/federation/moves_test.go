package federation

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// A diary is a directory where the attempts of one job write when they start and end, with their fencing tokens.
type diary struct {
	t   *testing.T
	dir string
}

func newDiary(t *testing.T) *diary {
	t.Helper()
	d := &diary{t, t.TempDir()}
	for _, err := range []error{os.Chmod(d.dir, 0o777), os.WriteFile(d.file("log"), nil, 0o666), os.Chmod(d.file("log"), 0o666)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *diary) file(name string) string { return filepath.Join(d.dir, name) }

// The method `allow` creates a file for which a job waits.
func (d *diary) allow(name string) {
	d.t.Helper()
	if err := os.WriteFile(d.file(name), nil, 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d *diary) text() string {
	d.t.Helper()
	data, err := os.ReadFile(d.file("log"))
	if err != nil {
		d.t.Fatal(err)
	}
	return string(data)
}

// The method `await` waits until the diary has a number of lines that begin with a word.
func (d *diary) await(word string, n int) {
	d.t.Helper()
	live.Await(d.t, cluster.Patience, fmt.Sprintf("%d times %s in the diary", n, word), func() (bool, string) {
		return strings.Count("\n"+d.text(), "\n"+word+" ") == n, d.text()
	})
}

// The method `check` fails the test unless every attempt ended before the next one started (O7), and had a lower token (O9).
func (d *diary) check(attempts int) {
	d.t.Helper()
	last, running, n := int64(0), false, 0
	for line := range strings.Lines(d.text()) {
		word, token := "", int64(0)
		if _, err := fmt.Sscan(line, &word, &token); err != nil {
			d.t.Fatalf("%q: %v", line, err)
		}
		switch {
		case word == "start" && !running && token > last:
			n++
		case word == "end" && running && token == last:
		default:
			d.t.Errorf("attempts overlap, or a token does not grow:\n%s", d.text())
			return
		}
		last, running = token, word == "start"
	}
	if n != attempts || running {
		d.t.Errorf("%d attempts are in the diary, want %d:\n%s", n, attempts, d.text())
	}
}

// fails runs until the file "go" exists, and fails in its first two attempts.
const fails = `echo "start $ARES_FENCING_TOKEN" >>"$1/log"; until test -e "$1/go"; do sleep 0.02; done
n=$(grep -c start "$1/log"); echo "end $ARES_FENCING_TOKEN" >>"$1/log"; test "$n" -ge 3`

// TestAFailingJobMoves lets a job fail twice in one cluster while the other one gets offers again. The third attempt must run in the
// other cluster.
func TestAFailingJobMoves(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	for _, name := range []string{"east", "west"} {
		f.start(name, "dgx-h100")
		f.join(name)
		f.await(name, "ready")
	}
	must(t, f.hub, "cluster", "cordon", "west")
	d := newDiary(t)
	id := f.submit(&apipb.JobSpec{
		Name: "fails", Command: []string{"sh", "-c", fails, "sh", d.dir}, GpuCount: 8,
		Retry: &apipb.RetryPolicy{MaxRetries: new(int32(2)), InitialBackoffSeconds: 0.5, Multiplier: 16},
	})
	f.awaitState(id, "east", string(ares.Running))
	must(t, f.hub, "cluster", "uncordon", "west")
	f.await("west", "ready")
	d.allow("go")
	job, err := f.admin.Wait(t.Context(), id)
	if err != nil || job.GetState() != string(ares.Succeeded) || job.GetCluster() != "west" {
		t.Errorf("the job is %v, %v", job, err)
	}
	var where []string
	for _, at := range job.GetAttempts() {
		where = append(where, fmt.Sprintf("%d %s %d", at.GetNumber(), at.GetCluster(), at.GetExitCode()))
	}
	if got := strings.Join(where, " "); got != "1 east 1 2 east 1 3 west 0" {
		t.Errorf("the attempts are %s", got)
	}
	if out := must(t, f.hub, "job", "get", id); !strings.Contains(out, "CLUSTER") {
		t.Errorf("ares job get prints\n%s", out)
	}
	refused(t, f.hub, "ran in cluster east, which has given the job back", "job", "logs", id, "--attempt", "1")
	must(t, f.hub, "job", "logs", id)
	if there, err := f.members["east"].Client().Job(t.Context(), id); err != nil || there.GetState() != string(ares.Returned) || len(there.GetAttempts()) != 2 {
		t.Errorf("in the first cluster, the job is %v, %v", there, err)
	}
	d.check(3)
	if job.GetUse().GetGpuHours() <= 0 {
		t.Errorf("the job has used %v", job.GetUse())
	}
}

// saves runs until the file "go" exists. When it is stopped, it says so.
const saves = `echo "start $ARES_FENCING_TOKEN" >>"$1/log"; trap 'echo "end $ARES_FENCING_TOKEN" >>"$1/log"; exit 7' TERM
until test -e "$1/go"; do sleep 0.02; done; echo "end $ARES_FENCING_TOKEN" >>"$1/log"`

// TestDrainStops empties a cluster in which an ordinary job and an at_most_once job run. The first one must be stopped and run in the
// other cluster, which does not count as a retry. The other one must run to its end.
func TestDrainStops(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east := f.start("east", "dgx-h100")
	f.join("east")
	f.await("east", "ready")
	moves, once := newDiary(t), newDiary(t)
	spec := func(d *diary, mode string) *apipb.JobSpec {
		return &apipb.JobSpec{
			Name: "saves", Command: []string{"sh", "-c", saves, "sh", d.dir}, GpuCount: 4, ExecutionMode: mode, GraceSeconds: new(int32(20)),
			Retry: &apipb.RetryPolicy{MaxRetries: new(int32(0))},
		}
	}
	movesID, onceID := f.submit(spec(moves, "")), f.submit(spec(once, string(ares.AtMostOnce)))
	moves.await("start", 1)
	once.await("start", 1)
	f.awaitState(movesID, "east", string(ares.Running))
	f.awaitState(onceID, "east", string(ares.Running))
	f.start("west", "dgx-h100")
	f.join("west")
	f.await("west", "ready")

	refused(t, f.hub, "--yes", "cluster", "drain", "east", "--stop")
	out := must(t, f.hub, "cluster", "drain", "east", "--stop", "--yes", "--reason", "maintenance")
	if !strings.Contains(out, "cluster east: draining, stops jobs") || !strings.Contains(out, "1 cannot move") {
		t.Errorf("ares cluster drain --stop prints\n%s", out)
	}
	f.awaitState(movesID, "west", string(ares.Running))
	moves.await("start", 2)
	if out = must(t, f.hub, "cluster", "get", "east"); !strings.Contains(out, "1; 1 cannot move to another cluster") {
		t.Errorf("ares cluster get prints\n%s", out)
	}
	refused(t, east, "still owns 1 jobs", "cluster", "leave")
	moves.allow("go")
	once.allow("go")
	for id, name := range map[string]string{movesID: "west", onceID: "east"} {
		if job, err := f.admin.Wait(t.Context(), id); err != nil || job.GetState() != string(ares.Succeeded) || job.GetCluster() != name {
			t.Errorf("the job is %v, want it in %s, %v", job, name, err)
		}
	}
	moves.check(2)
	once.check(1)
	if there, err := east.Client().Job(t.Context(), movesID); err != nil || there.GetState() != string(ares.Returned) {
		t.Errorf("in the drained cluster, the job is %v, %v", there, err)
	}
	live.Await(t, cluster.Patience, "the cluster to own nothing", func() (bool, string) {
		c, err := f.admin.Cluster(t.Context(), "east")
		return c.GetJobs() == 0, fmt.Sprint(c, err)
	})
	must(t, east, "cluster", "leave")
}
