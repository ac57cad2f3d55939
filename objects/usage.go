package objects

import (
	"context"
	"errors"
	"io"
	"time"

	"gocloud.dev/blob"

	ares "github.com/ares-scheduler/ares"
)

// recount is how often the usage of a tenant is counted anew. In between, a server adds what it stores itself. The uploads of
// other servers and the deletions of Collect are thus seen late, so a tenant can exceed its limit for this time.
const recount = 10 * time.Minute

type usage struct {
	bytes   int64
	counted time.Time
}

// The method `reserve` adds to the usage of a tenant, or returns an error if the tenant has reached its limit. Before it returns the
// error, it counts anew.
func (s *Store) reserve(ctx context.Context, tenant string, size int64) error {
	if s.cfg.TenantBytes == 0 {
		return nil
	}
	if s.tryReserve(tenant, size) {
		return nil
	}
	bytes, err := s.count(ctx, tenant)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.used[tenant] = &usage{bytes, s.cfg.Now()}
	s.mu.Unlock()
	if s.tryReserve(tenant, size) {
		return nil
	}
	return ares.Errorf(ares.QuotaExceeded, "tenant %s has stored %d MiB of code, and its limit is %d MiB (objects.tenant_mb): leave data out with .aresignore; code that no job uses is deleted after 24 hours",
		tenant, bytes>>20, s.cfg.TenantBytes>>20)
}

func (s *Store) tryReserve(tenant string, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.used[tenant]
	if u == nil || s.cfg.Now().Sub(u.counted) > recount || u.bytes+size > s.cfg.TenantBytes {
		return false
	}
	u.bytes += size
	return true
}

// The method `count` adds up the objects of a tenant in all generations.
func (s *Store) count(ctx context.Context, tenant string) (total int64, err error) {
	all, err := s.generations(ctx)
	if err != nil {
		return 0, err
	}
	for _, g := range all {
		list, err := s.list(ctx, prefix(g)+tenant+"/")
		if err != nil {
			return 0, err
		}
		for _, x := range list {
			total += x.Size
		}
	}
	return total, nil
}

// The method `list` returns the objects whose keys have a prefix.
func (s *Store) list(ctx context.Context, prefix string) (out []*blob.ListObject, err error) {
	for range listTries {
		if out, err = s.listOnce(ctx, prefix); err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// The pages are large, because the file driver reads the whole directory for each page.
func (s *Store) listOnce(ctx context.Context, prefix string) (out []*blob.ListObject, err error) {
	const page = 1 << 20
	for token := blob.FirstPageToken; len(token) > 0; {
		list, next, err := s.bucket.ListPage(ctx, token, page, &blob.ListOptions{Prefix: prefix})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, s.bucket.Problem("list objects", err)
		}
		out, token = append(out, list...), next
	}
	return out, nil
}
