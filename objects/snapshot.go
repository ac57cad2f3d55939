package objects

import (
	"context"

	"gocloud.dev/gcerrors"
	"google.golang.org/protobuf/proto"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/objects/tree"
)

// maxMissing limits the digests in one answer of Commit. The client asks again after it has uploaded them.
const maxMissing = 20_000

// Commit makes a snapshot usable by jobs of a tenant. If chunks are missing, it returns their digests instead, and the client
// calls Commit again after it has uploaded them.
func (s *Store) Commit(ctx context.Context, tenant string, snapshot *apipb.Snapshot) (d tree.Digest, missing []tree.Digest, err error) {
	root, err := tree.EncodeSnapshot(snapshot)
	if err != nil {
		return d, nil, err
	}
	d = tree.Sum(root)
	missing, err = s.commit(ctx, tenant, d, root)
	return d, missing, err
}

func (s *Store) commit(ctx context.Context, tenant string, d tree.Digest, root []byte) (missing []tree.Digest, err error) {
	k, now := knownKey{tenant, snapshotKind, d}, s.generation()
	if at, err := s.find(ctx, k, now, 1); err != nil || at >= 0 {
		return nil, err
	}
	var snapshot apipb.Snapshot
	if err = proto.Unmarshal(root, &snapshot); err != nil {
		return nil, ares.Errorf(ares.Invalid, "the snapshot cannot be read: %s", err)
	}
	parts, err := tree.Parts(&snapshot)
	if err != nil {
		return nil, err
	}
	if missing, err = s.refresh(ctx, tenant, parts, now); err != nil || len(missing) > 0 {
		return missing, err
	}
	chunks, err := s.chunksOf(ctx, tenant, parts)
	if err != nil {
		return nil, err
	}
	if missing, err = s.refresh(ctx, tenant, chunks, now); err != nil || len(missing) > 0 {
		return missing, err
	}
	return nil, s.writeSnapshot(ctx, k, now, root)
}

// chunksOf checks the tree of a snapshot, and returns the digests of its files' chunks: each once, in the order of the tree.
func (s *Store) chunksOf(ctx context.Context, tenant string, parts []tree.Digest) ([]tree.Digest, error) {
	var check tree.Checker
	var out []tree.Digest
	seen := map[tree.Digest]bool{}
	for _, p := range parts {
		part, err := s.read(ctx, knownKey{tenant, chunkKind, p})
		if err != nil {
			return nil, err
		}
		entries, err := check.Add(part)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			for _, b := range e.GetChunks() {
				if d := tree.Digest(b); !seen[d] { // its length was checked
					seen[d] = true
					out = append(out, d)
				}
			}
		}
	}
	return out, nil
}

// The method `refresh` returns the chunks that are in no generation. It copies those that are only in old ones.
func (s *Store) refresh(ctx context.Context, tenant string, chunks []tree.Digest, now int64) (missing []tree.Digest, err error) {
	var old []int64 // the generations before the previous one, read when they are needed
	for _, d := range chunks {
		k := knownKey{tenant, chunkKind, d}
		at, err := s.find(ctx, k, now, 1)
		if err != nil {
			return nil, err
		}
		if at >= 0 {
			continue
		}
		if old == nil {
			if old, err = s.generations(ctx); err != nil {
				return nil, err
			}
			old = append(old, -1) // so that the list is not read again if it is empty
		}
		copied, err := s.copyForward(ctx, k, old, now)
		if err != nil {
			return nil, err
		}
		if !copied {
			if missing = append(missing, d); len(missing) >= maxMissing {
				break
			}
		}
	}
	return missing, nil
}

// copyForward copies an object into the current generation. It reports whether the object was found.
func (s *Store) copyForward(ctx context.Context, k knownKey, old []int64, now int64) (bool, error) {
	for i := len(old) - 1; i >= 0; i-- {
		if old[i] < 0 || old[i] >= now-1 {
			continue
		}
		err := s.bucket.Copy(ctx, key(now, k), key(old[i], k), nil)
		if gcerrors.Code(err) == gcerrors.NotFound {
			continue // it was not there, or Collect has just deleted it
		}
		if err != nil {
			return false, s.bucket.Problem("keep an object", err)
		}
		s.remember(k, now)
		return true, nil
	}
	return false, nil
}

// Pin makes sure that the snapshot of a job that is being submitted stays until the job is stored. Its error tells the user
// what to do if the snapshot is not complete.
func (s *Store) Pin(ctx context.Context, tenant string, d tree.Digest) error {
	k := knownKey{tenant, snapshotKind, d}
	if at, err := s.find(ctx, k, s.generation(), 1); err != nil || at >= 0 {
		return err
	}
	root, err := s.read(ctx, k)
	if err != nil {
		return err
	}
	missing, err := s.commit(ctx, tenant, d, root)
	if err == nil && len(missing) > 0 {
		return gone(knownKey{tenant, chunkKind, missing[0]})
	}
	return err
}

// Send calls `each` with the root of a snapshot, then with the parts of its tree, then with each chunk of its files once.
func (s *Store) Send(ctx context.Context, tenant string, d tree.Digest, root, chunk func([]byte) error) error {
	data, err := s.read(ctx, knownKey{tenant, snapshotKind, d})
	if err != nil {
		return err
	}
	if err = root(data); err != nil {
		return err
	}
	parts, chunks, err := s.contentOf(ctx, tenant, data)
	if err != nil {
		return err
	}
	for _, list := range [][]tree.Digest{parts, chunks} {
		for _, d := range list {
			if data, err = s.read(ctx, knownKey{tenant, chunkKind, d}); err != nil {
				return err
			}
			if err = chunk(data); err != nil {
				return err
			}
		}
	}
	return nil
}

// contentOf returns the digests of everything below the root of a snapshot.
func (s *Store) contentOf(ctx context.Context, tenant string, root []byte) (parts, chunks []tree.Digest, err error) {
	var snapshot apipb.Snapshot
	if err = proto.Unmarshal(root, &snapshot); err != nil {
		return nil, nil, ares.Errorf(ares.Internal, "a stored snapshot cannot be read: %s", err)
	}
	if parts, err = tree.Parts(&snapshot); err != nil {
		return nil, nil, err
	}
	chunks, err = s.chunksOf(ctx, tenant, parts)
	return parts, chunks, err
}
