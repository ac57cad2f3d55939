package logs

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

const (
	// recount is how often the logs of a tenant are counted anew. In between, a server adds what it stores itself.
	recount = 10 * time.Minute
	// oldRest is the age from which a file that is no pack is deleted. An upload that was interrupted leaves such files.
	oldRest = 24 * time.Hour
	// listTries is how often a list is tried. With the file driver it fails if a file vanishes while it is read.
	listTries = 10
)

type usage struct {
	bytes   int64
	counted time.Time
}

// A stored pack is a pack in a list.
type storedPack struct {
	packName
	key     string
	size    int64
	changed time.Time
	isPack  bool
}

// The method `list` returns the packs whose keys have a prefix, and what else is there.
func (s *Store) list(ctx context.Context, prefix string) (out []storedPack, err error) {
	for range listTries {
		if out, err = s.listOnce(ctx, prefix); err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

// The pages are large, because the file driver reads the whole directory for each page.
func (s *Store) listOnce(ctx context.Context, prefix string) (out []storedPack, err error) {
	const page = 1 << 20
	for token := blob.FirstPageToken; len(token) > 0; {
		list, next, err := s.bucket.ListPage(ctx, token, page, &blob.ListOptions{Prefix: prefix})
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, s.bucket.Problem("list logs", err)
		}
		for _, x := range list {
			p := storedPack{key: x.Key, size: x.Size, changed: x.ModTime}
			p.packName, p.isPack = parseKey(x.Key)
			out = append(out, p)
		}
		token = next
	}
	return out, nil
}

// makeRoom counts a new pack of a tenant. If the tenant then has too many, makeRoom deletes the oldest ones.
func (s *Store) makeRoom(ctx context.Context, tenant string, size int64) error {
	limit := s.cfg.TenantBytes
	if limit == 0 {
		return nil
	}
	s.mu.Lock()
	u := s.used[tenant]
	fits := u != nil && s.cfg.Now().Sub(u.counted) <= recount && u.bytes+size <= limit
	if fits {
		u.bytes += size
	}
	s.mu.Unlock()
	if fits {
		return nil
	}
	all, err := s.list(ctx, tenant+"/")
	if err != nil {
		return err
	}
	left, err := s.trim(ctx, all, limit, size)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[tenant] = &usage{left + size, s.cfg.Now()}
	return err
}

// The method `trim` deletes the oldest packs of one tenant until a new one fits. It then makes some more room, so that not every later pack
// needs a list.
func (s *Store) trim(ctx context.Context, all []storedPack, limit, size int64) (left int64, err error) {
	for _, p := range all {
		left += p.size
	}
	if left+size <= limit {
		return left, nil
	}
	slices.SortFunc(all, func(a, b storedPack) int {
		return cmp.Or(a.uploaded.Compare(b.uploaded), cmp.Compare(a.key, b.key))
	})
	for _, p := range all {
		if left+size <= limit-limit/10 {
			break
		}
		if !p.isPack {
			continue
		}
		if err = s.delete(ctx, p.key); err != nil {
			return left, err
		}
		left -= p.size
	}
	return left, nil
}

func (s *Store) delete(ctx context.Context, key string) error {
	s.indexes.forget(key)
	if err := s.bucket.Delete(ctx, key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return s.bucket.Problem("delete logs", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Dropped++
	return nil
}

// Collected is what one call of Collect did.
type Collected struct {
	Deleted int
	Bytes   int64
	Kept    int
}

// Collect deletes the packs that are older than Keep, and the oldest packs of tenants that have too many.
func (s *Store) Collect(ctx context.Context) (done Collected, err error) {
	all, err := s.list(ctx, "")
	if err != nil {
		return done, err
	}
	now := s.cfg.Now()
	kept := map[string][]storedPack{}
	for _, p := range all {
		age, most := now.Sub(p.uploaded), s.cfg.Keep
		if !p.isPack {
			age, most = now.Sub(p.changed), oldRest
		}
		if age <= most {
			kept[p.tenant] = append(kept[p.tenant], p)
			continue
		}
		if err = s.delete(ctx, p.key); err != nil {
			return done, err
		}
		done.Deleted, done.Bytes = done.Deleted+1, done.Bytes+p.size
	}
	for _, packs := range kept { // in any order: tenants do not depend on each other
		done.Kept += len(packs)
		if s.cfg.TenantBytes == 0 {
			continue
		}
		if _, err = s.trim(ctx, packs, s.cfg.TenantBytes, 0); err != nil {
			return done, err
		}
	}
	return done, s.bucket.Prune("") // a node whose write fails because of it sends its logs again
}
