package store

import (
	"context"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// ApplyPolicy creates the policy, or replaces the stored policy with the same ID. ApplyPolicy
// returns the policy with its revision. If an identical policy is already stored, ApplyPolicy
// writes nothing. It then returns the stored policy as its second result. The policy's tenant
// must exist.
func (s *Store) ApplyPolicy(ctx context.Context, p ares.Policy) (_ ares.Policy, was *ares.Policy, _ error) {
	value, failed := marshal(policyRecord(&p))
	if failed != nil {
		return p, nil, failed
	}
	now, failed := Retry(maxTries, func() (ares.Policy, error) {
		all, revision, err := s.policies(ctx)
		if err != nil {
			return p, err
		}
		there := all[p.ID()]
		if there != nil && there.Same(&p) {
			was = there
			return *there, nil
		}
		if there == nil {
			if err = checkPolicyLimit(all, p.Tenant); err != nil {
				return p, err
			}
		}
		cmps := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(policiesKey), "<", revision+1).WithPrefix()}
		var reads []clientv3.Op
		if p.Tenant != "" {
			cmps = append(cmps, keyExists(tenantKey(p.Tenant)))
			reads = append(reads, clientv3.OpGet(tenantKey(p.Tenant), clientv3.WithKeysOnly()))
		}
		resp, err := s.txn(ctx, "write policy", cmps, []clientv3.Op{clientv3.OpPut(policyKey(p.ID()), value)}, reads)
		if err != nil {
			return p, err
		}
		if resp.Succeeded {
			p.Revision, was = resp.Header.Revision, there
			return p, nil
		}
		if len(reads) > 0 && len(resp.Responses[0].GetResponseRange().Kvs) == 0 {
			return p, NoTenant(p.Tenant)
		}
		return p, Conflict{ares.Errorf(ares.Exhausted, "the policies keep changing: try again")}
	})
	return now, was, failed
}

// checkPolicyLimit rejects a new policy when the limit is reached. The policies of tenants do not count towards the limit of the
// platform's policies, so that tenants cannot keep administrators from adding a policy against them.
func checkPolicyLimit(all map[string]*ares.Policy, tenant string) error {
	own, platform := 0, 0
	for _, p := range all { // order-free: a count
		if p.Tenant == tenant {
			own++
		}
		if p.Tenant == "" {
			platform++
		}
	}
	switch tenants := len(all) - platform; {
	case tenant == "" && platform >= ares.MaxPolicies:
		return ares.Errorf(ares.LimitReached, "there are %d policies of the platform, which is the limit: delete some", platform)
	case tenant != "" && own >= ares.MaxTenantPolicies:
		return ares.Errorf(ares.LimitReached, "tenant %s has %d policies of its own, which is the limit: delete some", tenant, own)
	case tenant != "" && tenants >= ares.MaxTenantsPolicies:
		return ares.Errorf(ares.LimitReached, "all tenants together have %d policies, which is the limit: ask a platform administrator to delete some", tenants)
	}
	return nil
}

// DeletePolicy deletes a policy, and returns it with the revision of the deletion.
func (s *Store) DeletePolicy(ctx context.Context, tenant, name string) (ares.Policy, int64, error) {
	id := ares.PolicyID(tenant, name)
	was, err := s.deleteRecord(ctx, "delete policy", policyKey(id))
	switch {
	case err != nil:
		return ares.Policy{}, 0, err
	case was == nil:
		return ares.Policy{}, 0, NoPolicy(tenant, name)
	}
	return *policyOf(was.GetPolicy(), id, was.revision), was.gone, nil
}

// Policy reads one policy with a linearizable read.
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

// This method returns a map of all policies, whose keys are the policy IDs. It also returns
// the revision at which they were read.
func (s *Store) policies(ctx context.Context) (map[string]*ares.Policy, int64, error) {
	list, revision, err := s.records(ctx, policiesKey)
	all := map[string]*ares.Policy{}
	for _, r := range list {
		all[r.name] = policyOf(r.GetPolicy(), r.name, r.revision)
	}
	return all, revision, err
}

// NoPolicy is the error for a policy that does not exist or that the caller may not see.
func NoPolicy(tenant, name string) error {
	if tenant == "" {
		return ares.Errorf(ares.NotFound, "there is no policy %q for all tenants: run `ares policy list` to see all policies; if the policy belongs to one tenant, use --tenant", name).At("name")
	}
	return ares.Errorf(ares.NotFound, "tenant %s has no policy %q: run `ares policy list` to see all policies", tenant, name).At("name")
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
