package federation

import (
	"fmt"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// awaitState waits until a job has a state at a hub or in a cluster.
func awaitState(t *testing.T, at *client.Client, id string, state ares.Phase) {
	t.Helper()
	live.Await(t, cluster.Patience, "job "+id+" to be "+string(state), func() (bool, string) {
		job, err := at.Job(t.Context(), id)
		return job.GetState() == string(state), fmt.Sprint(job.GetState(), err)
	})
}

// TestASilentClusterKeepsOnlyWhatItOwns freezes the server of a cluster that runs a job of the hub and has the only offer of
// another one. The offered job must start in the other cluster as soon as that has free devices. The running job must not.
func TestASilentClusterKeepsOnlyWhatItOwns(t *testing.T) {
	t.Parallel()
	f := startHub(t)
	east, west := f.start("east", "dgx-h100"), f.start("west", "dgx-h100")
	f.join("east")
	f.await("east", "ready")
	sleep := []string{"sleep", "1000"}
	owned := f.submit(&apipb.JobSpec{Name: "owned", Command: sleep, GpuCount: 4})
	awaitState(t, f.admin, owned, ares.Running)
	local, err := west.Client().Submit(t.Context(), &apipb.JobSpec{Name: "local", Command: sleep, GpuCount: 8})
	if err != nil {
		t.Fatal(err)
	}
	awaitState(t, west.Client(), local.GetJobId(), ares.Running)
	f.join("west")
	f.await("west", "ready")

	thaw := east.Servers[0].Freeze()
	waits := f.submit(&apipb.JobSpec{Name: "waits", Command: sleep, GpuCount: 4})
	if _, err = west.Client().Cancel(t.Context(), local.GetJobId()); err != nil {
		t.Fatal(err)
	}
	awaitState(t, west.Client(), waits, ares.Running)
	f.await("east", "unreachable")
	if _, err = west.Client().Job(t.Context(), owned); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("the job of the silent cluster is in the other one: %v", err)
	}
	thaw()
	f.await("east", "ready")
	awaitState(t, east.Client(), owned, ares.Running)
	if _, err = east.Client().Job(t.Context(), waits); ares.CodeOf(err) != ares.NotFound {
		t.Errorf("the job that was offered to the silent cluster is in both: %v", err)
	}
	for _, id := range []string{owned, waits} {
		awaitState(t, f.admin, id, ares.Running)
	}
}
