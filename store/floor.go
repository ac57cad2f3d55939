package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Floor is what a member keeps of a grant that it gave back, refused or ended. The member ignores every answer to a claim
// with an epoch at or below the floor. The floor stays until the hub has acknowledged the report, and then as long as a
// tombstone does (F3, F4).
type Floor struct {
	Job          ares.JobID
	Hub          string // the ID of the hub's store
	Epoch        int64
	Outcome      GrantOutcome
	Acknowledged bool
	At           time.Time
	// Run is set if the outcome is GrantFinal, the hub has not acknowledged it, and the job was archived meanwhile.
	Run *ares.Run
}

// Floor reads the floor of one job. It is nil if there is none.
func (s *Store) Floor(ctx context.Context, id ares.JobID) (*Floor, error) {
	got, err := s.get(ctx, floorKey(id))
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(floorKey(id), got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	f := floorOf(rec.GetFloor(), id)
	return &f, nil
}

// Floors reads all floors of this member, ordered by job.
func (s *Store) Floors(ctx context.Context) ([]Floor, error) {
	var out []Floor
	err := s.each(ctx, floorsKey, func(key string, rec *storepb.Record, _ int64) error {
		out = append(out, floorOf(rec.GetFloor(), ares.JobID(key[len(floorsKey):])))
		return nil
	})
	return out, err
}

// Acknowledge records that the hub has taken the report about a grant. A job that ended and is still live gets its floor
// here. An older floor is replaced; a newer one stays.
func (s *Store) Acknowledge(ctx context.Context, f Floor) error {
	f.Acknowledged, f.Run = true, nil
	_, err := Retry(maxTries, func() (struct{}, error) {
		m, err := s.readHeld(ctx, f.Job)
		if err != nil {
			return struct{}{}, err
		}
		if old := m.floor; old != nil && old.Hub == f.Hub && (old.Epoch > f.Epoch || old.Epoch == f.Epoch && old.Acknowledged) {
			return struct{}{}, nil
		}
		put, err := putFloor(&f)
		if err != nil {
			return struct{}{}, err
		}
		resp, err := s.txn(ctx, "acknowledge report", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(floorKey(f.Job)), "=", m.floorRevision)},
			[]clientv3.Op{put}, nil)
		if err == nil && !resp.Succeeded {
			err = Conflict{ares.Errorf(ares.Exhausted, "the floor of job %s keeps changing: try again", f.Job)}
		}
		return struct{}{}, err
	})
	return err
}

// floorOfArchived returns the comparison and the write with which an archived granted job keeps its floor. Until the hub
// has acknowledged the end, the floor holds the run, which the tombstone does not have.
func (s *Store) floorOfArchived(ctx context.Context, job *ares.Job, run *ares.Run) (seen clientv3.Cmp, puts []clientv3.Op, err error) {
	m, err := s.readHeld(ctx, job.ID)
	if err != nil {
		return seen, nil, err
	}
	seen = clientv3.Compare(clientv3.ModRevision(floorKey(job.ID)), "=", m.floorRevision)
	if f := m.floor; f != nil && f.Hub == job.Origin.Hub && f.Epoch >= job.Origin.Epoch {
		return seen, nil, nil
	}
	put, err := putFloor(&Floor{
		Job: job.ID, Hub: job.Origin.Hub, Epoch: job.Origin.Epoch, Outcome: outcomeOfRun(run), At: run.FinishedAt, Run: run,
	})
	return seen, []clientv3.Op{put}, err
}

// forgetFloors removes the acknowledged floors that are older than the given time.
func (s *Store) forgetFloors(ctx context.Context, before time.Time, lead *Leadership) error {
	from, end := floorsKey, clientv3.GetPrefixRangeEnd(floorsKey)
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize))
		if err != nil {
			return err
		}
		for _, kv := range got.Kvs {
			rec, err := unmarshal(string(kv.Key), kv.Value)
			if err != nil {
				return err
			}
			if f := rec.GetFloor(); !f.GetAcknowledged() || !fromMicros(f.GetAt()).Before(before) {
				continue
			}
			_, name := splitKey(string(kv.Key))
			// A live job with this origin ignores repeated answers by itself, but after it was archived only the floor does.
			_, err = s.txn(ctx, "forget floor", append(lead.and(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision)),
				clientv3.Compare(clientv3.CreateRevision(jobsKey+name[len("floors/"):]), "=", 0)),
				[]clientv3.Op{clientv3.OpDelete(string(kv.Key))}, nil)
			if err != nil {
				return err
			}
		}
		if !got.More {
			return nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

func putFloor(f *Floor) (clientv3.Op, error) {
	m := &storepb.Floor{Hub: f.Hub, Epoch: f.Epoch, Outcome: string(f.Outcome), Acknowledged: f.Acknowledged, At: micros(f.At)}
	if f.Run != nil {
		m.Run = runRecord(f.Run).GetRun()
	}
	value, err := marshal(&storepb.Record{Body: &storepb.Record_Floor{Floor: m}})
	return clientv3.OpPut(floorKey(f.Job), value), err
}

func floorOf(m *storepb.Floor, id ares.JobID) Floor {
	f := Floor{
		Job: id, Hub: m.GetHub(), Epoch: m.GetEpoch(), Outcome: GrantOutcome(m.GetOutcome()), Acknowledged: m.GetAcknowledged(), At: fromMicros(m.GetAt()),
	}
	if m.GetRun() != nil {
		f.Run = new(bareRun(m.GetRun()))
	}
	return f
}
