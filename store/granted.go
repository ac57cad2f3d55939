package store

import (
	"context"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Grant is the hub's record of the clusters that may start a job.
type Grant = ares.Grant

// hubJob is everything that a transaction about a grant depends on, read at one revision.
type hubJob struct {
	Snapshot

	id      ares.JobID
	grant   *Grant   // nil if the job has none
	base    ares.Run // of a bound grant: the run before the job was bound
	cluster Cluster  // the cluster that the caller names; its revision is 0 if it is unknown
	asking  int64    // revision at which a restore of the hub began to ask, 0 if the hub does not ask
}

// maxGrantsAtOnce limits the jobs of one transaction about grants. Each job needs up to four reads or comparisons, and etcd
// allows 128.
const maxGrantsAtOnce = 30

// jobOfCluster names a job, and the cluster that the caller speaks of, "" for none.
type jobOfCluster struct {
	job     ares.JobID
	cluster string
}

// readGranted reads jobs with their runs, grants and clusters, in one transaction. A job that does not exist, or of which
// only the tombstone is left, is in the list with a nil Job.
func (s *Store) readGranted(ctx context.Context, refs []jobOfCluster) ([]hubJob, error) {
	reads := []clientv3.Op{clientv3.OpGet(askingKey)}
	for _, r := range refs {
		reads = append(reads, clientv3.OpGet(jobKey(r.job)), clientv3.OpGet(runKey(r.job)), clientv3.OpGet(grantKey(r.job)), clientv3.OpGet(clusterKey(r.cluster)))
	}
	resp, err := s.txn(ctx, "read grants", nil, reads, nil)
	if err != nil {
		return nil, err
	}
	asking := int64(0)
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		asking = kvs[0].CreateRevision
	}
	out := make([]hubJob, len(refs))
	for i, r := range refs {
		if out[i], err = hubJobOf(r, resp.Responses[1+4*i:5+4*i], resp.Header.Revision); err != nil {
			return nil, err
		}
		out[i].asking = asking
	}
	return out, nil
}

// Granted reads a job of a hub with its grant, which is nil if it has none. For a bound job, it also returns the run before the
// job was bound.
func (s *Store) Granted(ctx context.Context, id ares.JobID) (snap Snapshot, g *Grant, base ares.Run, err error) {
	jobs, err := s.readGranted(ctx, []jobOfCluster{{job: id}})
	if err != nil {
		return Snapshot{}, nil, ares.Run{}, err
	}
	if h := &jobs[0]; h.Job != nil {
		return h.Snapshot, h.grant, h.base, nil
	}
	return Snapshot{}, nil, ares.Run{}, NoJob(id)
}

func hubJobOf(r jobOfCluster, answers []*etcdserverpb.ResponseOp, revision int64) (h hubJob, err error) {
	h.id = r.job
	none := &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{ResponseRange: &etcdserverpb.RangeResponse{}}}
	h.Snapshot, err = snapshotOf(r.job, []*etcdserverpb.ResponseOp{answers[0], answers[1], none}, revision)
	if err != nil && ares.CodeOf(err) != ares.NotFound {
		return h, err
	}
	if kvs := answers[2].GetResponseRange().Kvs; len(kvs) > 0 {
		rec, err := unmarshal(grantKey(r.job), kvs[0].Value)
		if err != nil {
			return h, err
		}
		g, base := grantOf(rec.GetJobGrant(), r.job, kvs[0].CreateRevision, kvs[0].ModRevision)
		h.grant, h.base = &g, base
	}
	h.cluster.Name = r.cluster
	if kvs := answers[3].GetResponseRange().Kvs; len(kvs) > 0 && r.cluster != "" {
		rec, err := unmarshal(clusterKey(r.cluster), kvs[0].Value)
		if err != nil {
			return h, err
		}
		h.cluster = clusterOf(rec.GetCluster(), r.cluster, kvs[0].ModRevision)
	}
	return h, nil
}

// compareGrant returns comparisons that fail if the job, its run or its grant has changed since it was read (F9).
func (h *hubJob) compareGrant() []clientv3.Cmp {
	seen := int64(0)
	if h.grant != nil {
		seen = h.grant.Revision
	}
	cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(grantKey(h.id)), "=", seen)}
	if h.Job != nil {
		cmps = append(cmps, h.asSeen()...)
	}
	return cmps
}

// compareCluster returns a comparison that fails if the cluster's record has changed since it was read.
func (h *hubJob) compareCluster() clientv3.Cmp {
	return clientv3.Compare(clientv3.ModRevision(clusterKey(h.cluster.Name)), "=", h.cluster.Revision)
}

// stillAsking returns a comparison that fails if the hub began or ended to ask its members since it was read (F6).
func (h *hubJob) stillAsking() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(askingKey), "=", h.asking)
}

// putRun returns the write of the job's run.
func (h *hubJob) putRun() (clientv3.Op, error) {
	value, err := marshal(runRecord(&h.Run))
	return clientv3.OpPut(runKey(h.id), value), err
}

// changeGrant runs one transaction about a grant. The function `step` decides and returns the writes; without writes the
// requested state is already stored. It is called again if something that it read was changed in between. A restored hub
// that still asks its members changes no grant (F6).
func (s *Store) changeGrant(ctx context.Context, op string, ref jobOfCluster, step func(*hubJob) ([]clientv3.Op, error)) (hubJob, int64, error) {
	revision := int64(0)
	h, err := Retry(maxTries, func() (hubJob, error) {
		list, err := s.readGranted(ctx, []jobOfCluster{ref})
		if err != nil {
			return hubJob{}, err
		}
		h := list[0]
		if h.asking != 0 {
			return h, hubAsks()
		}
		writes, err := step(&h)
		revision = h.Snapshot.Revision
		if err != nil || len(writes) == 0 {
			return h, err
		}
		cmps := append(h.compareGrant(), h.stillAsking(), h.compareCluster())
		resp, err := s.txn(ctx, op, cmps, writes, nil)
		if err != nil {
			return h, err
		}
		if !resp.Succeeded {
			return h, Conflict{ares.Errorf(ares.Exhausted, "%s: the grant of job %s keeps changing: try again", op, ref.job)}
		}
		revision = resp.Header.Revision
		return h, nil
	})
	return h, revision, err
}

func hubAsks() error {
	return ares.Errorf(ares.Unavailable, "this hub was restored and still asks its clusters which jobs they hold: try again later")
}

// Grants reads all grants of this hub, ordered by job, and the revision at which they were read.
func (s *Store) Grants(ctx context.Context) ([]Grant, int64, error) {
	var out []Grant
	from, end, at := grantsKey, clientv3.GetPrefixRangeEnd(grantsKey), int64(0)
	for {
		got, err := s.get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(pageSize), clientv3.WithRev(at))
		if err != nil {
			return nil, 0, err
		}
		at = got.Header.Revision
		for _, kv := range got.Kvs {
			rec, err := unmarshal(string(kv.Key), kv.Value)
			if err != nil {
				return nil, 0, err
			}
			_, name := splitKey(string(kv.Key))
			g, _ := grantOf(rec.GetJobGrant(), ares.JobID(name), kv.CreateRevision, kv.ModRevision)
			out = append(out, g)
		}
		if !got.More {
			return out, at, nil
		}
		from = string(got.Kvs[len(got.Kvs)-1].Key) + "\x00"
	}
}

// Asking is set while a restored hub asks its members which grants they hold (F6).
type Asking struct {
	Restore  string // the restore, as in Identity
	Revision int64  // revision of the record
}

// Asking returns nil unless this hub was restored and has not heard all its members since.
func (s *Store) Asking(ctx context.Context) (*Asking, error) {
	got, err := s.get(ctx, askingKey)
	if err != nil || len(got.Kvs) == 0 {
		return nil, err
	}
	rec, err := unmarshal(askingKey, got.Kvs[0].Value)
	if err != nil {
		return nil, err
	}
	return &Asking{Restore: rec.GetAsking().GetRestore(), Revision: got.Kvs[0].ModRevision}, nil
}

// EndAsking records that every member has answered and that all answers were applied with Regrant. A repeated call changes
// nothing.
func (s *Store) EndAsking(ctx context.Context, lead *Leadership, a *Asking) error {
	resp, err := s.txn(ctx, "end asking the clusters", []clientv3.Cmp{lead.leads()}, []clientv3.Op{clientv3.OpTxn(
		[]clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(askingKey), "=", a.Revision)}, []clientv3.Op{clientv3.OpDelete(askingKey)}, nil,
	)}, nil)
	if err == nil && !resp.Succeeded {
		return ares.Errorf(ares.Fenced, "this server is no longer the leader")
	}
	return err
}

func askingRecord(restore string, since int64) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Asking{Asking: &storepb.Asking{Restore: restore, Since: since}}}
}
