package service

import (
	"context"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/api/pipeline"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/policy/roles"
	"github.com/ares-scheduler/ares/store"
)

// identityService implements IdentityService.
type identityService struct {
	apipb.UnimplementedIdentityServiceServer
	*Services
}

// These constants limit the lifetime of a token.
const (
	defaultLifetime = 90 * 24 * time.Hour
	minLifetime     = time.Minute
)

// WhoAmI implements apipb.IdentityServiceServer.
func (d *identityService) WhoAmI(ctx context.Context, _ *apipb.WhoAmIRequest) (*apipb.WhoAmIResponse, error) {
	who := pipeline.IdentityOf(ctx)
	resp := &apipb.WhoAmIResponse{
		Name: who.Name, Kind: string(who.Kind), TenantId: who.Tenant, Groups: who.Groups, ExpiresAt: apipb.Timestamp(who.Until), NodeId: who.Node,
	}
	for _, b := range who.Bindings {
		resp.Bindings = append(resp.Bindings, newBinding("", b))
	}
	return resp, nil
}

// CanI implements apipb.IdentityServiceServer. The answer does not reveal
// whether the tenant or queue exists.
func (d *identityService) CanI(ctx context.Context, req *apipb.CanIRequest) (*apipb.CanIResponse, error) {
	who, verb := pipeline.IdentityOf(ctx), roles.Verb(req.GetVerb())
	if all := roles.Verbs(); !slices.Contains(all, verb) {
		var words []string
		for _, v := range all {
			words = append(words, string(v))
		}
		return nil, ares.Errorf(ares.Invalid, "verb: %q is not a verb: use one of %s", ares.Clip(req.GetVerb()), strings.Join(words, ", ")).At("verb")
	}
	tenant := req.GetTenantId()
	switch tenant {
	case "*":
		tenant = ""
	case "":
		tenant = who.Tenant
	}
	p := pipeline.Scope{Tenant: tenant, Queue: req.GetQueue()}
	if err := p.Allows(who, verb); err != nil {
		return &apipb.CanIResponse{Reason: err.Error()}, nil
	}
	return &apipb.CanIResponse{Allowed: true, Reason: who.Name + " has " + pipeline.RolesOf(who)}, nil
}

// CreateToken implements apipb.IdentityServiceServer.
func (d *identityService) CreateToken(ctx context.Context, req *apipb.CreateTokenRequest) (*apipb.CreateTokenResponse, error) {
	who := pipeline.IdentityOf(ctx)
	t := store.Token{Name: req.GetName(), CreatedBy: who.Name, CreatedAt: pipeline.WholeMicros(d.Cfg.Now())}
	var p ares.Problems
	if !ares.ValidName(req.GetName()) {
		p.Add("name", "%q is not a name: use up to 63 letters, digits, '.', '-' and '_', first a letter or digit", ares.Clip(req.GetName()))
	}
	life := time.Duration(req.GetLifetimeSeconds()) * time.Second
	if life == 0 {
		life = defaultLifetime
	}
	if life < minLifetime {
		p.Add("lifetime_seconds", "must be between %d and %d, got %d", minLifetime/time.Second, 366*24*3600, req.GetLifetimeSeconds())
	}
	t.Until = t.CreatedAt.Add(life)
	for _, m := range req.GetBindings() {
		b := bindingOf(m)
		roles.Check(&p, "bindings.", b)
		t.Bindings = append(t.Bindings, b)
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	home := pipeline.Scope{Tenant: req.GetTenantId()}
	if home.Tenant != "" {
		t.Name, home.Absent = home.Tenant+"/"+t.Name, store.NoTenant(ares.Clip(home.Tenant))
	}
	if err := home.Allows(who, roles.TokenWrite); err != nil {
		return nil, err
	}
	if err := mayGrant(who, t.Bindings...); err != nil {
		return nil, err
	}
	tokens, err := d.Cfg.Store.Tokens(ctx)
	if err == nil {
		err = d.checkTokens(who, home.Tenant, tokens)
	}
	if err != nil {
		return nil, err
	}
	var secret string
	secret, t.Hash = auth.NewToken()
	if err = d.Cfg.Store.CreateToken(ctx, t); err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, t.Tenant(), nil, t)
	d.Cfg.Auth.Changed()
	return &apipb.CreateTokenResponse{Token: secret, Record: newToken(&t)}, nil
}

// mayGrant returns an error if a caller wants to grant or remove permissions
// that it does not have itself. If the caller may not see the tenant, the error
// says that the tenant does not exist.
func mayGrant(who *ares.Identity, bindings ...ares.Binding) error {
	for _, b := range bindings {
		if roles.MayGrant(who, b) {
			continue
		}
		if b.Tenant != "" && !roles.Allows(who, roles.JobRead, b.Tenant, roles.Any) {
			return store.NoTenant(ares.Clip(b.Tenant))
		}
		return ares.Errorf(ares.Forbidden, "%[1]s cannot grant the role %[3]s: callers can grant only their own permissions (roles of this caller: %[2]s)", who.Name, pipeline.RolesOf(who), roles.String(b))
	}
	return nil
}

// ListTokens implements apipb.IdentityServiceServer.
func (d *identityService) ListTokens(ctx context.Context, req *apipb.ListTokensRequest) (*apipb.ListTokensResponse, error) {
	tokens, err := d.Cfg.Store.Tokens(ctx)
	if err != nil {
		return nil, err
	}
	var all []*store.Token
	for i := range tokens {
		t := &tokens[i]
		if want := req.GetTenantId(); (want == "" || want == t.Tenant()) && roles.Allows(pipeline.IdentityOf(ctx), roles.TokenRead, t.Tenant(), "") {
			all = append(all, t)
		}
	}
	page, next, err := pageByKey(all, req.GetPageSize(), req.GetPageToken(), func(t *store.Token) string { return t.Name }, newToken)
	return &apipb.ListTokensResponse{Tokens: page, Total: int32(len(all)), NextPageToken: next}, err
}

// RevokeToken implements apipb.IdentityServiceServer.
func (d *identityService) RevokeToken(ctx context.Context, req *apipb.RevokeTokenRequest) (*apipb.RevokeTokenResponse, error) {
	who, name := pipeline.IdentityOf(ctx), req.GetName()
	home := pipeline.Scope{Tenant: req.GetTenantId()}
	if home.Tenant != "" {
		name = home.Tenant + "/" + name
		home.Absent = store.NoToken(ares.Clip(name))
	}
	if err := home.Allows(who, roles.TokenWrite); err != nil {
		return nil, err
	}
	was, err := d.Cfg.Store.RevokeToken(ctx, name, auth.Subject(name))
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, home.Tenant, was, nil)
	d.Cfg.Auth.Revoked(name)
	return &apipb.RevokeTokenResponse{Message: "Token " + name + " revoked"}, nil
}

// CreateBinding implements apipb.IdentityServiceServer.
func (d *identityService) CreateBinding(ctx context.Context, req *apipb.CreateBindingRequest) (*apipb.CreateBindingResponse, error) {
	who, m := pipeline.IdentityOf(ctx), req.GetBinding()
	b := store.Binding{Binding: bindingOf(m), Subject: m.GetSubject(), CreatedBy: who.Name, CreatedAt: pipeline.WholeMicros(d.Cfg.Now())}
	var p ares.Problems
	auth.CheckSubject(&p, "subject", b.Subject)
	roles.Check(&p, "", b.Binding)
	notGiven(&p, map[string]bool{"created_at": m.GetCreatedAt() != nil, "pending": m.GetPending(), "accepted_by": m.GetAcceptedBy() != ""})
	if err := p.Err(); err != nil {
		return nil, err
	}
	if err := mayGrant(who, b.Binding); err != nil {
		return nil, err
	}
	all, err := d.Cfg.Store.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	b.Pending = subjectTenantsOf(all).needsConsent(who, &b)
	exists := slices.ContainsFunc(all, func(o store.Binding) bool { return o.Subject == b.Subject && o.Binding == b.Binding })
	if err = d.checkBindings(who, &b, all); err != nil && !exists {
		return nil, err
	}
	made, err := d.Cfg.Store.CreateBinding(ctx, b)
	if err != nil {
		return nil, err
	}
	pipeline.AuditCreation(ctx, b.Tenant, made, made.CreatedBy == b.CreatedBy && made.CreatedAt.Equal(b.CreatedAt))
	d.Cfg.Auth.Changed()
	return &apipb.CreateBindingResponse{Binding: newStoredBinding(&made)}, nil
}

// ListBindings implements apipb.IdentityServiceServer.
func (d *identityService) ListBindings(ctx context.Context, req *apipb.ListBindingsRequest) (*apipb.ListBindingsResponse, error) {
	bindings, err := d.Cfg.Store.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	var all []*store.Binding
	of := subjectTenantsOf(bindings)
	for i := range bindings {
		b := &bindings[i]
		if want := req.GetTenantId(); want != "" && want != b.Tenant || req.GetSubject() != "" && req.GetSubject() != b.Subject {
			continue
		}
		who := pipeline.IdentityOf(ctx)
		if roles.Allows(who, roles.BindingRead, b.Tenant, b.Queue) || of.shows(who, b) {
			all = append(all, b)
		}
	}
	key := func(b *store.Binding) string {
		return strings.Join([]string{b.Subject, b.Tenant, b.Queue, string(b.Role)}, "\x00")
	}
	slices.SortFunc(all, func(a, b *store.Binding) int { return strings.Compare(key(a), key(b)) })
	page, next, err := pageByKey(all, req.GetPageSize(), req.GetPageToken(), key, newStoredBinding)
	return &apipb.ListBindingsResponse{Bindings: page, Total: int32(len(all)), NextPageToken: next}, err
}

// DeleteBinding implements apipb.IdentityServiceServer.
func (d *identityService) DeleteBinding(ctx context.Context, req *apipb.DeleteBindingRequest) (*apipb.DeleteBindingResponse, error) {
	b := store.Binding{
		Binding: ares.Binding{Role: ares.Role(req.GetRole()), Tenant: req.GetTenantId(), Queue: req.GetQueue()}, Subject: req.GetSubject(),
	}
	var p ares.Problems
	roles.Check(&p, "", b.Binding)
	if err := p.Err(); err != nil {
		return nil, err
	}
	all, err := d.Cfg.Store.Bindings(ctx)
	if err != nil {
		return nil, err
	}
	if err = subjectTenantsOf(all).mayDelete(pipeline.IdentityOf(ctx), &b, all); err != nil {
		return nil, err
	}
	// Earlier versions accepted more subjects, and their bindings can be deleted too.
	if !slices.ContainsFunc(all, func(o store.Binding) bool { return o.Subject == b.Subject && o.Binding == b.Binding }) {
		if auth.CheckSubject(&p, "subject", b.Subject); p.Err() != nil {
			return nil, p.Err()
		}
	}
	was, err := d.Cfg.Store.DeleteBinding(ctx, b)
	if err != nil {
		return nil, err
	}
	pipeline.AuditChange(ctx, b.Tenant, was, nil)
	d.Cfg.Auth.Changed()
	return &apipb.DeleteBindingResponse{Message: b.Subject + " is no longer " + roles.String(b.Binding)}, nil
}

func bindingOf(m *apipb.Binding) ares.Binding {
	return ares.Binding{Role: ares.Role(m.GetRole()), Tenant: m.GetTenantId(), Queue: m.GetQueue()}
}

func newBinding(subject string, b ares.Binding) *apipb.Binding {
	return &apipb.Binding{Subject: subject, Role: string(b.Role), TenantId: b.Tenant, Queue: b.Queue}
}

func newStoredBinding(b *store.Binding) *apipb.Binding {
	m := newBinding(b.Subject, b.Binding)
	m.CreatedBy, m.CreatedAt, m.Pending, m.AcceptedBy = b.CreatedBy, apipb.Timestamp(b.CreatedAt), b.Pending, b.AcceptedBy
	return m
}

// newToken converts a token to its public form, without its hash.
func newToken(t *store.Token) *apipb.Token {
	name := t.Name
	if tenant := t.Tenant(); tenant != "" {
		name = strings.TrimPrefix(name, tenant+"/")
	}
	m := &apipb.Token{
		Name: name, TenantId: t.Tenant(), Subject: auth.Subject(t.Name), CreatedBy: t.CreatedBy,
		CreatedAt: apipb.Timestamp(t.CreatedAt), ExpiresAt: apipb.Timestamp(t.Until),
	}
	for _, b := range auth.BindingsOf(t) {
		m.Bindings = append(m.Bindings, newBinding("", b))
	}
	return m
}
