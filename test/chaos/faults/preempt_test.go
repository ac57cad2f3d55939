package faults_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/test/cluster"
)

const (
	// The constant `saves` is a script that stores its progress when the job is asked to
	// stop. After a restart, this script records that the job has resumed.
	saves = `[ -z "$ARES_CHECKPOINTED_AT" ] || say resumed
trap 'touch "$ARES_CHECKPOINT_FILE"; say saved; exit 0' TERM
` + untilReleased
	// The constant `lingers` is a script like `saves`, but it stops only when the test allows
	// it.
	lingers = `[ -z "$ARES_CHECKPOINTED_AT" ] || say resumed
trap 'say asked; while ! [ -e "$TRACE/$NAME.save" ]; do sleep 0.1; done; touch "$ARES_CHECKPOINT_FILE"; say saved; exit 0' TERM
` + untilReleased
)

// The type `full` is a cluster of two nodes with four GPUs each. Low-priority jobs use all of
// these GPUs.
type full struct {
	*testCluster
	c    *client.Client
	low  []string          // IDs of the low-priority jobs
	name map[string]string // by job ID
}

// `fill` submits low-priority jobs of one GPU each until every GPU is in use.
func (w *testCluster) fill(c *client.Client, body string, hosts ...*cluster.Server) *full {
	w.t.Helper()
	f := &full{testCluster: w, c: c, name: map[string]string{}}
	for _, node := range []string{"node-a", "node-b"} {
		w.StartAgent(node, hosts...)
	}
	online(w.t, c, "node-a", "node-b")
	for i := range 8 {
		spec := w.job(fmt.Sprintf("low-%d", i), body)
		spec.GpuCount, spec.PriorityClass, spec.GraceSeconds, spec.LostAfterSeconds = 1, "low", new(int32(60)), 60
		id := w.submit(c, spec)
		f.low, f.name[id] = append(f.low, id), spec.Name
	}
	for _, id := range f.low {
		w.started(id, 1, 1)
		w.state(c, id, ares.Running)
	}
	return f
}

// The method `urgent` submits a gang in the priority class "critical", with two members of
// two GPUs each.
func (f *full) urgent(name string) string {
	f.t.Helper()
	spec := f.job(name, untilReleased)
	spec.GpuCount, spec.Members, spec.PriorityClass, spec.LostAfterSeconds = 2, 2, "critical", 60
	return f.submit(f.c, spec)
}

// This method returns the preempted low-priority jobs, as the server reports
// them.
func (f *full) gave() map[string]*apipb.Preemption {
	f.t.Helper()
	out := map[string]*apipb.Preemption{}
	list, err := f.c.Preemptions(f.t.Context(), &apipb.ListPreemptionsRequest{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range list.GetPreemptions() {
		if out[p.GetJobId()] != nil {
			f.t.Errorf("%s was preempted twice: %v", p.GetJobId(), list)
		}
		out[p.GetJobId()] = p
	}
	return out
}

// The method `settle` lets the gang end, and then all other jobs. The method checks that only
// the preempted jobs ran again, and that they resumed from their saved progress.
func (f *full) settle(gang string, victims map[string]*apipb.Preemption) {
	f.t.Helper()
	f.release("gang")
	f.ends(f.c, gang, ares.Succeeded)
	for id := range victims {
		f.started(id, 2, 1)
		if len(of(f.lines(id), "resumed", 2)) != 1 {
			f.t.Errorf("the second attempt of %s does not know of its checkpoint: %v", id, f.lines(id))
		}
	}
	for _, id := range f.low {
		f.release(f.name[id])
	}
	for _, id := range f.low {
		j := f.ends(f.c, id, ares.Succeeded)
		attempts, saved := 1, 0
		if victims[id] != nil {
			attempts, saved = 2, 1
		}
		if len(j.GetAttempts()) != attempts || j.GetRetries() != 0 || int(j.GetPreemptions()) != saved || len(of(f.lines(id), "saved", 0)) != saved {
			f.t.Errorf("%s has %d attempts, %d retries and %d preemptions, want %d, 0 and %d: %v",
				id, len(j.GetAttempts()), j.GetRetries(), j.GetPreemptions(), attempts, saved, f.lines(id))
		}
		f.judge(id)
	}
	f.judge(gang)
}

// TestLowJobsGiveWayToACriticalGang submits a critical gang to a cluster that
// is full of low-priority jobs. Ares must stop no more low-priority jobs than
// necessary. The preempted jobs must save their progress and resume later.
func TestLowJobsGiveWayToACriticalGang(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	f := w.fill(c, saves, s)
	gang := f.urgent("gang")
	starts := w.started(gang, 1, 2)
	victims := f.gave()
	if len(victims) != 4 {
		t.Fatalf("%d jobs were preempted, want 4: %v", len(victims), victims)
	}
	for id, p := range victims {
		if p.GetState() != "gone" || p.GetByJobId() != gang || p.GetWhy() != "class" || p.GetGpus() != 1 || p.GetAskedGpus() != 4 || p.GetCheckpointedAt() == nil {
			t.Errorf("%s: %v", id, p)
		}
		// The preempted job may lose only the little work that it did after its checkpoint.
		if work := p.GetGpuSecondsLost() - p.GetRestartGpuSeconds(); work < 0 || work > 20 {
			t.Errorf("%s lost %v GPU-seconds of work: %v", id, work, p)
		}
		saved := of(w.lines(id), "saved", 1)
		if len(saved) != 1 {
			t.Fatalf("%s was not asked to stop, or did not save: %v", id, w.lines(id))
		}
		for _, l := range starts {
			if l.at < saved[0].at {
				t.Errorf("the gang started at %s, before %s had saved at %s", l.at, id, saved[0].at)
			}
		}
	}
	f.settle(gang, victims)
}

// TestPreemptionIsFinishedByTheNextLeader kills the leader during a preemption. The next
// leader must finish the preemption. The gang must start on its reserved seats, and no other
// job may be preempted.
func TestPreemptionIsFinishedByTheNextLeader(t *testing.T) {
	for name, before := range map[string]int{
		"AllAreToGo":  0, // killed when the nomination is written
		"HalfAreGone": 2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newCluster(t, cluster.Etcd(1))
			hosts := []*cluster.Server{w.StartServer("one"), w.StartServer("two")}
			st := w.Store()
			leader := func() string {
				name, _ := st.Leader(t.Context()) // empty while there is no leader
				return name
			}
			poll(t, patience, "a leader", func() (bool, string) { return leader() != "", "" })
			if leader() != hosts[0].ID() {
				slices.Reverse(hosts)
			}
			old, next := hosts[0], hosts[1]
			c := w.Client(next)
			f := w.fill(c, lingers, next, old)

			written := errors.New("the nomination is written")
			nominated := make(chan *ares.Nomination, 1)
			gang := ""
			seen := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() {
				seen <- st.Watch(ctx, func(b ares.Batch) error {
					for _, e := range b.Events {
						if e.Run != nil && e.Run.Run.Nominated != nil {
							nominated <- e.Run.Run.Nominated
							if before == 0 {
								old.Kill()
							}
							return written
						}
					}
					return nil
				})
			}()
			gang = f.urgent("gang")
			if err := <-seen; !errors.Is(err, written) {
				t.Fatal(err)
			}
			kept := <-nominated
			var named []string
			for _, v := range kept.Victims {
				named = append(named, string(v.Job))
			}
			slices.Sort(named)
			for _, id := range named[:before] {
				w.mark(f.name[id] + ".save")
				w.state(c, id, ares.Preempted, ares.Pending)
			}
			old.Kill()
			poll(t, patience, "another leader", func() (bool, string) { return leader() == next.ID(), leader() })
			if got := of(w.lines(gang), "start", 0); len(got) != 0 {
				t.Errorf("the gang started while seats of it were held: %v", got)
			}
			for _, id := range named[before:] {
				w.mark(f.name[id] + ".save")
			}
			w.started(gang, 1, 2)
			if got := slices.Sorted(maps.Keys(f.gave())); !slices.Equal(got, named) {
				t.Errorf("%v were preempted, but the nomination names %v", got, named)
			}
			j := w.state(c, gang, ares.Running)
			for _, seat := range j.GetAttempts()[0].GetSeats() {
				if !slices.ContainsFunc(kept.Seats, func(k ares.Seat) bool {
					return k.Node == seat.GetNode() && k.Rank == int(seat.GetRank()) && len(k.Shares) == len(seat.GetDevices()) && k.Shares[0].Device == seat.GetDevices()[0]
				}) {
					t.Errorf("the gang sits on %v, kept was %+v", seat, kept.Seats)
				}
			}
			for _, id := range f.low { // jobs that are asked from now on need not linger
				w.mark(f.name[id] + ".save")
			}
			f.settle(gang, f.gave())
		})
	}
}

// This method creates a file in the directory where jobs write their lines.
func (w *testCluster) mark(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.trace(), name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// In TestPreemptionRacesWithCompletion, some jobs end by themselves at the moment when they
// are preempted. Each job must have exactly one outcome. A job that succeeded must not run
// again, and a stopped job must run again. No job may run twice at the same time or get lost.
func TestPreemptionRacesWithCompletion(t *testing.T) {
	t.Parallel()
	w := newCluster(t)
	s := w.StartServer("server")
	c := w.Client(s)
	f := w.fill(c, untilReleased, s)
	var gangs []string
	for i := range 4 {
		gangs = append(gangs, f.urgent(fmt.Sprintf("gang-%d", i)))
		// Let two jobs end by themselves at about the time when other jobs are asked to stop.
		for _, id := range f.low[2*i : 2*i+2] {
			f.release(f.name[id])
		}
		w.started(gangs[i], 1, 2)
		f.release(fmt.Sprintf("gang-%d", i))
	}
	for _, id := range slices.Concat(gangs, f.low) {
		j := w.ends(c, id, ares.Succeeded)
		lines := w.lines(id)
		ranks := int(j.GetMembers())
		// A job writes its last line before it exits. If it is asked to stop in between, it counts as stopped and runs again, so
		// an earlier attempt may have that line too. The loop below checks that each earlier attempt was stopped.
		last := j.GetAttempts()[len(j.GetAttempts())-1]
		if n := len(of(lines, "end", int(last.GetNumber()))); n != ranks || len(j.GetAttempts()) != int(j.GetPreemptions())+1 || j.GetRetries() != 0 {
			t.Errorf("%s has %d attempts, was preempted %d times and used %d retries: %v", id, len(j.GetAttempts()), j.GetPreemptions(), j.GetRetries(), lines)
		}
		for _, at := range j.GetAttempts()[:len(j.GetAttempts())-1] {
			if at.GetOutcome() != string(ares.OutcomeStopped) || at.GetPreemption() == nil {
				t.Errorf("attempt %d of %s: %v", at.GetNumber(), id, at)
			}
		}
		w.judge(id)
	}
}
