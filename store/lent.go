package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// SetLoan writes what the hub lets a tenant use in this cluster (F10). It returns an error with the code Fenced, and changes
// nothing, if the hub is not the incarnation that this cluster has greeted last, if a later loan is stored, or if this server
// does not lead any more. A repeated call changes nothing. The result is the revision from which the loan is visible.
func (s *Store) SetLoan(ctx context.Context, lead *Leadership, tenant string, loan ares.Loan) (int64, error) {
	return s.changeTenantOfHub(ctx, lead, tenant, loan.Hub, func(t *storepb.Tenant) error {
		if was := t.GetLoan(); was.GetVersion() > loan.Version {
			return ares.Errorf(ares.Fenced, "the loan %d of tenant %s is older than the loan %d that this cluster has", loan.Version, tenant, was.GetVersion())
		}
		t.Loan = tenantLoanRecord(&loan)
		return nil
	})
}

// ShareTenant writes what the hub decides about a tenant, and creates the tenant if this cluster has none of this name. The
// field Shared of the argument names the hub and the version. An older version of the same hub than the stored one, or one of
// another hub, is refused with the code Fenced. After a restore of the hub, its tenant may be older, and counts all the same. A
// repeated call changes nothing.
func (s *Store) ShareTenant(ctx context.Context, lead *Leadership, of ares.Tenant, now time.Time) error {
	change := func(t *storepb.Tenant) error {
		if was := t.GetShared(); was.GetHub() == of.Shared.Hub && was.GetVersion() > of.Shared.Version {
			return ares.Errorf(ares.Fenced, "the version %d of tenant %s is older than the version %d that this cluster has", of.Shared.Version, of.ID, was.GetVersion())
		}
		t.Name, t.PriorityTier, t.MayPreempt = of.Name, string(of.PriorityTier), of.MayPreempt
		t.Weight, t.WeightMin, t.WeightMax = of.Weight, of.WeightMin, of.WeightMax
		t.Shared = sharedRecord(of.Shared)
		return nil
	}
	_, err := s.changeTenantOfHub(ctx, lead, of.ID, of.Shared.Hub, change)
	if ares.CodeOf(err) != ares.NotFound {
		return err
	}
	made := ares.Tenant{ID: of.ID, Limits: ares.NoLimits(), CreatedAt: now, Shared: of.Shared}
	made.Share(&of)
	if err = s.RegisterTenant(ctx, made); err != nil {
		return err
	}
	_, err = s.changeTenantOfHub(ctx, lead, of.ID, of.Shared.Hub, change) // somebody else may have created it
	return err
}

// changeTenantOfHub changes the record of a tenant as the hub of this cluster says. Fields that this version does not know stay.
// The result is a revision from which the change is visible.
func (s *Store) changeTenantOfHub(ctx context.Context, lead *Leadership, tenant, hub string, change func(*storepb.Tenant) error) (int64, error) {
	return Retry(maxTries, func() (int64, error) {
		got, err := s.txn(ctx, "read tenant of the hub", nil, []clientv3.Op{clientv3.OpGet(tenantKey(tenant)), clientv3.OpGet(membershipKey)}, nil)
		if err != nil {
			return 0, err
		}
		members, kvs := got.Responses[1].GetResponseRange().Kvs, got.Responses[0].GetResponseRange().Kvs
		if len(members) == 0 {
			return 0, ares.Errorf(ares.Fenced, "this cluster has left its hub")
		}
		member, err := unmarshal(membershipKey, members[0].Value)
		if err != nil {
			return 0, err
		}
		if now := member.GetMembership().GetHubIncarnation(); now != hub {
			return 0, ares.Errorf(ares.Fenced, "the message is of the hub %s, and this cluster has greeted the hub %s since", hub, now)
		}
		if len(kvs) == 0 {
			return 0, NoTenant(tenant)
		}
		rec, err := unmarshal(tenantKey(tenant), kvs[0].Value)
		if err != nil {
			return 0, err
		}
		before := proto.Clone(rec)
		if err = change(rec.GetTenant()); err != nil || proto.Equal(before, rec) {
			return kvs[0].ModRevision, err
		}
		value, err := marshal(rec)
		if err != nil {
			return 0, err
		}
		resp, err := s.txn(ctx, "change tenant of the hub", []clientv3.Cmp{
			lead.leads(), clientv3.Compare(clientv3.ModRevision(tenantKey(tenant)), "=", kvs[0].ModRevision),
			clientv3.Compare(clientv3.ModRevision(membershipKey), "=", members[0].ModRevision),
		}, []clientv3.Op{clientv3.OpPut(tenantKey(tenant), value)}, []clientv3.Op{clientv3.OpGet(leaderKey)})
		switch {
		case err != nil:
			return 0, err
		case resp.Succeeded:
			return resp.Header.Revision, nil
		}
		if kvs := resp.Responses[0].GetResponseRange().Kvs; len(kvs) == 0 || kvs[0].CreateRevision != lead.Revision {
			return 0, ares.Errorf(ares.Fenced, "this server is no longer the leader")
		}
		return 0, Conflict{ares.Errorf(ares.Exhausted, "tenant %s keeps changing: try again", tenant)}
	})
}

// ClearLoans sets every loan of this cluster to 0 until the hub lends again: the hub has given the quota to others. With
// `forget`, the tenants are this cluster's own from now on, and have no loan.
func (s *Store) ClearLoans(ctx context.Context, forget bool) error {
	list, _, err := s.records(ctx, tenantsKey)
	if err != nil {
		return err
	}
	for _, r := range list {
		_, err = Retry(maxTries, func() (struct{}, error) {
			got, err := s.get(ctx, tenantKey(r.name))
			if err != nil || len(got.Kvs) == 0 {
				return struct{}{}, err
			}
			rec, err := unmarshal(tenantKey(r.name), got.Kvs[0].Value)
			if err != nil || !clearLoan(rec.GetTenant(), forget) {
				return struct{}{}, err
			}
			value, err := marshal(rec)
			if err != nil {
				return struct{}{}, err
			}
			resp, err := s.txn(ctx, "clear loan", []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(tenantKey(r.name)), "=", got.Kvs[0].ModRevision)},
				[]clientv3.Op{clientv3.OpPut(tenantKey(r.name), value)}, nil)
			if err == nil && !resp.Succeeded {
				err = Conflict{ares.Errorf(ares.Exhausted, "tenant %s keeps changing: try again", r.name)}
			}
			return struct{}{}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// clearLoan reports whether it has changed the record.
func clearLoan(t *storepb.Tenant, forget bool) bool {
	switch {
	case forget && (t.GetLoan() != nil || t.GetShared() != nil):
		t.Loan, t.Shared = nil, nil
	case !forget && (t.GetLoan().GetGpus() != 0 || t.GetLoan().GetGpuSeconds() != 0):
		t.Loan.Gpus, t.Loan.GpuSeconds = 0, 0
	default:
		return false
	}
	return true
}

// restoreLoans sets the loans of a restored member to 0: the hub may have lowered them since the backup. In a copy, tenants
// belong to no hub.
func (s *Store) restoreLoans(ctx context.Context, asCopy bool) error {
	w := s.write()
	err := s.each(ctx, tenantsKey, func(key string, rec *storepb.Record, _ int64) error {
		if clearLoan(rec.GetTenant(), asCopy) {
			w.put(key, rec)
		}
		return w.flushFull(ctx)
	})
	if err != nil {
		return err
	}
	return w.flush(ctx)
}

func tenantLoanRecord(l *ares.Loan) *storepb.TenantLoan {
	if l == nil {
		return nil
	}
	return &storepb.TenantLoan{
		Hub: l.Hub, Version: l.Version, Gpus: int32(l.GPUs), Quota: int32(l.Quota),
		GpuHours: int32(l.Budget.Hours), GpuSeconds: l.Budget.Secs, UncountedGpuSeconds: l.Budget.Uncounted, Month: l.Budget.Month,
	}
}

func tenantLoanOf(m *storepb.TenantLoan) *ares.Loan {
	if m == nil {
		return nil
	}
	return &ares.Loan{
		Hub: m.GetHub(), Version: m.GetVersion(), GPUs: int(m.GetGpus()), Quota: int(m.GetQuota()),
		Budget: ares.LoanBudget{Hours: int(m.GetGpuHours()), Secs: m.GetGpuSeconds(), Uncounted: m.GetUncountedGpuSeconds(), Month: m.GetMonth()},
	}
}

func sharedRecord(s *ares.Shared) *storepb.SharedTenant {
	if s == nil {
		return nil
	}
	return &storepb.SharedTenant{Hub: s.Hub, Version: s.Version}
}

func sharedOf(m *storepb.SharedTenant) *ares.Shared {
	if m == nil {
		return nil
	}
	return &ares.Shared{Hub: m.GetHub(), Version: m.GetVersion()}
}
