package secrets

import (
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store"
)

// An agent fetches the secrets of a rank right after its claim, and repeats this only after an error or a restart. These
// constants limit what a hostile node gets beyond this. Without the first one, a node with a long job could read every later
// version of the job's secrets. Without the second one, it could fill the audit log.
const (
	deliveryTime    = 15 * time.Minute // after all ranks of the attempt have claimed their seats
	maxDeliveries   = 20               // for one rank of one attempt, by one server
	maxCountedSeats = 10_000
)

// checkDelivery rejects a delivery that no agent needs, and counts the others.
func (s *Secrets) checkDelivery(ref store.SeatRef, a *ares.Attempt) error {
	if started := a.StartedAt; !started.IsZero() && s.Now().Sub(started) > deliveryTime {
		return ares.Errorf(ares.Forbidden, "job %s started at %s, and its secrets are delivered only during the first %d minutes: retry the job", ref.Job, started.UTC().Format(time.RFC3339), int(deliveryTime.Minutes()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.delivered) >= maxCountedSeats && s.delivered[ref] == 0 {
		clear(s.delivered)
	}
	if s.delivered[ref] >= maxDeliveries {
		return ares.Errorf(ares.Exhausted, "node %s has fetched the secrets of rank %d of job %s %d times, which is the limit", ref.Node, ref.Rank, ref.Job, maxDeliveries)
	}
	if s.delivered == nil {
		s.delivered = map[store.SeatRef]int{}
	}
	s.delivered[ref]++
	return nil
}
