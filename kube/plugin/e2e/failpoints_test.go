package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// TestKilledAtBinding: the scheduler is killed before and after each binding of a gang. The next one completes the gang on
// the same seats.
func TestKilledAtBinding(t *testing.T) {
	t.Parallel()
	s := newScene(t, "killedbinding", 2*nodesPerLeaf)
	gate, through := s.openGate()
	s.useScheduler(through)
	const size = 3
	sizes := map[string]int{}
	o := s.observe()
	for nth := 1; nth <= size; nth++ {
		for _, after := range []bool{false, true} {
			fired := gate.arm(s.process, failpoint{suffix: "/binding", nth: nth, after: after})
			app := fmt.Sprintf("gang-%d-%t", nth, after)
			sizes[app] = size
			s.createJob(s.job(app, size, 2))
			s.restartAfter(gate, fired)
			s.awaitWhole("probe-"+app, sizes)
			s.awaitBound(app, size)
		}
	}
	o.report(t)
	s.checkDevices()
}

// TestLostAnswers: the connection breaks while the answer to a binding of a gang is on its way. The gang is bound whole all
// the same.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	s := newScene(t, "lostanswers", 2*nodesPerLeaf)
	gate, through := s.openGate()
	s.useScheduler(through)
	const size = 6
	sizes := map[string]int{}
	o := s.observe()
	for nth := 1; nth <= size; nth++ {
		fired := gate.arm(s.process, failpoint{suffix: "/binding", nth: nth, after: true, lives: true})
		app := fmt.Sprint("gang-", nth)
		sizes[app] = size
		s.createJob(s.job(app, size, 1))
		select {
		case <-fired:
		case <-time.After(patience):
			t.Fatal("the scheduler did not come to the failpoint")
		}
		s.awaitWhole("probe-"+app, sizes)
		s.awaitBound(app, size)
	}
	o.report(t)
}

// TestKilledAtEviction: the scheduler is killed before and after each eviction of a gang. The preemption goes on: the gang
// is evicted as a whole, and the workload that preempts it gets its GPUs.
func TestKilledAtEviction(t *testing.T) {
	t.Parallel()
	const size = 2
	for nth := 1; nth <= 2*size; nth++ { // first a dry run for each pod
		for _, after := range []bool{false, true} {
			if after && nth < size {
				continue // nothing has happened yet
			}
			t.Run(fmt.Sprintf("%d-%t", nth, after), func(t *testing.T) {
				s := newScene(t, fmt.Sprintf("killedeviction%d-%t", nth, after), size)
				gate, through := s.openGate()
				s.useScheduler(through)
				s.createJob(s.job("victim", size, 8))
				before := uids(s.awaitBound("victim", size))
				fired := gate.arm(s.process, failpoint{suffix: "/eviction", nth: nth, after: after})
				urgent := s.job("urgent", size, 8)
				urgent.Spec.Template.Spec.PriorityClassName = critical
				s.createJob(urgent)
				s.restartAfter(gate, fired)
				s.awaitBound("urgent", size)
				s.await(func(ctx context.Context) error {
					list, err := s.pods(ctx, "victim")
					for i := range list {
						if before[list[i].UID] {
							err = fmt.Errorf("pod %s was not evicted", list[i].Name)
						}
					}
					return err
				})
				s.checkDevices()
			})
		}
	}
}

// restartAfter waits until the scheduler was killed, and starts it again.
func (s *scene) restartAfter(g *gate, fired <-chan struct{}) {
	s.t.Helper()
	select {
	case <-fired:
	case <-time.After(patience):
		s.t.Fatal("the scheduler did not come to the failpoint")
	}
	g.reopen()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
}
