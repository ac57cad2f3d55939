package service

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/notify"
	"github.com/ares-scheduler/ares/policy"
)

// policyService implements PolicyService.
type policyService struct {
	apipb.UnimplementedPolicyServiceServer
	*Services
}

// Notifier sends alerts.
type Notifier interface {
	Has(channel string) bool
	// Allows reports whether the policies of a tenant may use a channel.
	Allows(channel, tenant string) bool
	Status() []notify.Status
	Test(ctx context.Context, channel, by string) error
}

// keepsPolicies returns an error if this server does not support policies.
func (d *policyService) keepsPolicies() error {
	if d.Cfg.Policies == nil {
		return ares.Errorf(ares.Unavailable, "this server does not support policies")
	}
	return nil
}

// ApplyPolicy implements apipb.PolicyServiceServer.
func (d *policyService) ApplyPolicy(ctx context.Context, req *apipb.ApplyPolicyRequest) (*apipb.ApplyPolicyResponse, error) {
	if err := d.keepsPolicies(); err != nil {
		return nil, err
	}
	p, err := d.policyOf(ctx, req.GetPolicy())
	if err != nil {
		return nil, err
	}
	if _, err = d.Cfg.Policies.Compile(p); err != nil {
		return nil, err
	}
	if err = d.checkChannels(&p); err != nil {
		return nil, err
	}
	resp := &apipb.ApplyPolicyResponse{Policy: d.newPolicy(&p, nil), Status: "checked"}
	if !req.GetCheckOnly() {
		now, was, err := d.Cfg.Store.ApplyPolicy(ctx, p)
		if err != nil {
			return nil, err
		}
		d.WaitForView(ctx, now.Revision)
		resp.Policy, resp.Status = d.newPolicy(&now, nil), "created"
		switch {
		case was == nil:
			pipeline.AuditChange(ctx, now.Tenant, nil, now)
		case was.Revision == now.Revision:
			resp.Status = "unchanged"
		default:
			resp.Status = "updated"
			pipeline.AuditChange(ctx, now.Tenant, *was, now)
		}
	}
	for _, channel := range p.Alert {
		if d.Cfg.Notifier == nil || !d.Cfg.Notifier.Has(channel) {
			resp.Warnings = append(resp.Warnings, fmt.Sprintf("this server has no alert channel %s: add it to alerts.channels in the configuration of every server", channel))
		}
	}
	return resp, nil
}

// checkChannels returns an error if a policy names an alert channel that its tenant may not use. The error does not tell
// whether the channel exists.
func (d *policyService) checkChannels(p *ares.Policy) error {
	for _, channel := range p.Alert {
		if n := d.Cfg.Notifier; n != nil && p.Tenant != "" && !n.Allows(channel, p.Tenant) {
			return ares.Errorf(ares.Forbidden,
				"alert: there is no alert channel %[2]s that policies of tenant %[1]s may use: remove it, or ask a platform administrator to add the tenant to the channel's `tenants` in alerts.channels of every server",
				p.Tenant, channel).At("alert")
		}
	}
	return nil
}

// policyOf converts the policy in a request to its internal form.
func (d *policyService) policyOf(ctx context.Context, m *apipb.Policy) (ares.Policy, error) {
	p := ares.Policy{
		Name: m.GetName(), Tenant: m.GetTenantId(), On: ares.PolicyPoint(m.GetOn()), Match: m.GetMatch(), Rule: m.GetRule(), Require: m.GetRequire(),
		Action: ares.PolicyAction(m.GetAction()), Message: m.GetMessage(), MessageExpression: m.GetMessageExpression(), Mode: ares.PolicyMode(m.GetMode()),
		Alert: m.GetAlert(), Priority: int(m.GetPriority()), Why: m.GetWhy(), By: pipeline.CallerName(ctx), At: pipeline.WholeMicros(d.Cfg.Now()),
	}.WithDefaults()
	var bad ares.Problems
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"updated_by", m.GetUpdatedBy() != ""},
		{"updated_at", m.GetUpdatedAt() != nil},
		{"revision", m.GetRevision() != ""},
		{"broken", m.GetBroken() != ""},
	} {
		if f.given {
			bad.Add(f.name, "is not part of a request: remove it")
		}
	}
	return p, bad.Err()
}

// newPolicy converts a policy to its public form.
func (d *Services) newPolicy(p *ares.Policy, broken error) *apipb.Policy {
	m := &apipb.Policy{
		Name: p.Name, TenantId: p.Tenant, On: string(p.On), Match: p.Match, Rule: p.Rule, Require: p.Require, Action: string(p.Action), Message: p.Message,
		MessageExpression: p.MessageExpression, Mode: string(p.Mode), Alert: p.Alert, Priority: int32(p.Priority), Why: p.Why,
		UpdatedBy: p.By, UpdatedAt: apipb.Timestamp(p.At), Revision: strconv.FormatInt(p.Revision, 10),
	}
	if broken != nil {
		m.Broken = broken.Error()
	}
	return m
}

// GetPolicy implements apipb.PolicyServiceServer.
func (d *policyService) GetPolicy(ctx context.Context, req *apipb.GetPolicyRequest) (*apipb.GetPolicyResponse, error) {
	if err := pipeline.CheckPolicyName(req.GetTenantId(), req.GetName()); err != nil {
		return nil, err
	}
	if err := d.keepsPolicies(); err != nil {
		return nil, err
	}
	p, err := d.Cfg.Store.Policy(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	return &apipb.GetPolicyResponse{Policy: d.newPolicy(&p, d.Cfg.Policies.Broken(p.ID()))}, nil
}

// ListPolicies implements apipb.PolicyServiceServer.
func (d *policyService) ListPolicies(ctx context.Context, req *apipb.ListPoliciesRequest) (*apipb.ListPoliciesResponse, error) {
	if err := d.keepsPolicies(); err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(d.Cfg.Policies.List(), func(r *policy.Rule) bool {
		p := &r.Policy
		return !d.SeesPolicy(ctx, p) || req.GetTenantId() != "" && p.Tenant != "" && p.Tenant != req.GetTenantId()
	})
	page, next, err := pageFrom(all, req.GetPageSize(), req.GetPageToken(), func(r *policy.Rule) *apipb.Policy { return d.newPolicy(&r.Policy, r.Broken) })
	return &apipb.ListPoliciesResponse{Policies: page, Total: int32(len(all)), NextPageToken: next}, err
}

// pageFrom returns one page of a short list. The page token is an index in the
// list, because the list is not ordered by name.
func pageFrom[T, M any](all []T, size int32, token string, public func(T) M) (page []M, next string, err error) {
	first := 0
	if token != "" {
		if first, err = strconv.Atoi(token); err != nil || first < 0 {
			return nil, "", badPageToken()
		}
	}
	if size == 0 {
		size = DefaultPageSize
	}
	for i := first; i < len(all); i++ {
		if len(page) == int(size) {
			return page, strconv.Itoa(i), nil
		}
		page = append(page, public(all[i]))
	}
	return page, "", nil
}

// DeletePolicy implements apipb.PolicyServiceServer.
func (d *policyService) DeletePolicy(ctx context.Context, req *apipb.DeletePolicyRequest) (*apipb.DeletePolicyResponse, error) {
	if err := pipeline.CheckPolicyName(req.GetTenantId(), req.GetName()); err != nil {
		return nil, err
	}
	was, gone, err := d.Cfg.Store.DeletePolicy(ctx, req.GetTenantId(), req.GetName())
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, was.Tenant, was, nil)
	d.WaitForView(ctx, gone)
	return &apipb.DeletePolicyResponse{Message: "Policy " + req.GetName() + " deleted"}, nil
}

// ListAlertChannels implements apipb.PolicyServiceServer.
func (d *policyService) ListAlertChannels(context.Context, *apipb.ListAlertChannelsRequest) (*apipb.ListAlertChannelsResponse, error) {
	resp := &apipb.ListAlertChannelsResponse{}
	if d.Cfg.Notifier == nil {
		return resp, nil
	}
	for _, s := range d.Cfg.Notifier.Status() {
		resp.Channels = append(resp.Channels, &apipb.AlertChannel{
			Name: s.Name, Kind: s.Kind, Sent: s.Sent, Failed: s.Failed, Repeated: s.Repeated, Dropped: s.Dropped, Waiting: int32(s.Waiting), LastError: s.LastError,
		})
	}
	return resp, nil
}

// TestAlertChannel implements apipb.PolicyServiceServer.
func (d *policyService) TestAlertChannel(ctx context.Context, req *apipb.TestAlertChannelRequest) (*apipb.TestAlertChannelResponse, error) {
	if d.Cfg.Notifier == nil || !d.Cfg.Notifier.Has(req.GetName()) {
		return nil, ares.Errorf(ares.NotFound, "this server has no alert channel %q: list the channels with `ares alert list`, or add one to alerts.channels in the server's configuration", ares.Clip(req.GetName())).At("name")
	}
	if err := d.Cfg.Notifier.Test(ctx, req.GetName(), pipeline.CallerName(ctx)); err != nil {
		return nil, err
	}
	return &apipb.TestAlertChannelResponse{Message: "Delivered through " + req.GetName()}, nil
}

// notesOf returns the messages that policies have attached to a job for users
// to read.
func notesOf(j *ares.Job) []string {
	var out []string
	for _, n := range j.Notes {
		out = append(out, n.Text)
	}
	return out
}
