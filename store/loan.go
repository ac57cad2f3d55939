package store

import (
	"context"
	"strings"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Loan is the hub's record of how much of a tenant's GPU limit and GPU-hours one cluster may use (F10). Only the hub's leader writes it.
// Invariant: Limit <= GPUs, unless it is Fresh.
type Loan struct {
	Tenant, Cluster string
	GPUs            int // the most that the cluster may use; ares.Unlimited for a tenant without a limit
	// Limit is what the cluster was told. Where it is lower than GPUs, the cluster may not have lowered its limit yet, or still
	// uses more.
	Limit int
	// Fresh is true until the cluster has answered for the first time. It lends nothing before, but its own jobs may use some.
	Fresh bool
	// Revision is the version that the cluster is told. It only grows, also over a restore of the hub.
	Revision int64
	Hours    LoanHours
}

// LoanAnswer is a cluster's answer to a loan that asked it for a lower limit.
type LoanAnswer struct {
	Tenant, Cluster, Incarnation string
	Version                      int64        // of the loan that it answers
	GPUs                         int          // the larger of its limit and its use
	Hours                        *HoursAnswer // nil if the cluster keeps to no budget of GPU-hours
}

// Loans reads all loans, ordered by tenant and cluster, with a linearizable read.
func (s *Store) Loans(ctx context.Context) ([]Loan, error) { return s.loansUnder(ctx, loansKey) }

// TenantLoans reads the loans of one tenant, ordered by cluster, with a linearizable read.
func (s *Store) TenantLoans(ctx context.Context, tenant string) ([]Loan, error) {
	return s.loansUnder(ctx, loansOf(tenant))
}

func (s *Store) loansUnder(ctx context.Context, below string) ([]Loan, error) {
	list, _, err := s.records(ctx, below)
	if err != nil {
		return nil, err
	}
	out := make([]Loan, 0, len(list))
	for _, r := range list {
		out = append(out, loanOf(r.Record, strings.TrimPrefix(below, loansKey)+r.name, r.revision))
	}
	return out, nil
}

// lending is everything that a transaction about a loan depends on, read at one revision.
type lending struct {
	id             Loan // the tenant and the cluster
	loan           Loan // the record; its revision is 0 if there is none
	cluster        Cluster
	quota          int
	tenantRevision int64
	others         int // what the other clusters may use
	hours          int // the tenant's budget of GPU-hours for a month, 0 for none
	hoursOfOthers  []LoanHours
	asking         int64 // 0 if the hub does not ask its clusters after a restore
	revision       int64 // at which this was read
}

func (s *Store) readLending(ctx context.Context, id Loan) (*lending, error) {
	resp, err := s.txn(ctx, "read loans", nil, []clientv3.Op{
		clientv3.OpGet(askingKey), clientv3.OpGet(tenantKey(id.Tenant)), clientv3.OpGet(clusterKey(id.Cluster)),
		clientv3.OpGet(loansOf(id.Tenant), clientv3.WithPrefix()),
	}, nil)
	if err != nil {
		return nil, err
	}
	l := &lending{id: id, loan: Loan{Tenant: id.Tenant, Cluster: id.Cluster}, cluster: Cluster{Name: id.Cluster}, quota: ares.Unlimited, revision: resp.Header.Revision}
	if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
		l.asking = kvs[0].ModRevision
	}
	if kvs := resp.Responses[1].GetResponseRange().Kvs; len(kvs) > 0 {
		rec, err := unmarshal(tenantKey(id.Tenant), kvs[0].Value)
		if err != nil {
			return nil, err
		}
		l.quota, l.hours, l.tenantRevision = int(rec.GetTenant().GetMaxGpus()), int(rec.GetTenant().GetGpuHours()), kvs[0].ModRevision
	}
	if kvs := resp.Responses[2].GetResponseRange().Kvs; len(kvs) > 0 {
		rec, err := unmarshal(clusterKey(id.Cluster), kvs[0].Value)
		if err != nil {
			return nil, err
		}
		l.cluster = clusterOf(rec.GetCluster(), id.Cluster, kvs[0].ModRevision)
	}
	return l, l.readLoans(resp.Responses[3])
}

func (l *lending) readLoans(answer *etcdserverpb.ResponseOp) error {
	for _, kv := range answer.GetResponseRange().Kvs {
		rec, err := unmarshal(string(kv.Key), kv.Value)
		if err != nil {
			return err
		}
		loan := loanOf(rec, strings.TrimPrefix(string(kv.Key), loansKey), kv.ModRevision)
		if loan.Cluster == l.id.Cluster {
			l.loan = loan
		} else {
			l.others += loan.GPUs
			l.hoursOfOthers = append(l.hoursOfOthers, loan.Hours)
		}
	}
	return nil
}

// changeLoan runs one transaction about a loan. The function `step` decides and returns the loan as it must be; without a
// change nothing is written. The transaction compares everything that was read: no other loan of the tenant may have changed.
func (s *Store) changeLoan(ctx context.Context, lead *Leadership, id Loan, step func(*lending) (Loan, error)) (Loan, error) {
	return Retry(maxTries, func() (Loan, error) {
		l, err := s.readLending(ctx, id)
		if err != nil {
			return Loan{}, err
		}
		next, err := step(l)
		if err != nil || next == l.loan {
			return next, err
		}
		value, err := marshal(loanRecord(&next))
		if err != nil {
			return Loan{}, err
		}
		resp, err := s.txn(ctx, "write loan", append(l.compare(), lead.leads()),
			[]clientv3.Op{clientv3.OpPut(loanKey(id.Tenant, id.Cluster), value)}, []clientv3.Op{clientv3.OpGet(leaderKey)})
		if err != nil {
			return Loan{}, err
		}
		if !resp.Succeeded {
			return Loan{}, loanConflict(resp.Responses[0], lead, id)
		}
		next.Revision = resp.Header.Revision
		return next, nil
	})
}

// The method `compare` returns comparisons that fail if something that was read has changed since.
func (l *lending) compare() []clientv3.Cmp {
	return []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(askingKey), "=", l.asking),
		clientv3.Compare(clientv3.ModRevision(tenantKey(l.id.Tenant)), "=", l.tenantRevision),
		clientv3.Compare(clientv3.ModRevision(clusterKey(l.id.Cluster)), "=", l.cluster.Revision),
		clientv3.Compare(clientv3.ModRevision(loanKey(l.id.Tenant, l.id.Cluster)), "=", l.loan.Revision),
		clientv3.Compare(clientv3.ModRevision(loansOf(l.id.Tenant)), "<", l.revision+1).WithPrefix(),
	}
}

func loanConflict(leader *etcdserverpb.ResponseOp, lead *Leadership, id Loan) error {
	if kvs := leader.GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].CreateRevision != lead.Revision {
		return ares.Errorf(ares.Fenced, "this server is no longer the leader")
	}
	return Conflict{ares.Errorf(ares.Exhausted, "the loans of tenant %s keep changing: try again", id.Tenant)}
}

// Lend writes what a cluster may use, before the cluster is told. The first loan of a cluster is Fresh. A loan is raised only
// if all loans of the tenant together stay within its limit. A lower Limit asks the cluster to use less: what it may use stays
// until it has answered. The argument's Revision is that of the record which the leader knows, 0 for none. A repeated call
// changes nothing. The result is the record.
func (s *Store) Lend(ctx context.Context, lead *Leadership, next Loan) (Loan, error) {
	return s.changeLoan(ctx, lead, next, func(l *lending) (Loan, error) {
		was := l.loan
		if same := next.as(was.Revision); was.Revision != 0 && was == same {
			return was, nil
		}
		switch {
		case l.asking != 0:
			return was, hubAsks()
		case !l.cluster.MayOwn() || !l.cluster.Runs(next.Tenant):
			return was, ares.Errorf(ares.Fenced, "cluster %s gets no loan of tenant %s: it is not a member, or it runs no jobs of this tenant", next.Cluster, next.Tenant)
		case was.Revision != next.Revision:
			return was, ares.Errorf(ares.Fenced, "the loan of tenant %s for cluster %s has changed", next.Tenant, next.Cluster)
		case next.Fresh != (was.Revision == 0) || next.Fresh && next.GPUs != 0 || was.Fresh:
			return was, ares.Errorf(ares.Fenced, "cluster %s has not said yet what tenant %s uses there", next.Cluster, next.Tenant)
		case next.GPUs < was.GPUs:
			return was, ares.Errorf(ares.Conflict, "only an answer of cluster %s lowers the loan of tenant %s", next.Cluster, next.Tenant)
		case next.GPUs > was.GPUs && l.quota < ares.Unlimited && l.others+next.GPUs > l.quota:
			return was, ares.Errorf(ares.QuotaExceeded, "tenant %s has a limit of %d devices, and other clusters may use %d: cluster %s cannot get %d", next.Tenant, l.quota, l.others, next.Cluster, next.GPUs)
		}
		next.Revision = was.Revision
		return next, l.checkHours(&next)
	})
}

// The method `as` returns the record with another revision.
func (l Loan) as(revision int64) Loan {
	l.Revision = revision
	return l
}

// LoanAnswered writes the answer of a cluster that was asked for a lower limit. An answer to any but the last request is
// refused with the code Fenced. A repeated answer changes nothing.
func (s *Store) LoanAnswered(ctx context.Context, lead *Leadership, a LoanAnswer) (Loan, error) {
	return s.changeLoan(ctx, lead, Loan{Tenant: a.Tenant, Cluster: a.Cluster}, func(l *lending) (Loan, error) {
		next := l.loan
		switch {
		case l.asking != 0:
			return next, hubAsks()
		case next.Revision == 0 || next.Revision != a.Version:
			return next, ares.Errorf(ares.Fenced, "the answer of cluster %s is not to the last loan of tenant %s", a.Cluster, a.Tenant)
		case l.cluster.Incarnation != a.Incarnation || l.cluster.Reconciling || !l.cluster.MayOwn():
			return next, ares.Errorf(ares.Fenced, "the answer is of an incarnation of cluster %s that the hub has not confirmed", a.Cluster)
		}
		next.GPUs, next.Fresh = max(a.GPUs, next.Limit), false
		l.answered(&next, a.Incarnation, a.Hours)
		return next, nil
	})
}

// AdoptLoan writes what a cluster says that it may use, after a restore of the hub (F6). It writes a new version in any case,
// because the cluster may have seen later versions than the backup has. A repeated call changes nothing.
func (s *Store) AdoptLoan(ctx context.Context, lead *Leadership, asking *Asking, says Loan) error {
	_, err := s.changeLoan(ctx, lead, says, func(l *lending) (Loan, error) {
		if l.asking != asking.Revision {
			return l.loan, hubAsks()
		}
		next := says
		next.Hours = l.loan.Hours.adopt(says.Hours)
		next.Revision = 0 // unlike every record, so that it is written
		if l.loan.Revision > asking.Revision {
			next.Revision = l.loan.Revision
		}
		return next, nil
	})
	return err
}

// EndLoan deletes the loan of a cluster that is no member any more, or that has a tenant of its own with this name. While a
// restored hub asks its clusters, it deletes the loan of a cluster that says that it has none. The GPU-hours that were used in
// the month stay in a Fresh record, which is the result. If none is left, the result's Revision is 0. A repeated call changes
// nothing.
func (s *Store) EndLoan(ctx context.Context, lead *Leadership, asking *Asking, tenant, cluster, month string) (Loan, error) {
	id := Loan{Tenant: tenant, Cluster: cluster}
	return Retry(maxTries, func() (Loan, error) {
		l, err := s.readLending(ctx, id)
		switch {
		case err != nil || l.loan.Revision == 0:
			return id, err
		case (l.asking != 0) != (asking != nil):
			return id, hubAsks()
		case asking == nil && l.cluster.MayOwn() && l.cluster.Runs(tenant):
			return id, ares.Errorf(ares.Conflict, "cluster %s is a member: only its answer lowers the loan of tenant %s", cluster, tenant)
		}
		change, left := clientv3.OpDelete(loanKey(tenant, cluster)), id
		if kept, any := l.ended(month); any {
			if kept == l.loan {
				return kept, nil
			}
			value, err := marshal(loanRecord(&kept))
			if err != nil {
				return id, err
			}
			change, left = clientv3.OpPut(loanKey(tenant, cluster), value), kept
		}
		resp, err := s.txn(ctx, "end loan", append(l.compare(), lead.leads()), []clientv3.Op{change}, []clientv3.Op{clientv3.OpGet(leaderKey)})
		switch {
		case err != nil:
			return id, err
		case !resp.Succeeded:
			return id, loanConflict(resp.Responses[0], lead, id)
		case left.Revision != 0:
			left.Revision = resp.Header.Revision
		}
		return left, nil
	})
}

func loanRecord(l *Loan) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Loan{Loan: &storepb.Loan{Gpus: int32(l.GPUs), Limit: int32(l.Limit), Fresh: l.Fresh, Hours: loanHoursRecord(&l.Hours)}}}
}

func loanOf(rec *storepb.Record, name string, revision int64) Loan {
	tenant, cluster, _ := strings.Cut(name, "/")
	m := rec.GetLoan()
	return Loan{Tenant: tenant, Cluster: cluster, GPUs: int(m.GetGpus()), Limit: int(m.GetLimit()), Fresh: m.GetFresh(), Revision: revision, Hours: loanHoursOf(m.GetHours())}
}
