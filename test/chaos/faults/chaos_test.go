package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
)

// The constant `storm` says for how long the test kills and freezes processes.
const storm = 30 * time.Second

// TestKillsAtRandomMomentsLoseRepeatAndOverlapNothing kills and freezes
// processes, including the server, at random moments. The test checks that each
// job still commits exactly once. No attempt may overlap with the next attempt.
func TestKillsAtRandomMomentsLoseRepeatAndOverlapNothing(t *testing.T) {
	w := newCluster(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := w.StartServer("server")
	c := w.Client(s)
	victims := []*cluster.Process{s.Process}
	for i := range 3 {
		victims = append(victims, w.StartAgent(fmt.Sprintf("node-%d", i), s))
	}
	var specs []*apipb.JobSpec
	for i := range 120 {
		spec := w.job(fmt.Sprintf("job-%d", i), "trap '' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do say beat; sleep 0.2; done\n")
		spec.GpuCount, spec.LostAfterSeconds = 1, ttl+1
		if i%6 == 0 {
			spec.Members = 3
		}
		specs = append(specs, spec)
	}
	submitted := make(chan []string, 1)
	go func() { submitted <- submitAll(t.Context(), t, c, specs) }()
	for end := time.Now().Add(storm); time.Now().Before(end); {
		strike(r, victims[r.IntN(len(victims))])
	}
	attempts := 0
	for _, id := range <-submitted {
		j := w.ends(c, id, ares.Succeeded)
		attempts += int(j.GetAttempt())
		last := j.GetAttempts()[len(j.GetAttempts())-1]
		if n := len(of(w.lines(id), "end", int(last.GetNumber()))); n != int(j.GetMembers()) || j.GetRetries() != 0 {
			t.Errorf("%s: attempt %d, which succeeded, ended %d times for %d ranks; %d retries used", id, last.GetNumber(), n, j.GetMembers(), j.GetRetries())
		}
	}
	t.Logf("%d jobs took %d attempts", len(specs), attempts)
}

// The function `strike` kills and restarts a process, or freezes it for a
// while. The process is usually down for a short time, but sometimes for longer
// than the jobs' lost_after.
func strike(r *rand.Rand, p *cluster.Process) {
	moment := time.Duration(r.IntN(1200)) * time.Millisecond
	if r.IntN(6) == 0 {
		moment = lostAfter * time.Second
	}
	if r.IntN(3) > 0 {
		p.Kill()
		rest(moment)
		p.Start()
	} else {
		p.Freeze()
		rest(moment)
		p.Thaw()
	}
	rest(time.Duration(r.IntN(600)) * time.Millisecond)
}

func rest(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
