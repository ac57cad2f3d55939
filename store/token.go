package store

import (
	"context"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/store/storepb"
)

// Token holds the hash of a bearer token and the token's permissions.
type Token struct {
	// Name is the token's name, or TENANT/NAME for a token of a tenant.
	Name string
	Hash []byte
	// Role is admin or node for a token that a server created for itself. Tokens without a role get
	// their permissions from role bindings.
	Role      string
	Bindings  []ares.Binding
	Until     time.Time // zero for no expiry
	CreatedBy string
	CreatedAt time.Time
}

// Tenant returns the tenant that a token belongs to, or "" for a platform
// token.
func (t *Token) Tenant() string {
	tenant, _, ok := strings.Cut(t.Name, "/")
	if !ok {
		return ""
	}
	return tenant
}

// PutToken stores a token under its name, and replaces an earlier token with that
// name.
func (s *Store) PutToken(ctx context.Context, t Token) error {
	value, err := marshal(tokenRecord(&t))
	if err != nil {
		return err
	}
	_, err = s.txn(ctx, "register token", nil, []clientv3.Op{clientv3.OpPut(tokensKey+t.Name, value)}, nil)
	return err
}

// CreateToken stores a token under a name that is not in use. The token's tenant, and the tenants
// and queues that the token is bound to, must exist.
func (s *Store) CreateToken(ctx context.Context, t Token) error {
	value, err := marshal(tokenRecord(&t))
	if err != nil {
		return err
	}
	all := scopes{}
	all.add(t.Tenant(), "")
	for _, b := range t.Bindings {
		all.add(b.Tenant, b.Queue)
	}
	resp, err := s.txn(ctx, "create token",
		append(all.there(), clientv3.Compare(clientv3.CreateRevision(tokensKey+t.Name), "=", 0)),
		[]clientv3.Op{clientv3.OpPut(tokensKey+t.Name, value)},
		append(all.look(), clientv3.OpGet(tokensKey+t.Name)))
	if err != nil || resp.Succeeded {
		return err
	}
	if err = all.missing(resp); err != nil {
		return err
	}
	if kvs := resp.Responses[len(all)].GetResponseRange().Kvs; len(kvs) > 0 && string(kvs[0].Value) == value {
		return nil // an earlier try succeeded
	}
	return ares.Errorf(ares.Conflict, "token %s already exists: revoke it first, or choose another name", t.Name).At("name")
}

// RevokeToken deletes a token and its bindings. A later token with the same name therefore does not
// inherit the bindings. RevokeToken returns the deleted token.
func (s *Store) RevokeToken(ctx context.Context, name, subject string) (Token, error) {
	all, err := s.Bindings(ctx)
	if err != nil {
		return Token{}, err
	}
	var ops []clientv3.Op
	for i := range all {
		if all[i].Subject == subject {
			ops = append(ops, clientv3.OpDelete(bindingKey(&all[i])))
		}
	}
	const most = 100 // a transaction holds 128 operations
	for len(ops) > most {
		if _, err = s.txn(ctx, "unbind token", nil, ops[len(ops)-most:], nil); err != nil {
			return Token{}, err
		}
		ops = ops[:len(ops)-most]
	}
	was, err := s.deleteRecord(ctx, "revoke token", tokensKey+name, ops...)
	switch {
	case err != nil:
		return Token{}, err
	case was == nil:
		return Token{}, NoToken(name)
	}
	return tokenOf(name, was.GetToken()), nil
}

// NoToken is the error for a token that does not exist or that the caller may not see.
func NoToken(name string) error {
	return ares.Errorf(ares.NotFound, "there is no token %s: list the tokens with `ares token list`", name).At("name")
}

// Tokens reads all stored tokens, sorted by name.
func (s *Store) Tokens(ctx context.Context) ([]Token, error) {
	list, _, err := s.records(ctx, tokensKey)
	out := make([]Token, 0, len(list))
	for _, r := range list {
		out = append(out, tokenOf(r.name, r.GetToken()))
	}
	return out, err
}

func tokenRecord(t *Token) *storepb.Record {
	m := &storepb.Token{Hash: t.Hash, Role: t.Role, CreatedAt: micros(t.CreatedAt), Until: micros(t.Until), CreatedBy: t.CreatedBy}
	for _, b := range t.Bindings {
		m.Grants = append(m.Grants, &storepb.Grant{Role: string(b.Role), Tenant: b.Tenant, Queue: b.Queue})
	}
	return &storepb.Record{Body: &storepb.Record_Token{Token: m}}
}

func tokenOf(name string, m *storepb.Token) Token {
	t := Token{
		Name: name, Hash: slices.Clone(m.GetHash()), Role: m.GetRole(), CreatedAt: fromMicros(m.GetCreatedAt()),
		Until: fromMicros(m.GetUntil()), CreatedBy: m.GetCreatedBy(),
	}
	for _, g := range m.GetGrants() {
		t.Bindings = append(t.Bindings, ares.Binding{Role: ares.Role(g.GetRole()), Tenant: g.GetTenant(), Queue: g.GetQueue()})
	}
	return t
}
