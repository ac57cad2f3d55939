package objects

import (
	"context"
	"errors"
	"slices"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/tree"
)

// Ref is a snapshot that a job refers to.
type Ref struct {
	Tenant string
	Digest tree.Digest
}

// Collected is what one call of Collect did.
type Collected struct {
	Deleted int
	Bytes   int64
	Kept    int // old objects that jobs refer to
}

// firstOld is the age in generations from which objects may be deleted. See the package comment.
const firstOld = 4

// Collect deletes the old objects that no job needs. The function `refs` returns the snapshots of all jobs, as the store has
// them at some time after the call. If a snapshot of a job cannot be read, Collect deletes nothing of its tenant.
func (s *Store) Collect(ctx context.Context, refs func(context.Context) ([]Ref, error)) (done Collected, err error) {
	all, err := s.generations(ctx)
	if err != nil {
		return done, err
	}
	last := s.generation() - firstOld
	old := slices.DeleteFunc(all, func(g int64) bool { return g > last })
	if len(old) == 0 {
		return done, nil
	}
	var candidates []*blob.ListObject
	for _, g := range old {
		list, err := s.list(ctx, prefix(g))
		if err != nil {
			return done, err
		}
		candidates = append(candidates, list...)
	}
	// gofail: var objectsBeforeRefs struct{}
	keep, err := s.needed(ctx, old, refs)
	if err != nil {
		return done, err
	}
	for _, x := range candidates {
		if keep.has(x.Key) {
			done.Kept++
			continue
		}
		if err = s.bucket.Delete(ctx, x.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return done, s.bucket.Problem("delete an object", err)
		}
		done.Deleted, done.Bytes = done.Deleted+1, done.Bytes+x.Size
	}
	return done, s.prune(old)
}

// kept are the keys that must stay, and the tenants of which nothing may be deleted.
type kept struct {
	keys    map[string]bool
	tenants map[string]bool
}

func (k *kept) has(key string) bool { return k.keys[key] || k.tenants[tenantOf(key)] }

// tenantOf returns the second word of a key.
func tenantOf(key string) string {
	_, rest, _ := cut(key)
	tenant, _, _ := cut(rest)
	return tenant
}

func cut(key string) (before, after string, found bool) {
	for i := range len(key) {
		if key[i] == '/' {
			return key[:i], key[i+1:], true
		}
	}
	return key, "", false
}

// The method `needed` returns the old keys that jobs refer to.
func (s *Store) needed(ctx context.Context, old []int64, refs func(context.Context) ([]Ref, error)) (*kept, error) {
	list, err := refs(ctx)
	if err != nil {
		return nil, err
	}
	out := &kept{map[string]bool{}, map[string]bool{}}
	seen := map[Ref]bool{}
	for _, r := range list {
		if seen[r] {
			continue
		}
		seen[r] = true
		root := knownKey{r.Tenant, snapshotKind, r.Digest}
		out.add(old, root)
		data, err := s.read(ctx, root)
		var parts, chunks []tree.Digest
		if err == nil {
			parts, chunks, err = s.contentOf(ctx, r.Tenant, data)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case ares.CodeOf(err) == ares.NotFound:
			// The job cannot run any more, and other jobs of the tenant have their own references.
		case err != nil:
			out.tenants[r.Tenant] = true
		}
		for _, d := range slices.Concat(parts, chunks) {
			out.add(old, knownKey{r.Tenant, chunkKind, d})
		}
	}
	return out, nil
}

func (k *kept) add(generations []int64, object knownKey) {
	for _, g := range generations {
		k.keys[key(g, object)] = true
	}
}

// The method `prune` removes what deleting leaves behind.
func (s *Store) prune(old []int64) error {
	var errs []error
	for _, g := range old {
		errs = append(errs, s.bucket.Prune(prefix(g)))
	}
	return errors.Join(errs...)
}
