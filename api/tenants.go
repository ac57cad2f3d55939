package api

import (
	"context"
	"crypto/rand"
	"reflect"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// tenantDoor is the TenantService.
type tenantDoor struct {
	apipb.UnimplementedTenantServiceServer
	*Doors
}

// Defaults and limits of a tenant's fields.
const (
	defaultPendingJobs = 100_000
	tenantTries        = 5
	maxSlug            = 48 // leaves room for a suffix in a name of 63
	maxViewWait        = time.Second
)

// CreateTenant implements apipb.TenantServiceServer. With an id, the same
// request may be repeated; without one the id is made from the name.
func (d *tenantDoor) CreateTenant(ctx context.Context, req *apipb.CreateTenantRequest) (*apipb.CreateTenantResponse, error) {
	m := req.GetTenant()
	var p ares.Problems
	requireLimits(&p, m)
	t := ares.Tenant{Weight: 1, MayPreempt: true, CreatedAt: d.cfg.Now().UTC()}
	t.Limits.PendingJobs = defaultPendingJobs
	checkTenant(&p, m)
	if m.GetId() != "" && !ares.ValidName(m.GetId()) {
		p.Add("id", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", clip(m.GetId()))
	}
	if m.GetName() == "" && m.GetId() == "" {
		p.Add("name", "is required: the tenant's id is made from it")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	if n := d.cfg.View.TenantCount(); n >= maxTenants {
		return nil, ares.Errorf(ares.Refused, "there are %d tenants, the most there may be: delete some", n)
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
	created(ctx, made.ID, made, made.CreatedAt.Equal(t.CreatedAt))
	d.seen(ctx, made.Revision)
	return &apipb.CreateTenantResponse{Tenant: d.tenant(&made)}, nil
}

func (d *tenantDoor) create(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	if t.ID != "" {
		return d.createOnce(ctx, t)
	}
	base := slug(t.Name)
	t.ID = base
	for range tenantTries {
		made, err := d.cfg.Store.CreateTenant(ctx, t)
		if ares.CodeOf(err) != ares.Conflict {
			return made, err
		}
		t.ID = base + "-" + strings.ToLower(rand.Text()[:5])
	}
	return t, ares.Errorf(ares.Conflict, "no free id was found for the name %q: give an id", clip(t.Name)).At("id")
}

// createOnce creates a tenant under a given id; the same one again is fine.
func (d *tenantDoor) createOnce(ctx context.Context, t ares.Tenant) (ares.Tenant, error) {
	made, err := d.cfg.Store.CreateTenant(ctx, t)
	if ares.CodeOf(err) != ares.Conflict {
		return made, err
	}
	there, readErr := d.cfg.Store.Tenant(ctx, t.ID)
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

// slug makes an id out of a name.
func slug(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == maxSlug {
			break
		}
	}
	if s := strings.TrimRight(b.String(), "-"); s != "" {
		return s
	}
	return "tenant"
}

// limitFields names the limits every tenant must have.
func limitFields(m *apipb.Tenant) map[string]*int32 {
	return map[string]*int32{
		"max_gpus": m.MaxGpus, "max_gpu_memory_mb": m.MaxGpuMemoryMb, "max_cpu_cores": m.MaxCpuCores,
		"max_memory_mb": m.MaxMemoryMb, "max_concurrent_jobs": m.MaxConcurrentJobs,
	}
}

// limitOrder is the order in which limits are told.
var limitOrder = []string{"max_gpus", "max_gpu_memory_mb", "max_cpu_cores", "max_memory_mb", "max_concurrent_jobs"}

func requireLimits(p *ares.Problems, m *apipb.Tenant) {
	fields := limitFields(m)
	for _, name := range limitOrder {
		if fields[name] == nil {
			p.Add(name, "is required: a whole number, 2147483647 for no limit")
		}
	}
}

// checkTenant reports every mistake in the fields that are given.
func checkTenant(p *ares.Problems, m *apipb.Tenant) {
	fields := limitFields(m)
	fields["max_pending_jobs"] = m.MaxPendingJobs
	for _, name := range append(slices.Clip(limitOrder), "max_pending_jobs") {
		if v := fields[name]; v != nil && *v < 0 {
			p.Add(name, "must be between 0 and 2147483647 (no limit), got %d", *v)
		}
	}
	if n := m.GetName(); len(n) > ares.MaxNameBytes || strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		p.Add("name", "at most %d bytes without control characters", ares.MaxNameBytes)
	}
	if c := ares.Class(m.GetPriorityTier()); c != "" && c.Rank() < 0 {
		p.Add("priority_tier", "%q is unknown: use one of %v", clip(string(c)), ares.Classes())
	}
	if w := m.FairShareWeight; w != nil && !ares.ValidWeight(*w) {
		p.Add("fair_share_weight", "must be between %v and %v, got %v", ares.MinWeight, ares.MaxWeight, *w)
	}
	if v := m.DefaultLostAfterSeconds; v != nil && *v != 0 && (*v < ares.MinLostAfterSec || *v > ares.MaxLostAfterSec) {
		p.Add("default_lost_after_seconds", "must be between %d and %d, or 0 for the general default, got %d", ares.MinLostAfterSec, ares.MaxLostAfterSec, *v)
	}
	notGiven(p, map[string]bool{"current": m.GetCurrent() != nil, "created_at": m.GetCreatedAt() != nil, "gpu_hours_this_month": m.GpuHoursThisMonth != nil})
	ares.CheckQuotas(p, quotasOf(m.GetQuotas()))
	if v := m.GpuHoursPerMonth; v != nil && *v < 0 {
		p.Add("gpu_hours_per_month", "must be between 0 (no budget) and 2147483647, got %d", *v)
	}
}

// merge puts the fields that are given into t, and says what does not go together
// then.
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
func (d *tenantDoor) GetTenant(ctx context.Context, req *apipb.GetTenantRequest) (*apipb.GetTenantResponse, error) {
	if err := tenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	t, err := d.cfg.Store.Tenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	return &apipb.GetTenantResponse{Tenant: d.tenant(&t)}, nil
}

// ListTenants implements apipb.TenantServiceServer.
func (d *tenantDoor) ListTenants(ctx context.Context, req *apipb.ListTenantsRequest) (*apipb.ListTenantsResponse, error) {
	to := eyesOf(ctx)
	all := slices.DeleteFunc(d.cfg.View.Tenants(), func(t *ares.Tenant) bool { return !to.tenant(t.ID) })
	tenants, next, err := pageByID(all, req.GetPageSize(), req.GetPageToken(), func(t *ares.Tenant) string { return t.ID }, d.tenant)
	return &apipb.ListTenantsResponse{Tenants: tenants, Total: int32(len(all)), NextPageToken: next}, err
}

// UpdateTenant implements apipb.TenantServiceServer. Fields that are not given
// stay, so somebody else's change in between does not matter.
func (d *tenantDoor) UpdateTenant(ctx context.Context, req *apipb.UpdateTenantRequest) (*apipb.UpdateTenantResponse, error) {
	if err := tenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	m := req.GetTenant()
	var p ares.Problems
	checkTenant(&p, m)
	if id := m.GetId(); id != "" && id != req.GetTenantId() {
		p.Add("id", "a tenant's id cannot be changed: create another tenant")
	}
	if req.GetClearQuotas() && len(m.GetQuotas()) > 0 {
		p.Add("quotas", "give either quotas or clear_quotas, not both")
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		t, err := d.cfg.Store.Tenant(ctx, req.GetTenantId())
		if err != nil {
			return nil, err
		}
		was := t
		if req.GetClearQuotas() {
			t.Quotas = nil
		}
		if err = merge(&t, m); err != nil {
			return nil, err
		}
		made, err := d.cfg.Store.UpdateTenant(ctx, t)
		if ares.CodeOf(err) == ares.Conflict && try < tenantTries {
			continue
		}
		if err != nil {
			return nil, err
		}
		changed(ctx, made.ID, was, made)
		d.seen(ctx, made.Revision)
		return &apipb.UpdateTenantResponse{Tenant: d.tenant(&made)}, nil
	}
}

// DeleteTenant implements apipb.TenantServiceServer.
func (d *tenantDoor) DeleteTenant(ctx context.Context, req *apipb.DeleteTenantRequest) (*apipb.DeleteTenantResponse, error) {
	if err := tenantID(req.GetTenantId()); err != nil {
		return nil, err
	}
	was, err := d.cfg.Store.Tenant(ctx, req.GetTenantId())
	if err != nil {
		return nil, err
	}
	if err := d.cfg.Desk.DeleteTenant(ctx, req.GetTenantId()); err != nil {
		return nil, err
	}
	changed(ctx, was.ID, was, nil)
	return &apipb.DeleteTenantResponse{Message: "Tenant " + req.GetTenantId() + " deleted"}, nil
}

func tenantID(id string) error {
	if ares.ValidName(id) {
		return nil
	}
	return ares.Errorf(ares.NotFound, "there is no tenant %q", clip(id)).At("tenant_id")
}

// tenant is a tenant with what its jobs hold now, and the hours they used as of a
// second ago: a list of tenants must not keep the engine from deciding.
func (d *Doors) tenant(t *ares.Tenant) *apipb.Tenant {
	use, waiting := d.cfg.View.Use(t.ID)
	m := newTenant(t, use, waiting)
	if t.GPUHours != 0 && d.cfg.Policies != nil {
		m.GpuHoursThisMonth = new(d.cfg.Policies.Hours(t.ID))
	}
	return m
}

// seen lets this server's own view catch up with a change, so that the list
// its caller asks for next shows it. A view that lags is no failure.
func (d *Doors) seen(ctx context.Context, revision int64) {
	ctx, cancel := context.WithTimeout(ctx, d.viewWait)
	defer cancel()
	_ = d.cfg.View.WaitFor(ctx, revision)
}
