package engine_test

import (
	"fmt"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/laws"
)

// TestHoldsCostWhatTheyMay checks the cost of holds in a cluster that small jobs could fill completely, while gangs of
// half the cluster wait all the time. With holds, gangs start. The additional idle GPUs stay near the configured share,
// whether runtimes are predicted or not.
func TestHoldsCostWhatTheyMay(t *testing.T) {
	const share, days = 100, 2
	for _, prediction := range []string{"no prediction", "exact"} {
		t.Run(prediction, func(t *testing.T) {
			t.Parallel()
			idle := map[int]float64{}
			for _, holdIdle := range []int{0, share} {
				f := newFloodedCluster(t, 16, holdIdle, predictors[prediction])
				f.minute(70)
				sum, gangs := 0.0, 0
				for m := range days * 24 * 60 {
					if m%720 == 0 {
						f.submit(ares.JobID(fmt.Sprintf("gang%d", m/720)), ares.Spec{Members: 8, GPUs: 8}, time.Hour)
					}
					f.minute(min(2, max(80-f.made+len(f.started), 0))) // enough small jobs wait all the time
					if err := laws.CheckHolds(f.w.State, f.w.Now, f.w.State.PlannedStarts()); err != nil {
						t.Fatal(err)
					}
					sum += float64(freeGPUs(f)) / 128
				}
				for id := range f.started {
					if len(id) > 4 && id[:4] == "gang" {
						gangs++
					}
				}
				idle[holdIdle] = sum / (days * 24 * 60)
				t.Logf("share %d: %.3f of the GPUs are idle, %d of %d gangs have started", holdIdle, idle[holdIdle], gangs, days*2)
				if holdIdle > 0 && gangs == 0 {
					t.Error("no gang has started")
				}
			}
			if more := idle[share] - idle[0]; more > 2*float64(share)/1000 {
				t.Errorf("holds leave %.3f of the GPUs idle in addition, the share is %.3f", more, float64(share)/1000)
			}
		})
	}
}

// freeGPUs returns the number of GPUs that no running job uses.
func freeGPUs(f *floodedCluster) int {
	free := 128
	for job, run := range f.w.State.Jobs() {
		if run != nil && run.Current() != nil {
			free -= max(job.Members, 1) * job.GPUs
		}
	}
	return free
}
