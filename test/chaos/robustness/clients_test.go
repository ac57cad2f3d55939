package robustness_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/chaos/crowd"
	"github.com/ares-scheduler/ares/test/chaos/recorder"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// The variable `quotas` holds the number of GPUs that each tenant may use at
// the same time.
var quotas = map[string]int{"blue": 10, "green": 18}

// newCrowd returns the clients of a run.
func newCrowd(f *fleet, record *trace.Writer, rec *recorder.Recorder) *crowd.Crowd {
	witness := live.Witness.Path(f.t)
	c := &crowd.Crowd{
		T: f.t, Clients: 6, Record: record, Seed: *seed, Most: 60, Unfinished: rec.Unfinished, ID: ares.NewJobID,
		Dial:   func(server int) *client.Client { return f.client(server, crowd.CallTimeout) },
		NewJob: func(rng *rand.Rand, client, n int) *apipb.JobSpec { return newJob(witness, record.Dir, rng, client, n) },
	}
	for _, m := range f.controls {
		c.Servers = append(c.Servers, m.Name)
	}
	return c
}

// newJob generates the n-th job of a client. The job runs the given program.
func newJob(witness, record string, rng *rand.Rand, client, n int) *apipb.JobSpec {
	life := time.Duration(50+rng.IntN(800)) * time.Millisecond
	switch p := rng.IntN(10); {
	case p < 3:
		life = time.Duration(1000+rng.IntN(3000)) * time.Millisecond
	case p < 4:
		life = time.Duration(5000+rng.IntN(7000)) * time.Millisecond
	}
	spec := &apipb.JobSpec{
		RequestId: fmt.Sprintf("seed-%d-client-%d-%d", *seed, client, n), TenantId: []string{"blue", "green", "default"}[rng.IntN(3)],
		Name: fmt.Sprintf("job-%d-%d", client, n), LostAfterSeconds: int32(6 + rng.IntN(7)), GraceSeconds: new(int32(1)),
		GpuCount: []int32{1, 1, 1, 1, 2, 2, 4}[rng.IntN(7)], Environment: map[string]string{},
		Command: []string{witness, "-to", record + "/" + trace.JobsDir, "-for", life.String()},
	}
	if rng.IntN(5) == 0 {
		spec.Members, spec.GpuCount = int32(2+rng.IntN(3)), int32(1+rng.IntN(2))
	} else if rng.IntN(16) == 0 {
		spec.GpuCount, spec.GpuMilli = 0, 500
		spec.Environment["WITNESS_SHARES"] = "yes"
	}
	if spec.Members > 1 && rng.IntN(2) == 0 {
		spec.MinMembers = 1
	}
	// Use several priority classes, so that some jobs preempt others.
	spec.PriorityClass = string([]ares.Class{ares.BestEffort, ares.Low, ares.Normal, ares.Normal, ares.High, ares.Critical}[rng.IntN(6)])
	if rng.IntN(10) == 0 {
		spec.Array = &apipb.Array{Count: int32(1 + rng.IntN(4)), Parallelism: 1}
		spec.Array.Parallelism += rng.Int32N(spec.Array.Count)
	}
	switch rng.IntN(20) {
	case 0:
		spec.Command = append(spec.Command, "-deaf")
	case 1:
		spec.Command = append(spec.Command, "-orphan")
	case 2:
		spec.Command = append(spec.Command, "-exit", "3")
	case 3, 4:
		spec.Command = append(spec.Command, "-fails", strconv.Itoa(1+rng.IntN(2)))
		spec.Retry = &apipb.RetryPolicy{MaxRetries: new(int32(3)), InitialBackoffSeconds: 0.2, RetryOn: []string{string(ares.RetryOnFailure)}}
	case 5, 6:
		spec.ExecutionMode = string(ares.AtMostOnce)
	}
	return spec
}
