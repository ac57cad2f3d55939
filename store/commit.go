package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// maxChunkWrites limits the writes of one commit, and thereby also its comparisons. In one
// transaction, etcd allows 128 writes and 128 comparisons, including those of nested transactions.
const maxChunkWrites = 120

// maxChunkSeats limits the seats in the runs of one commit. Large gangs therefore do not exceed
// etcd's request size.
const maxChunkSeats = 4096

// Change is a job's run with the changes that a plan makes to it.
type Change struct {
	Job  ares.JobID
	Next ares.Run // with the Revision of the run it was made from
	New  bool     // a new attempt begins, so its lease is created
	// Make lists the array elements that this change creates. Either all these
	// elements are created together with the change, or the whole change is dropped.
	Make []Element
	// Group is the name of a group of changes, or "" if the change belongs to no group. Adjacent
	// changes with the same group are either all written or all dropped. If a group does not fit
	// into one transaction, its last changes are dropped.
	Group ares.JobID
}

// Element is a new element of an array, with its first attempt.
type Element struct {
	Job *ares.Job
	Run ares.Run
}

// This method returns an upper bound for two numbers: the writes that the
// change needs, and the comparisons that it needs.
func (c *Change) weight() int {
	if !c.New && c.Next.Revision > 0 {
		return 1 + 3*len(c.Make)
	}
	return 2 + 3*len(c.Make)
}

func (c *Change) seats() int {
	n := 0
	for k := range c.Next.Attempts {
		n += len(c.Next.Attempts[k].Seats)
	}
	for i := range c.Make {
		n += len(c.Make[i].Run.Last().Seats)
	}
	if c.Next.Nominated != nil {
		n += len(c.Next.Nominated.Seats)
	}
	return n
}

// Commit writes one plan. Commit fails if another server has become leader or has written a plan in
// the meantime. A paused leader therefore cannot commit an old plan. If a job's run has changed
// since the plan was made, that job's change is dropped. The other changes of its group are dropped
// too. Commit returns the revision of the last write. It also returns the dropped jobs.
func (s *Store) Commit(ctx context.Context, lead *Leadership, digest string, changes []Change) (revision int64, dropped []ares.JobID, err error) {
	units, dropped := grouped(changes)
	for len(units) > 0 {
		n := chunk(units)
		rev, out, err := s.commitChunk(ctx, lead, digest, units[:n])
		if err != nil {
			return revision, dropped, err
		}
		revision, dropped = rev, append(dropped, out...)
		units = units[n:]
	}
	return revision, dropped, nil
}

// A `unit` is one change or one group of changes. Either all changes of a unit are written, or none
// of them.
type unit []Change

func (u unit) size() (seats, writes int) {
	for i := range u {
		seats, writes = seats+u[i].seats(), writes+u[i].weight()
	}
	return seats, writes
}

// This function combines the changes into units. If a group does not fit into one
// transaction, the function drops the last changes of the group. A later plan
// contains the dropped changes again.
func grouped(changes []Change) (units []unit, dropped []ares.JobID) {
	units = make([]unit, 0, len(changes))
	seats, writes := 0, 0 // in the last unit
	for i := range changes {
		c := &changes[i]
		if i == 0 || c.Group == "" || c.Group != changes[i-1].Group {
			units = append(units, changes[i:i+1:i+1])
			seats, writes = c.seats(), c.weight()
			continue
		}
		if seats, writes = seats+c.seats(), writes+c.weight(); seats > maxChunkSeats || writes > maxChunkWrites {
			dropped = append(dropped, c.Job)
			continue // the sums only grow, so the rest of the group is dropped too
		}
		units[len(units)-1] = append(units[len(units)-1], *c)
	}
	return units, dropped
}

// This function returns how many of the units fit into one transaction. The
// result is at least 1.
func chunk(units []unit) int {
	seats, writes := 0, 0
	for i := range units {
		s, w := units[i].size()
		if seats, writes = seats+s, writes+w; (seats > maxChunkSeats || writes > maxChunkWrites) && i > 0 {
			return i
		}
	}
	return len(units)
}

func (s *Store) commitChunk(ctx context.Context, lead *Leadership, digest string, units []unit) (int64, []ares.JobID, error) {
	plan, err := marshal(&storepb.Record{Body: &storepb.Record_Plan{Plan: &storepb.LoopPlan{Sequence: lead.sequence + 1, Digest: digest}}})
	if err != nil {
		return 0, nil, err
	}
	guard := []clientv3.Cmp{lead.leads(), lead.inSequence()}
	cmps, puts := guard[:2:2], []clientv3.Op{clientv3.OpPut(planKey, plan)}
	children := make([]clientv3.Op, 0, len(units)+1)
	children = append(children, puts[0])
	for _, u := range units {
		cs, ps, opsErr := u.ops()
		if opsErr != nil {
			return 0, nil, opsErr
		}
		cmps, puts = append(cmps, cs...), append(puts, ps...)
		children = append(children, clientv3.OpTxn(cs, ps, nil))
	}
	resp, err := s.txn(ctx, "commit plan", cmps, puts, nil)
	if err != nil {
		lead.unsure = true
		return 0, nil, err
	}
	if resp.Succeeded {
		lead.committed(resp.Header.Revision)
		return resp.Header.Revision, nil, nil
	}
	// At this point, one of the jobs has changed, or this server is no longer the leader. In the
	// second transaction, each job or group succeeds or fails by itself. The second transaction
	// still requires leadership.
	resp, err = s.txn(ctx, "commit plan one by one", guard, children, nil)
	if err != nil {
		lead.unsure = true
		return 0, nil, err
	}
	if !resp.Succeeded {
		return 0, nil, ares.Errorf(ares.Fenced, "this server is no longer the leader: its plan was rejected")
	}
	lead.committed(resp.Header.Revision)
	var dropped []ares.JobID
	for i, u := range units {
		if !resp.Responses[i+1].GetResponseTxn().Succeeded {
			for k := range u {
				dropped = append(dropped, u[k].Job)
			}
		}
	}
	return resp.Header.Revision, dropped, nil
}

func (u unit) ops() (cmps []clientv3.Cmp, puts []clientv3.Op, err error) {
	if len(u) == 1 {
		return u[0].ops()
	}
	for i := range u {
		cs, ps, err := u[i].ops()
		if err != nil {
			return nil, nil, err
		}
		cmps, puts = append(cmps, cs...), append(puts, ps...)
	}
	return cmps, puts, nil
}

func (c *Change) ops() ([]clientv3.Cmp, []clientv3.Op, error) {
	value, err := marshal(runRecord(&c.Next))
	if err != nil {
		return nil, nil, err
	}
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(runKey(c.Job)), "=", c.Next.Revision)}
	puts := []clientv3.Op{clientv3.OpPut(runKey(c.Job), value)}
	if c.Next.Revision == 0 {
		// Neither a pending job nor an archived job has a stored run. Only the job's own record
		// distinguishes a pending job from an archived one. A lease without a run cannot exist.
		cmps = append(cmps, clientv3.Compare(clientv3.Version(jobKey(c.Job)), "=", 1))
	} else if c.New {
		cmps = append(cmps, clientv3.Compare(clientv3.CreateRevision(leaseKey(c.Job)), "=", 0))
	}
	if c.New {
		lease, err := leaseRecord(&c.Next)
		if err != nil {
			return nil, nil, err
		}
		puts = append(puts, clientv3.OpPut(leaseKey(c.Job), lease))
	}
	for i := range c.Make {
		cmp, ps, err := c.Make[i].ops()
		if err != nil {
			return nil, nil, err
		}
		cmps, puts = append(cmps, cmp), append(puts, ps...)
	}
	return cmps, puts, nil
}

// The method `ops` returns the operations that create the element's three records. The comparison
// with the array's run ensures that the element is created only once. The comparison with the
// element's own key ensures that nothing is overwritten.
func (e *Element) ops() (clientv3.Cmp, []clientv3.Op, error) {
	id := e.Job.ID
	absent := clientv3.Compare(clientv3.CreateRevision(jobKey(id)), "=", 0)
	job, err := marshal(jobRecord(e.Job))
	if err != nil {
		return absent, nil, err
	}
	run, err := marshal(runRecord(&e.Run))
	if err != nil {
		return absent, nil, err
	}
	lease, err := leaseRecord(&e.Run)
	// Write the job first, because a watcher must see a job before its run.
	return absent, []clientv3.Op{clientv3.OpPut(jobKey(id), job), clientv3.OpPut(runKey(id), run), clientv3.OpPut(leaseKey(id), lease)}, err
}

func leaseRecord(r *ares.Run) (string, error) {
	return marshal(&storepb.Record{Body: &storepb.Record_Lease{Lease: &storepb.Lease{Attempt: int32(r.Placed)}}})
}

// Void revokes a seat whose node's session has ended. The transaction requires that this server
// still leads and that the run is unchanged. The node must still have no session. The node's record
// must not have changed since the timer for the lost node was started (R3).
func (s *Store) Void(ctx context.Context, lead *Leadership, ref SeatRef, nodeRevision int64, now time.Time) error {
	extra := []clientv3.Cmp{
		lead.leads(),
		clientv3.Compare(clientv3.CreateRevision(sessionKey(ref.Node)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(nodeKey(ref.Node)), "=", nodeRevision),
	}
	_, err := s.update(ctx, "void seat", ref.Job, func(j *ares.Job, r *ares.Run) error {
		return r.Void(j, ref.Fence, ref.Rank, now)
	}, extra, nil, ares.Errorf(ares.Conflict, "either node %s has reconnected or changed, or this server is no longer the leader", ref.Node))
	return err
}
