package federation_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/chaos/crowd"
	"github.com/ares-scheduler/ares/test/chaos/robustness/trace"
	"github.com/ares-scheduler/ares/test/live"
)

// newCrowds returns the clients of the hub, followed by those of each cluster. Clients of a cluster sometimes send it a request
// that was sent to the hub: both accept it, as two jobs.
func (f *fleet) newCrowds() []*crowd.Crowd {
	witness := live.Witness.Path(f.t)
	var out []*crowd.Crowd
	for i, s := range f.all() {
		c := &crowd.Crowd{
			T: f.t, Clients: 1, Record: s.record, Seed: f.meta.Seed*10 + uint64(i), Most: 6, ID: ares.NewJobID, Unfinished: s.unfinished, Away: s.away.Load,
			Dial:   func(server int) *client.Client { return s.client(server, crowd.CallTimeout) },
			NewJob: func(rng *rand.Rand, client, n int) *apipb.JobSpec { return f.newJob(witness, s, rng, client, n) },
		}
		if s.isHub {
			c.Clients, c.Most, c.ID = 3, 24, ares.NewHubJobID
		} else {
			hub := out[0]
			c.NewJob = func(rng *rand.Rand, client, n int) *apipb.JobSpec {
				if rng.IntN(8) == 0 {
					if same := hub.Pick(rng); same != nil && same.GetPlacement() == nil && same.GetOnPartition() == "" && f.isFirst(same.GetRequestId(), s) {
						return same
					}
				}
				return f.newJob(witness, s, rng, client, n)
			}
		}
		for _, m := range s.controls {
			c.Servers = append(c.Servers, m.Name)
		}
		out = append(out, c)
	}
	return out
}

// isFirst chooses, by the request, the only cluster that may get it too: a request of two clusters would be two jobs with one ID.
func (f *fleet) isFirst(request string, s *site) bool {
	sum := 0
	for _, c := range request {
		sum += int(c)
	}
	return f.members[sum%len(f.members)] == s
}

// newJob generates the n-th job of a client.
func (f *fleet) newJob(witness string, s *site, rng *rand.Rand, client, n int) *apipb.JobSpec {
	life := time.Duration(100+rng.IntN(900)) * time.Millisecond
	switch p := rng.IntN(10); {
	case p < 4:
		life = time.Duration(1000+rng.IntN(4000)) * time.Millisecond
	case p < 5:
		life = time.Duration(5000+rng.IntN(10000)) * time.Millisecond
	}
	spec := &apipb.JobSpec{
		RequestId: fmt.Sprintf("seed-%d-%s-%d-%d", f.meta.Seed, s.name, client, n), TenantId: []string{"blue", "green", "green", "default"}[rng.IntN(4)],
		Name: fmt.Sprintf("job-%d-%d", client, n), LostAfterSeconds: int32(8 + rng.IntN(7)), GraceSeconds: new(int32(1)),
		GpuCount:      []int32{1, 1, 1, 2, 2, 4}[rng.IntN(6)],
		PriorityClass: string([]ares.Class{ares.BestEffort, ares.Low, ares.Normal, ares.Normal, ares.High, ares.Critical}[rng.IntN(6)]),
		Command:       []string{witness, "-to", f.home + "/" + trace.JobsDir, "-for", life.String()},
	}
	if rng.IntN(6) == 0 {
		spec.Members, spec.GpuCount = int32(2+rng.IntN(2)), int32(1+rng.IntN(2))
	}
	if s.isHub {
		f.placeAtHub(rng, spec)
	}
	switch rng.IntN(20) {
	case 0:
		spec.Command = append(spec.Command, "-deaf")
	case 1:
		spec.Command = append(spec.Command, "-exit", "3")
	case 2, 3, 4:
		spec.Command = append(spec.Command, "-fails", strconv.Itoa(1+rng.IntN(3)))
		spec.Retry = &apipb.RetryPolicy{MaxRetries: new(int32(4)), InitialBackoffSeconds: 0.2, RetryOn: []string{string(ares.RetryOnFailure)}}
	case 5, 6:
		spec.ExecutionMode = string(ares.AtMostOnce)
	}
	return spec
}

// placeAtHub gives some jobs what only the hub understands.
func (f *fleet) placeAtHub(rng *rand.Rand, spec *apipb.JobSpec) {
	switch rng.IntN(12) {
	case 0:
		other := rng.IntN(len(f.members)) // two clusters: one of them may be lost for good
		spec.Placement = &apipb.Placement{}
		for i, m := range f.members {
			if i != other {
				spec.Placement.Clusters = append(spec.Placement.Clusters, m.name)
			}
		}
	case 1:
		spec.OnPartition, spec.ClusterLostAfterSeconds = "fence", 60
	}
}
