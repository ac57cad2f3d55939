package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// storm is how long the processes are maltreated.
const storm = 30 * time.Second

// Processes are killed and stopped at random moments, the server's among
// them: between any two steps of a seat's life. Whatever happens, each job
// commits once and no attempt overlaps with the next.
func TestKillsAtRandomMomentsLoseRepeatAndOverlapNothing(t *testing.T) {
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	s := w.server("server")
	c := w.client(s)
	victims := []*proc{s.proc}
	for i := range 3 {
		victims = append(victims, w.agent(fmt.Sprintf("node-%d", i), s))
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

// strike kills a process and starts it again, or lets it stand still, each for
// a moment, and sometimes for longer than a job bears.
func strike(r *rand.Rand, p *proc) {
	moment := time.Duration(r.IntN(1200)) * time.Millisecond
	if r.IntN(6) == 0 {
		moment = lostAfter * time.Second
	}
	if r.IntN(3) > 0 {
		p.kill()
		rest(moment)
		p.start()
	} else {
		p.freeze()
		rest(moment)
		p.thaw()
	}
	rest(time.Duration(r.IntN(600)) * time.Millisecond)
}

func rest(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
}
