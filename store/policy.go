package store

import (
	"context"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// ApplyPolicy writes a policy, new or in place of the one with its ID, and
// answers with its revision. One that says the same is left as it is, and is
// answered with was set to it. The tenant it is of must be there.
func (s *Store) ApplyPolicy(ctx context.Context, p ares.Policy) (now ares.Policy, was *ares.Policy, err error) {
	value, err := marshal(policyRecord(&p))
	if err != nil {
		return p, nil, err
	}
	for range maxTries {
		all, revision, err := s.policies(ctx)
		if err != nil {
			return p, nil, err
		}
		there := all[p.ID()]
		if there != nil && there.Same(&p) {
			return *there, there, nil
		}
		if there == nil {
			if err = roomFor(all, p.Tenant); err != nil {
				return p, nil, err
			}
		}
		cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(policiesKey), "<", revision+1).WithPrefix()}
		var reads []clientv3.Op
		if p.Tenant != "" {
			cmps = append(cmps, isThere(tenantKey(p.Tenant)))
			reads = append(reads, clientv3.OpGet(tenantKey(p.Tenant), clientv3.WithKeysOnly()))
		}
		resp, err := s.txn(ctx, "write policy", cmps, []clientv3.Op{clientv3.OpPut(policyKey(p.ID()), value)}, reads)
		if err != nil {
			return p, nil, err
		}
		if resp.Succeeded {
			p.Revision = resp.Header.Revision
			return p, there, nil
		}
		if len(reads) > 0 && len(resp.Responses[0].GetResponseRange().Kvs) == 0 {
			return p, nil, NoTenant(p.Tenant)
		}
	}
	return p, nil, ares.Errorf(ares.Exhausted, "the policies change too fast: try again")
}

// roomFor refuses a new policy where there are enough.
func roomFor(all map[string]*ares.Policy, tenant string) error {
	if len(all) >= ares.MaxPolicies {
		return ares.Errorf(ares.Refused, "there are %d policies, the most there may be: delete some", len(all))
	}
	own := 0
	for _, p := range all { // order-free: a count
		if tenant != "" && p.Tenant == tenant {
			own++
		}
	}
	if own >= ares.MaxTenantPolicies {
		return ares.Errorf(ares.Refused, "tenant %s has %d policies of its own, the most it may have: delete some", tenant, own)
	}
	return nil
}

// DeletePolicy removes a policy, and answers with what it was and the revision at
// which it went.
func (s *Store) DeletePolicy(ctx context.Context, tenant, name string) (ares.Policy, int64, error) {
	id := ares.PolicyID(tenant, name)
	was, err := s.take(ctx, "delete policy", policyKey(id))
	switch {
	case err != nil:
		return ares.Policy{}, 0, err
	case was == nil:
		return ares.Policy{}, 0, NoPolicy(tenant, name)
	}
	return *policyOf(was.GetPolicy(), id, was.revision), was.gone, nil
}

// Policy reads one policy; the answer is linearizable.
func (s *Store) Policy(ctx context.Context, tenant, name string) (ares.Policy, error) {
	id := ares.PolicyID(tenant, name)
	got, err := s.get(ctx, policyKey(id))
	if err != nil {
		return ares.Policy{}, err
	}
	if len(got.Kvs) == 0 {
		return ares.Policy{}, NoPolicy(tenant, name)
	}
	rec, err := unmarshal(policyKey(id), got.Kvs[0].Value)
	if err != nil {
		return ares.Policy{}, err
	}
	return *policyOf(rec.GetPolicy(), id, got.Kvs[0].ModRevision), nil
}

// policies reads all of them by ID, and the revision they were read at.
func (s *Store) policies(ctx context.Context) (map[string]*ares.Policy, int64, error) {
	list, revision, err := s.records(ctx, policiesKey)
	all := map[string]*ares.Policy{}
	for _, r := range list {
		all[r.name] = policyOf(r.GetPolicy(), r.name, r.revision)
	}
	return all, revision, err
}

// NoPolicy says that there is no such policy, or that it is not the caller's.
func NoPolicy(tenant, name string) error {
	if tenant == "" {
		return ares.Errorf(ares.NotFound, "there is no policy %q for all tenants: see `ares policy list`, and name the tenant of one that is a tenant's own", name).At("name")
	}
	return ares.Errorf(ares.NotFound, "tenant %s has no policy %q of its own: see `ares policy list`", tenant, name).At("name")
}

func policyRecord(p *ares.Policy) *storepb.Record {
	return &storepb.Record{Body: &storepb.Record_Policy{Policy: &storepb.Policy{
		On: string(p.On), Match: p.Match, Rule: p.Rule, Require: p.Require, Action: string(p.Action), Message: p.Message,
		MessageExpression: p.MessageExpression, Mode: string(p.Mode), Alert: p.Alert, Priority: int32(p.Priority), Why: p.Why, By: p.By, At: micros(p.At),
	}}}
}

func policyOf(m *storepb.Policy, id string, revision int64) *ares.Policy {
	tenant, name := ares.ParsePolicyID(id)
	return &ares.Policy{
		Name: name, Tenant: tenant, On: ares.PolicyPoint(m.GetOn()), Match: m.GetMatch(), Rule: m.GetRule(), Require: m.GetRequire(),
		Action: ares.PolicyAction(m.GetAction()), Message: m.GetMessage(), MessageExpression: m.GetMessageExpression(), Mode: ares.PolicyMode(m.GetMode()),
		Alert: slices.Clone(m.GetAlert()), Priority: int(m.GetPriority()), Why: m.GetWhy(), By: m.GetBy(), At: fromMicros(m.GetAt()), Revision: revision,
	}
}

func noteRecords(notes []ares.PolicyNote) []*storepb.PolicyNote {
	var out []*storepb.PolicyNote
	for _, n := range notes {
		out = append(out, &storepb.PolicyNote{Policy: n.Policy, Text: n.Text, Labels: n.Labels})
	}
	return out
}

func notesOf(notes []*storepb.PolicyNote) []ares.PolicyNote {
	var out []ares.PolicyNote
	for _, n := range notes {
		out = append(out, ares.PolicyNote{Policy: n.GetPolicy(), Text: n.GetText(), Labels: maps.Clone(n.GetLabels())})
	}
	return out
}
