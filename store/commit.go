package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// maxChunkWrites bounds the writes of one commit, and so its comparisons: etcd
// allows 128 of either, those of a transaction inside another counted in.
const maxChunkWrites = 120

// maxChunkSeats bounds the seats in the runs of one commit, so that large gangs
// do not make a request that etcd finds too large.
const maxChunkSeats = 4096

// Change is a run as a plan wants it.
type Change struct {
	Job  ares.JobID
	Next ares.Run // with the Revision of the run it was made from
	New  bool     // a new attempt begins: its lease is created
	// Make holds the elements an array makes with this change: they come into
	// being together with it, or the whole change drops out.
	Make []Element
	// Group, if it is not empty, names what the change is a part of: changes next
	// to each other with the same name are written together or all drop out. The
	// part of a group that one transaction does not hold drops out by itself.
	Group ares.JobID
}

// Element is an array's element on its way into the store, with its first
// attempt.
type Element struct {
	Job *ares.Job
	Run ares.Run
}

// weight is how many writes the change takes, or comparisons.
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

// Commit writes one plan. It compares leadership and the plan sequence, so
// that a paused leader's plan fails whole, and each run it touches, so that a
// job that changed in between drops out alone, or with its group. It returns
// the revision of the last write and the jobs that dropped out.
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

// unit is what is written together or not at all: a change, or a group.
type unit []Change

func (u unit) size() (seats, writes int) {
	for i := range u {
		seats, writes = seats+u[i].seats(), writes+u[i].weight()
	}
	return seats, writes
}

// grouped makes units of the changes. What of a group is too much for one
// transaction drops out: it is for a later plan.
func grouped(changes []Change) (units []unit, dropped []ares.JobID) {
	units = make([]unit, 0, len(changes))
	seats, writes := 0, 0 // of the last unit
	for i := range changes {
		c := &changes[i]
		if i == 0 || c.Group == "" || c.Group != changes[i-1].Group {
			units = append(units, changes[i:i+1:i+1])
			seats, writes = c.seats(), c.weight()
			continue
		}
		if seats, writes = seats+c.seats(), writes+c.weight(); seats > maxChunkSeats || writes > maxChunkWrites {
			dropped = append(dropped, c.Job)
			continue // and so does all that follows: the sums only grow
		}
		units[len(units)-1] = append(units[len(units)-1], *c)
	}
	return units, dropped
}

// chunk is how many of the units go into one transaction, at least one.
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
	// Somebody was faster with one of the jobs, or we lead no more: let each
	// job, or group of them, decide for itself under the same guard.
	resp, err = s.txn(ctx, "commit plan one by one", guard, children, nil)
	if err != nil {
		lead.unsure = true
		return 0, nil, err
	}
	if !resp.Succeeded {
		return 0, nil, ares.Errorf(ares.Fenced, "this server leads no more: its plan was refused")
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
		// No run is stored before the first change, and none once the job is
		// archived: only the job's own record tells these apart. A lease
		// without a run there never is.
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

// ops creates the element's three records. That it is made once follows from
// its array's run, which is compared too; that nothing is overwritten, from
// its own key.
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
	// The job comes first: a watcher must know it before its run.
	return absent, []clientv3.Op{clientv3.OpPut(jobKey(id), job), clientv3.OpPut(runKey(id), run), clientv3.OpPut(leaseKey(id), lease)}, err
}

func leaseRecord(r *ares.Run) (string, error) {
	return marshal(&storepb.Record{Body: &storepb.Record_Lease{Lease: &storepb.Lease{Attempt: int32(r.Placed)}}})
}

// Void takes a seat back whose node's session has ended. It compares
// leadership, the run, that the session is still gone, and that the node's
// record is the one seen when the timer was started (R3).
func (s *Store) Void(ctx context.Context, lead *Leadership, ref SeatRef, nodeRevision int64, now time.Time) error {
	extra := []clientv3.Cmp{
		lead.leads(),
		clientv3.Compare(clientv3.CreateRevision(sessionKey(ref.Node)), "=", 0),
		clientv3.Compare(clientv3.ModRevision(nodeKey(ref.Node)), "=", nodeRevision),
	}
	_, err := s.update(ctx, "void seat", ref.Job, func(j *ares.Job, r *ares.Run) error {
		return r.Void(j, ref.Fence, ref.Rank, now)
	}, extra, nil, ares.Errorf(ares.Conflict, "node %s is back, or this server leads no more", ref.Node))
	return err
}
