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
)

const (
	// saves is a job that saves its progress when it is asked to stop, and knows
	// when it goes on from there.
	saves = `[ -z "$ARES_CHECKPOINTED_AT" ] || say resumed
trap 'touch "$ARES_CHECKPOINT_FILE"; say saved; exit 0' TERM
` + untilReleased
	// lingers is the same, and takes the time for it that the test wants.
	lingers = `[ -z "$ARES_CHECKPOINTED_AT" ] || say resumed
trap 'say asked; while ! [ -e "$TRACE/$NAME.save" ]; do sleep 0.1; done; touch "$ARES_CHECKPOINT_FILE"; say saved; exit 0' TERM
` + untilReleased
)

// full is a fleet of two nodes with four GPUs each, all held by low jobs.
type full struct {
	*world
	c    *client.Client
	low  []string          // job IDs
	name map[string]string // by job ID
}

// fill has low jobs take every GPU, one each.
func (w *world) fill(c *client.Client, body string, hosts ...*host) *full {
	w.t.Helper()
	f := &full{world: w, c: c, name: map[string]string{}}
	for _, node := range []string{"node-a", "node-b"} {
		w.agent(node, hosts...)
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

// urgent submits a gang of two members with two GPUs each that nobody may hold up.
func (f *full) urgent(name string) string {
	f.t.Helper()
	spec := f.job(name, untilReleased)
	spec.GpuCount, spec.Members, spec.PriorityClass, spec.LostAfterSeconds = 2, 2, "critical", 60
	return f.submit(f.c, spec)
}

// gave are the low jobs that gave way, by what the server tells.
func (f *full) gave() map[string]*apipb.Preemption {
	f.t.Helper()
	out := map[string]*apipb.Preemption{}
	list, err := f.c.Preemptions(f.t.Context(), &apipb.ListPreemptionsRequest{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range list.GetPreemptions() {
		if out[p.GetJobId()] != nil {
			f.t.Errorf("%s gave way twice: %v", p.GetJobId(), list)
		}
		out[p.GetJobId()] = p
	}
	return out
}

// settle lets the gang end, then everybody, and checks that those who gave way,
// and only those, ran again from where they had saved.
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
			f.t.Errorf("%s has %d attempts, %d retries and gave way %d times, want %d, 0 and %d: %v",
				id, len(j.GetAttempts()), j.GetRetries(), j.GetPreemptions(), attempts, saved, f.lines(id))
		}
		f.judge(id)
	}
	f.judge(gang)
}

// A full cluster of low jobs, and a critical gang arrives: as many as it takes
// are asked to stop, save their progress, and go on with it later.
func TestLowJobsGiveWayToACriticalGang(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	c := w.client(s)
	f := w.fill(c, saves, s)
	gang := f.urgent("gang")
	starts := w.started(gang, 1, 2)
	victims := f.gave()
	if len(victims) != 4 {
		t.Fatalf("%d jobs gave way, want 4: %v", len(victims), victims)
	}
	for id, p := range victims {
		if p.GetState() != "gone" || p.GetByJobId() != gang || p.GetWhy() != "class" || p.GetGpus() != 1 || p.GetAskedGpus() != 4 || p.GetCheckpointedAt() == nil {
			t.Errorf("%s: %v", id, p)
		}
		// What it lost is a moment of work, between the checkpoint and its end.
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

// The leader is killed in the middle of a preemption: the next one finishes it.
// The gang starts where its seats were kept, and nobody else gives way.
func TestPreemptionIsFinishedByTheNextLeader(t *testing.T) {
	for name, before := range map[string]int{
		"AllAreToGo":  0, // killed when the nomination is written
		"HalfAreGone": 2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.startEtcd()
			hosts := []*host{w.server("one"), w.server("two")}
			st := w.open()
			leader := func() string {
				name, _ := st.Leader(t.Context()) // none while there is no leader
				return name
			}
			poll(t, patience, "a leader", func() (bool, string) { return leader() != "", "" })
			if leader() != hosts[0].id() {
				slices.Reverse(hosts)
			}
			old, next := hosts[0], hosts[1]
			c := w.client(next)
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
								old.kill()
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
			old.kill()
			poll(t, patience, "another leader", func() (bool, string) { return leader() == next.id(), leader() })
			if got := of(w.lines(gang), "start", 0); len(got) != 0 {
				t.Errorf("the gang started while seats of it were held: %v", got)
			}
			for _, id := range named[before:] {
				w.mark(f.name[id] + ".save")
			}
			w.started(gang, 1, 2)
			if got := slices.Sorted(maps.Keys(f.gave())); !slices.Equal(got, named) {
				t.Errorf("%v gave way, the nomination names %v", got, named)
			}
			j := w.state(c, gang, ares.Running)
			for _, seat := range j.GetAttempts()[0].GetSeats() {
				if !slices.ContainsFunc(kept.Seats, func(k ares.Seat) bool {
					return k.Node == seat.GetNode() && k.Rank == int(seat.GetRank()) && len(k.Shares) == len(seat.GetDevices()) && k.Shares[0].Device == seat.GetDevices()[0]
				}) {
					t.Errorf("the gang sits on %v, kept was %+v", seat, kept.Seats)
				}
			}
			for _, id := range f.low { // who is asked from now on need not linger
				w.mark(f.name[id] + ".save")
			}
			f.settle(gang, f.gave())
		})
	}
}

// mark makes a file beside the traces.
func (w *world) mark(name string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.trace(), name), nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// Jobs end by themselves in the moment they are asked to give way: each has one
// outcome. Whoever ended has ended, and whoever was stopped runs again; nothing
// runs twice, and nothing is lost.
func TestPreemptionRacesWithCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.server("server")
	c := w.client(s)
	f := w.fill(c, untilReleased, s)
	var gangs []string
	for i := range 4 {
		gangs = append(gangs, f.urgent(fmt.Sprintf("gang-%d", i)))
		// Two end at about the time at which some are asked to stop.
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
		if n := len(of(lines, "end", 0)); n != ranks {
			t.Errorf("%s ended %d times, want %d: %v", id, n, ranks, lines)
		}
		last := j.GetAttempts()[len(j.GetAttempts())-1]
		if n := len(of(lines, "end", int(last.GetNumber()))); n != ranks || len(j.GetAttempts()) != int(j.GetPreemptions())+1 || j.GetRetries() != 0 {
			t.Errorf("%s has %d attempts, gave way %d times and used %d retries: %v", id, len(j.GetAttempts()), j.GetPreemptions(), j.GetRetries(), lines)
		}
		for _, at := range j.GetAttempts()[:len(j.GetAttempts())-1] {
			if at.GetOutcome() != string(ares.OutcomeStopped) || at.GetPreemption() == nil {
				t.Errorf("attempt %d of %s: %v", at.GetNumber(), id, at)
			}
		}
		w.judge(id)
	}
}
