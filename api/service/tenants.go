package service

import (
	"context"
	"crypto/rand"
	"reflect"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/store"
)

// tenantService implements TenantService.
type tenantService struct {
	apipb.UnimplementedTenantServiceServer
	*Services
}

// These are defaults and limits for the fields of a tenant.
const (
	defaultPendingJobs = 100_000
	tenantTries        = 5
	MaxSlug            = 48 // leaves room for a suffix in a name of 63
)

// CreateTenant implements apipb.TenantServiceServer. A request that specifies
// an ID may be repeated. If a request has no ID, the ID is derived from the
// name.
func (d *tenantService) CreateTenant(ctx context.Context, req *apipb.CreateTenantRequest) (*apipb.CreateTenantResponse, error) {
	m := req.GetTenant()
	var p ares.Problems
	t := ares.Tenant{Limits: ares.NoLimits(), Weight: 1, MayPreempt: true, CreatedAt: d.Cfg.Now().UTC()}
	t.Limits.PendingJobs = defaultPendingJobs
	checkTenant(&p, m)
	if m.GetId() != "" && !ares.ValidName(m.GetId()) {
		p.Add("id", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", ares.Clip(m.GetId()))
	}
	if m.GetName() == "" && m.GetId() == "" {
		p.Add("name", "is required: the tenant's id is made from it")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if n := d.Cfg.View.TenantCount(); n >= maxTenants {
		return nil, ares.Errorf(ares.LimitReached, "there are %d tenants, which is the limit: delete tenants that are no longer used", n)
	}
	t.ID, t.Name = m.GetId(), m.GetName()
	if t.Name == "" {
		t.Name = t.ID
	}
	if err := merge(&t, m); err != nil {
		return nil, err
	}
	made, err := d.create(ctx, t)
	if err != nil {
		return nil, err
	}
	pipeline.AuditCreation(ctx, made.ID, made, made.CreatedAt.Equal(t.CreatedAt))
	d.WaitForView(ctx, made.Revision)
	return &apipb.CreateTenantResponse{Tenant: d.tenant(&made)}, nil
}

func (d *tenantService) create(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	if t.ID != "" {
		return d.createOnce(ctx, t)
	}
	base := Slug(t.Name)
	t.ID = base
	for range tenantTries {
		made, err := t, d.checkUnused(ctx, t.ID)
		if err == nil {
			made, err = d.Cfg.Store.CreateTenant(ctx, t)
		}
		if ares.CodeOf(err) != ares.Conflict {
			return made, err
		}
		t.ID = base + "-" + strings.ToLower(rand.Text()[:5])
	}
	return t, ares.Errorf(ares.Conflict, "no unused ID could be derived from the name %q: set the ID yourself", ares.Clip(t.Name)).At("id")
}

// createOnce creates a tenant with a given ID. createOnce also succeeds if a tenant with the same
// ID and fields already exists.
func (d *tenantService) createOnce(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	if err := d.checkUnused(ctx, t.ID); err != nil {
		return t, err
	}
	made, err := d.Cfg.Store.CreateTenant(ctx, t)
	if ares.CodeOf(err) != ares.Conflict {
		return made, err
	}
	there, readErr := d.Cfg.Store.Tenant(ctx, t.ID)
	if readErr != nil {
		return t, err
	}
	same := there
	same.CreatedAt, same.Revision = t.CreatedAt, t.Revision
	if reflect.DeepEqual(same, t) {
		return there, nil
	}
	return t, err
}

// Slug derives a tenant ID from the tenant's name.
func Slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == MaxSlug {
			break
		}
	}
	if s := strings.TrimRight(b.String(), "-"); s != "" {
		return s
	}
	return "tenant"
}

// limitFields returns the limits of a tenant. The keys of the result are the field names.
func limitFields(m *apipb.Tenant) map[string]*int32 {
	return map[string]*int32{
		"max_gpus": m.MaxGpus, "max_gpu_memory_mb": m.MaxGpuMemoryMb, "max_cpu_cores": m.MaxCpuCores,
		"max_memory_mb": m.MaxMemoryMb, "max_concurrent_jobs": m.MaxConcurrentJobs, "max_pending_jobs": m.MaxPendingJobs,
	}
}

// limitOrder is the order in which errors about limits are reported.
var limitOrder = []string{"max_gpus", "max_gpu_memory_mb", "max_cpu_cores", "max_memory_mb", "max_concurrent_jobs", "max_pending_jobs"}

// checkTenant reports every mistake in the fields of a request.
func checkTenant(p *ares.Problems, m *apipb.Tenant) {
	fields := limitFields(m)
	for _, name := range limitOrder {
		if v := fields[name]; v != nil && *v < 0 {
			p.Add(name, "must be 0 or more, or absent for no limit, got %d", *v)
		}
	}
	if n := m.GetName(); len(n) > ares.MaxNameBytes || strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.Add("name", "at most %d bytes without control characters", ares.MaxNameBytes)
	}
	if c := ares.Class(m.GetPriorityTier()); c != "" && c.Rank() < 0 {
		p.Add("priority_tier", "%q is unknown: use one of %v", ares.Clip(string(c)), ares.Classes())
	}
	if w := m.FairShareWeight; w != nil && !ares.ValidWeight(*w) {
		p.Add("fair_share_weight", "must be between %v and %v, got %v", ares.MinWeight, ares.MaxWeight, *w)
	}
	if v := m.DefaultLostAfterSeconds; v != nil && *v != 0 && (*v < ares.MinLostAfterSec || *v > ares.MaxLostAfterSec) {
		p.Add("default_lost_after_seconds", "must be between %d and %d, or 0 for the general default, got %d", ares.MinLostAfterSec, ares.MaxLostAfterSec, *v)
	}
	notGiven(p, map[string]bool{
		"current": m.GetCurrent() != nil, "created_at": m.GetCreatedAt() != nil, "gpu_hours_this_month": m.GpuHoursThisMonth != nil,
		"loans": len(m.GetLoans()) > 0, "hub_loan_gpus": m.HubLoanGpus != nil, "hub_max_gpus": m.HubMaxGpus != nil,
		"hub_loan_gpu_hours": m.HubLoanGpuHours != nil, "hub_gpu_hours_per_month": m.HubGpuHoursPerMonth != nil, "hub_tenant": m.GetHubTenant(),
	})
	ares.CheckQuotas(p, quotasOf(m.GetQuotas()))
	if v := m.GpuHoursPerMonth; v != nil && *v < 0 {
		p.Add("gpu_hours_per_month", "must be between 0 (no budget) and 2147483647, got %d", *v)
	}
}

// The function `merge` copies to t the fields that a request sets, and returns an error if the
// result is inconsistent.
func merge(t *ares.Tenant, m *apipb.Tenant) error {
	set := func(to *int, v *int32) {
		if v != nil {
			*to = int(*v)
		}
	}
	set(&t.Limits.GPUs, m.MaxGpus)
	set(&t.Limits.GPUMemoryMB, m.MaxGpuMemoryMb)
	set(&t.Limits.CPUs, m.MaxCpuCores)
	set(&t.Limits.MemoryMB, m.MaxMemoryMb)
	set(&t.Limits.ConcurrentJobs, m.MaxConcurrentJobs)
	set(&t.Limits.PendingJobs, m.MaxPendingJobs)
	set(&t.LostAfterSecs, m.DefaultLostAfterSeconds)
	set(&t.GPUHours, m.GpuHoursPerMonth)
	if len(m.GetQuotas()) > 0 {
		t.Quotas = quotasOf(m.GetQuotas())
	}
	if m.GetName() != "" {
		t.Name = m.GetName()
	}
	if m.PriorityTier != nil {
		t.PriorityTier = ares.Class(m.GetPriorityTier())
	}
	if m.FairShareWeight != nil {
		t.Weight = m.GetFairShareWeight()
	}
	if m.FairShareWeightMin != nil {
		t.WeightMin = m.GetFairShareWeightMin()
	}
	if m.FairShareWeightMax != nil {
		t.WeightMax = m.GetFairShareWeightMax()
	}
	if m.AllowPreemption != nil {
		t.MayPreempt = m.GetAllowPreemption()
	}
	var p ares.Problems
	t.CheckWeight(&p)
	return p.Err()
}

// GetTenant implements apipb.TenantServiceServer.
func (d *tenantService) GetTenant(ctx context.Context, req *apipb.GetTenantRequest) (*apipb.GetTenantResponse, error) {
	if err := pipeline.CheckTenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	t, err := d.Cfg.Store.Tenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	m := d.tenantTo(visibilityOf(ctx), &t)
	if d.Cfg.Federation.Hub {
		loans, err := d.Cfg.Store.TenantLoans(ctx, t.ID)
		if err != nil {
			return nil, err
		}
		for i := range loans {
			m.Loans = append(m.Loans, newLoan(&loans[i], d.Cfg.Now()))
		}
	}
	return &apipb.GetTenantResponse{Tenant: m}, nil
}

// ListTenants implements apipb.TenantServiceServer.
func (d *tenantService) ListTenants(ctx context.Context, req *apipb.ListTenantsRequest) (*apipb.ListTenantsResponse, error) {
	to := visibilityOf(ctx)
	all := slices.DeleteFunc(d.Cfg.View.Tenants(), func(t *ares.Tenant) bool { return !to.tenant(t.ID) })
	tenants, next, err := PageByID(all, req.GetPageSize(), req.GetPageToken(), func(t *ares.Tenant) string { return t.ID },
		func(t *ares.Tenant) *apipb.Tenant { return d.tenantTo(to, t) })
	return &apipb.ListTenantsResponse{Tenants: tenants, Total: int32(len(all)), NextPageToken: next}, err
}

// UpdateTenant implements apipb.TenantServiceServer. Fields that the request
// does not change keep their stored values, so a concurrent change to them is
// not undone.
func (d *tenantService) UpdateTenant(ctx context.Context, req *apipb.UpdateTenantRequest) (*apipb.UpdateTenantResponse, error) {
	if err := pipeline.CheckTenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	m, reset, err := Masked(req.GetTenant(), req.GetUpdateMask())
	if err != nil {
		return nil, err
	}
	var p ares.Problems
	checkTenant(&p, m)
	if id := m.GetId(); id != "" && id != req.GetTenantId() {
		p.Add("id", "a tenant's id cannot be changed: create another tenant")
	}
	if req.GetClearQuotas() && len(m.GetQuotas()) > 0 {
		p.Add("quotas", "give either quotas or clear_quotas, not both")
	}
	if err = p.Err(); err != nil {
		return nil, err
	}
	return store.Retry(tenantTries, func() (*apipb.UpdateTenantResponse, error) {
		t, err := d.Cfg.Store.Tenant(ctx, req.GetTenantId())
		if err != nil {
			return nil, err
		}
		was := t
		if req.GetClearQuotas() {
			t.Quotas = nil
		}
		resetTenant(&t, reset)
		if err = merge(&t, m); err != nil {
			return nil, err
		}
		if err = t.CheckShared(&was); err != nil {
			return nil, err
		}
		made, err := d.Cfg.Store.UpdateTenant(ctx, t)
		if ares.CodeOf(err) == ares.Conflict {
			return nil, store.Conflict{Err: err}
		}
		if err != nil {
			return nil, err
		}
		pipeline.AuditChange(ctx, made.ID, was, made)
		d.WaitForView(ctx, made.Revision)
		return &apipb.UpdateTenantResponse{Tenant: d.tenant(&made)}, nil
	})
}

// DeleteTenant implements apipb.TenantServiceServer.
func (d *tenantService) DeleteTenant(ctx context.Context, req *apipb.DeleteTenantRequest) (*apipb.DeleteTenantResponse, error) {
	if err := pipeline.CheckTenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	was, err := d.Cfg.Store.Tenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	if err := d.Cfg.Admission.DeleteTenant(ctx, req.GetTenantId()); err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, was.ID, was, nil)
	d.Cfg.Auth.Changed()
	return &apipb.DeleteTenantResponse{Message: "Tenant " + req.GetTenantId() + " deleted"}, nil
}

// The method `tenant` converts a tenant to its public form, with the current usage of its jobs.
// The GPU hours may be one second old, so that listing tenants does not delay the engine's
// decisions.
func (d *Services) tenant(t *ares.Tenant) *apipb.Tenant {
	use, waiting := d.Cfg.View.Use(t.ID)
	m := newTenant(t, use, waiting)
	if (t.GPUHours != 0 || m.HubGpuHoursPerMonth != nil) && d.Cfg.Policies != nil {
		m.GpuHoursThisMonth = new(d.Cfg.Policies.Hours(t.ID))
	}
	return m
}

// tenantTo is `tenant` for a reader that may see only some queues of the tenant. This reader sees the sum of those queues
// instead of the usage of the whole tenant.
func (d *Services) tenantTo(to Visibility, t *ares.Tenant) *apipb.Tenant {
	m := d.tenant(t)
	if to.sees(t.ID, "") {
		return m
	}
	var use ares.Use
	waiting := 0
	for _, q := range d.Cfg.View.Queues(t.ID) {
		if to.sees(t.ID, q.Name) {
			part, n := d.Cfg.View.Use(q.ID())
			use, waiting = use.Add(part), waiting+n
		}
	}
	m.Current, m.GpuHoursThisMonth = newUse(use, waiting), nil
	return m
}
