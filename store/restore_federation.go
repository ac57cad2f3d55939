package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// restoreFederation applies the rules for restored hubs and members.
//
// A restored hub asks all its members before it grants anything (F6). Its open offers lapse: their epochs may have been
// bound since the backup. A restored member forgets its claims, because they are those of an earlier incarnation, and its
// loans are 0 until the hub has confirmed them (F10). A copy belongs to no federation (F13).
func (s *Store) restoreFederation(ctx context.Context, r *Restoration, done *Restored) error {
	if err := s.adoptRoster(ctx, r); err != nil {
		return err
	}
	got, err := s.get(ctx, clustersKey, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return err
	}
	done.Asks = got.Count > 0 && !r.AsCopy
	gone := []clientv3.Op{clientv3.OpDelete(grantClaimsKey, clientv3.WithPrefix()), clientv3.OpDelete(askingKey)}
	if r.AsCopy {
		gone = []clientv3.Op{
			clientv3.OpDelete(federationKey, clientv3.WithPrefix()), clientv3.OpDelete(askingKey),
			clientv3.OpDelete(clustersKey, clientv3.WithPrefix()), clientv3.OpDelete(grantsKey, clientv3.WithPrefix()),
			clientv3.OpDelete(loansKey, clientv3.WithPrefix()),
		}
	}
	if err = s.restoreLoans(ctx, r.AsCopy); err != nil {
		return err
	}
	if _, err = s.txn(ctx, "restore the federation", nil, gone, nil); err != nil || r.AsCopy {
		return err
	}
	w := s.write()
	err = s.each(ctx, grantsKey, func(key string, rec *storepb.Record, _ int64) error {
		if ares.GrantState(rec.GetJobGrant().GetState()) == ares.GrantOffered {
			w.ops = append(w.ops, clientv3.OpDelete(key))
		}
		return w.flushFull(ctx)
	})
	if err != nil {
		return err
	}
	return w.flush(ctx)
}

// adoptRoster adds the clusters that joined the hub after the backup, according to history.
func (s *Store) adoptRoster(ctx context.Context, r *Restoration) error {
	if r.Roster == nil || r.AsCopy {
		return nil
	}
	id, _, err := s.Identity(ctx)
	if err != nil || id.Store != r.Roster.Hub {
		return err
	}
	for _, e := range r.Roster.Clusters {
		if err = s.AdoptCluster(ctx, e, r.Now); err != nil {
			return err
		}
	}
	return nil
}

// restoreRun changes the run of a job that has not ended. The runs of a hub are copies: they stay until the clusters have
// answered. In a copy of a hub, no cluster owns a job any more.
func restoreRun(job *ares.Job, run *ares.Run, r *Restoration, done *Restored) (changed bool, err error) {
	if job.Origin != nil {
		done.Granted++
	}
	switch {
	case done.Asks:
		return false, nil
	case run.IsBound():
		return true, run.Unbind(job, true, "this store is a copy of the hub's", r.Now)
	}
	return run.Restore(job, r.Now)
}

// drop deletes the records of a job.
func (w *writer) drop(id ares.JobID) {
	for _, key := range []string{jobKey(id), runKey(id), awaitedKeyOf(id), forecastKeyOf(id)} {
		w.ops = append(w.ops, clientv3.OpDelete(key))
	}
}

// putFloorOf writes the floor of a granted job that has ended according to history. The tombstone does not say that the job
// was granted. History has only the end of the run, so the rest is that of the backup.
func (w *writer) putFloorOf(job *ares.Job, run *ares.Run, e Ended) {
	if job.Origin == nil || job.ArrayOf != "" {
		return
	}
	f := Floor{Job: job.ID, Hub: job.Origin.Hub, Epoch: job.Origin.Epoch, Outcome: GrantFinal, At: e.At}
	if e.Phase == ares.Returned {
		f.Outcome = GrantReturned
	} else {
		last := run.Clone()
		last.Phase, last.FinishedAt, last.Stop, last.Nominated = e.Phase, e.At, nil, nil
		last.Reason = "ended before the store was restored"
		f.Run = &last
	}
	put, err := putFloor(&f)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.ops = append(w.ops, put)
}
