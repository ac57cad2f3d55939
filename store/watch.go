package store

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// pageSize is the maximum number of records in one read of a snapshot. If a store is too slow to read so many
// records within the time limit of one operation, fewer records are read at a time, down to minPageSize.
const (
	pageSize    = 2000
	minPageSize = 20
)

// Watch calls the function `apply` with a snapshot of the whole state. Then Watch calls it once
// for each revision, in order and with all changes of the revision. If the store has already
// compacted revisions that the watch missed, the watch starts again with a new snapshot. Watch
// returns when ctx ends, the function `apply` fails, or the store cannot be read.
func (s *Store) Watch(ctx context.Context, apply func(ares.Batch) error) error {
	return s.watch(ctx, 0, func() {}, apply)
}

// Past is a store whose watch begins at an earlier revision. This works only if the store still
// has that revision. A server that has just restarted thus knows the latest events. Clients can
// therefore resume their event streams.
type Past struct {
	*Store
	Revisions int64
	// Progress is called each time that a part of the state has been read. Progress may be nil. A caller that waits
	// for the whole state can thus tell a slow store from one that does not answer.
	Progress func()
}

// Watch is like Store.Watch, but starts at an earlier revision. If the watch fails and is called
// again, it starts at the current revision. The caller's state must not go back to an earlier
// revision.
func (p *Past) Watch(ctx context.Context, apply func(ares.Batch) error) error {
	past := p.Revisions
	p.Revisions = 0
	progress := p.Progress
	if progress == nil {
		progress = func() {}
	}
	return p.watch(ctx, past, progress, apply)
}

func (s *Store) watch(ctx context.Context, past int64, progress func(), apply func(ares.Batch) error) error {
	for ; ; past = 0 {
		at, err := s.remembered(ctx, past)
		if err != nil {
			return err
		}
		rev, err := s.snapshot(ctx, at, progress, apply)
		if err != nil {
			return err
		}
		if err := s.follow(ctx, rev+1, progress, apply); err != nil {
			return err
		}
		s.log.Warn("the store has compacted revisions that the watch missed: reading everything again")
	}
}

// This method finds an older revision that can still be read. It goes back by at most
// the given number of revisions. The method returns 0 if the watch must start at the
// current revision.
func (s *Store) remembered(ctx context.Context, past int64) (int64, error) {
	if past == 0 {
		return 0, nil
	}
	now, err := s.Revision(ctx)
	if err != nil {
		return 0, err
	}
	for ; past > 0; past /= 4 {
		at := max(now-past, 1)
		if _, err := s.get(ctx, planKey, clientv3.WithRev(at)); err == nil {
			return at, nil
		} else if !errors.Is(err, rpctypes.ErrCompacted) {
			return 0, err
		}
	}
	return 0, nil
}

// This method passes the whole state at a revision to the function `apply`. Revision 0 means the
// current revision.
func (s *Store) snapshot(ctx context.Context, at int64, progress func(), apply func(ares.Batch) error) (int64, error) {
	batch := ares.Batch{Reset: true, Revision: at}
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	for size := int64(pageSize); ; {
		got, err := readPage(ctx, &size, func(limit int64) (*clientv3.GetResponse, error) {
			opts := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit)}
			if batch.Revision > 0 {
				opts = append(opts, clientv3.WithRev(batch.Revision))
			}
			return s.get(ctx, from, opts...)
		})
		if err != nil {
			return 0, err
		}
		progress()
		if batch.Revision == 0 {
			batch.Revision = got.Header.Revision
		}
		for _, kv := range got.Kvs {
			ev, ok, err := decode(kv)
			if err != nil {
				return 0, err
			}
			if ok {
				batch.Events = append(batch.Events, ev)
			}
		}
		if !got.More {
			return batch.Revision, apply(batch)
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// readPage reads one page of a snapshot. If the read takes longer than the time limit of one operation, readPage reads
// fewer records, and so do the reads of all later pages. Without this, a slow store could never be read.
func readPage(ctx context.Context, size *int64, read func(limit int64) (*clientv3.GetResponse, error)) (*clientv3.GetResponse, error) {
	for {
		got, err := read(*size)
		if ares.CodeOf(err) != ares.Unavailable || ctx.Err() != nil || *size <= minPageSize {
			return got, err
		}
		*size = max(*size/10, minPageSize)
	}
}

// This method passes each new revision to the function `apply`. If the caller must start again
// with a new snapshot, for example because revisions were compacted, the method returns nil.
func (s *Store) follow(ctx context.Context, from int64, progress func(), apply func(ares.Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(clientv3.WithRequireLeader(ctx), prefix, clientv3.WithPrefix(), clientv3.WithRev(from)) {
		if err := resp.Err(); err != nil {
			if errors.Is(err, rpctypes.ErrCompacted) || resp.CompactRevision > 0 || errors.Is(err, rpctypes.ErrNoLeader) {
				return nil
			}
			return storeError("watch", err)
		}
		if err := deliver(resp.Events, apply); err != nil {
			return err
		}
		progress()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return nil // the stream broke: a new snapshot contains the missed changes
}

// This function groups events by revision. A state with only a part of a
// revision's events would be a state that never existed.
func deliver(events []*clientv3.Event, apply func(ares.Batch) error) error {
	for len(events) > 0 {
		rev := events[0].Kv.ModRevision
		batch := ares.Batch{Revision: rev}
		for len(events) > 0 && events[0].Kv.ModRevision == rev {
			ev, ok, err := change(events[0])
			if err != nil {
				return err
			}
			if ok {
				if ev.Job != nil && len(ev.Job.Environment) == 0 {
					ev.Record = events[0].Kv.Value
				}
				batch.Events = append(batch.Events, ev)
			} else if lost, gone := lostRight(events[0]); gone {
				batch.Lost = append(batch.Lost, lost)
			}
			events = events[1:]
		}
		if err := apply(batch); err != nil {
			return err
		}
	}
	return nil
}

func change(e *clientv3.Event) (ares.Event, bool, error) {
	if e.Type != clientv3.EventTypeDelete {
		return decode(e.Kv)
	}
	room, name := splitKey(string(e.Kv.Key))
	kind, ok := keyspaces[room]
	return ares.Event{Revision: e.Kv.ModRevision, Gone: ares.Gone{Kind: kind, ID: name}}, ok, nil
}

// This function converts one record to an event. The second result is false for
// records that are not part of an engine state.
func decode(kv *mvccpb.KeyValue) (ares.Event, bool, error) {
	key := string(kv.Key)
	ev := ares.Event{Revision: kv.ModRevision}
	room, name := splitKey(key)
	read := unmarshal
	switch room {
	case "leases", "loop", "tokens", "awaited", "bindings", "audit", "secrets", "secretkeys", "federation", "clusters", "loans":
		return ev, false, nil
	}
	if keyspaces[room] == "" {
		// Only a newer version of Ares knows the key's prefix. If this version must not
		// ignore such a record, the record says so in its field min_reader.
		read = parse
	}
	rec, err := read(key, kv.Value)
	if err != nil {
		return ev, false, err
	}
	switch room {
	case "jobs":
		if rec.GetTombstone() != nil {
			ev.Gone = ares.Gone{Kind: ares.KindJob, ID: name}
		} else {
			id := ares.JobID(strings.Clone(name)) // a live job does not keep the whole key
			ev.Job = jobOf(rec.GetJob(), id, kv.CreateRevision)
		}
	case "runs":
		ev.Run = &ares.RunEvent{Job: ares.JobID(name), Run: runOf(rec, kv.ModRevision)}
	case "nodes":
		n := rec.GetNode().Node()
		n.Revision = kv.ModRevision
		ev.Node = &n
	case "sessions":
		m := rec.GetSession()
		ev.Session = &ares.Session{Node: name, Instance: m.GetInstance(), Server: m.GetServer(), Revision: kv.ModRevision}
	case "cordons":
		m := rec.GetCordon()
		ev.Cordon = &ares.Cordon{
			Node: name, By: m.GetBy(), Why: m.GetWhy(), Since: fromMicros(m.GetSince()),
			Drain: m.GetDrain(), Force: m.GetForce(), Revision: kv.ModRevision,
		}
	case "tenants":
		ev.Tenant = tenantOf(rec.GetTenant(), name, kv.ModRevision)
	case "predicted":
		ev.Forecast = forecastRead(rec.GetForecast(), ares.JobID(name))
	case "grants":
		g, _ := grantOf(rec.GetJobGrant(), ares.JobID(name), kv.CreateRevision, kv.ModRevision)
		ev.Grant = &g
	case "progress":
		ev.Progress = &ares.ProgressEvent{Job: ares.JobID(name), Progress: progressRecord(rec.GetProgress())}
	default:
		return ev, decodeShares(&ev, rec, room, name), nil
	}
	return ev, true, nil
}

// decodeShares decodes queues, reservations, policies, topologies, usage and scores. It reports
// whether the record is of one of these kinds.
func decodeShares(ev *ares.Event, rec *storepb.Record, room, name string) bool {
	tenant, queue, _ := strings.Cut(name, "/")
	switch room {
	case "queues":
		ev.Queue = queueOf(rec.GetQueue(), tenant, queue, ev.Revision)
	case "reservations":
		ev.Reservation = reservationOf(rec.GetReservation(), name, ev.Revision)
	case "policies":
		ev.Policy = policyOf(rec.GetPolicy(), name, ev.Revision)
	case "topology":
		ev.Topology = topologyOf(rec.GetTopology(), ev.Revision)
	case "usage":
		ev.Usage = usageRead(rec.GetUsage(), tenant, queue, ev.Revision)
	case "scores":
		ev.Score = scoreOf(rec.GetScore(), name, ev.Revision)
	default:
		return false
	}
	return true
}
