package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/objects/tree"
)

// generationTime is the length of a generation. See the package comment.
const generationTime = 8 * time.Hour

// The kinds of objects. They are part of the keys.
const (
	chunkKind    = "chunk"
	snapshotKind = "snapshot"
)

// Config says where a Store keeps objects, and how many.
type Config struct {
	// Place is the directory or the bucket of the objects. All servers of a cluster share it.
	Place bucket.Place
	// TenantBytes limits the objects of one tenant. 0 means no limit.
	TenantBytes int64
	// Now is the clock. The default is time.Now.
	Now func() time.Time
}

// Store stores chunks and snapshots. It is safe for concurrent use.
type Store struct {
	cfg    Config
	bucket *bucket.Bucket
	flush  func() error // writes what is stored to the disk; tests replace it

	mu    sync.Mutex
	known map[knownKey]int64 // the generation of objects that were written or found lately
	used  map[string]*usage  // by tenant
}

type knownKey struct {
	tenant, kind string
	digest       tree.Digest
}

// maxKnown limits the memory for known objects to about 20 MB. When it is reached, all are forgotten and looked up again.
const maxKnown = 200_000

// Open opens the store.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	b, err := bucket.Open(ctx, cfg.Place)
	if err != nil {
		return nil, err
	}
	return &Store{cfg: cfg, bucket: b, flush: b.Flush, known: map[knownKey]int64{}, used: map[string]*usage{}}, nil
}

// Close closes the store.
func (s *Store) Close() error { return s.bucket.Close() }

// Refuse closes the store, because its place must not be used. All calls from then on fail with the given error.
func (s *Store) Refuse(why *ares.Error) error { return s.bucket.Refuse(why) }

// Place returns where the objects are.
func (s *Store) Place() bucket.Place { return s.bucket.Place() }

// Identity returns the ID of the place. The first server that asks for it draws it.
func (s *Store) Identity(ctx context.Context) (string, error) { return s.bucket.Identity(ctx) }

func (s *Store) generation() int64 { return s.cfg.Now().Unix() / int64(generationTime/time.Second) }

// key returns the key of an object. The number of a generation has a fixed length, so that lists are in order of time.
func key(generation int64, k knownKey) string {
	return prefix(generation) + k.tenant + "/" + k.kind + "/" + k.digest.String()
}

func prefix(generation int64) string { return fmt.Sprintf("%010d/", generation) }

func parseGeneration(dir string) (int64, bool) {
	n, err := strconv.ParseInt(dir, 10, 64)
	return n, err == nil && len(dir) == 10
}

// Put stores a chunk for a tenant. If the chunk is there and young enough, Put does nothing.
func (s *Store) Put(ctx context.Context, tenant string, chunk []byte) error {
	if len(chunk) == 0 || len(chunk) > tree.ChunkSize {
		return ares.Errorf(ares.TooLarge, "a chunk must have between 1 and %d bytes, got %d", tree.ChunkSize, len(chunk))
	}
	k := knownKey{tenant, chunkKind, tree.Sum(chunk)}
	now := s.generation()
	if at, err := s.find(ctx, k, now, 1); err != nil || at >= 0 {
		return err
	}
	if err := s.reserve(ctx, tenant, int64(len(chunk))); err != nil {
		return err
	}
	return s.write(ctx, k, now, chunk)
}

func (s *Store) write(ctx context.Context, k knownKey, generation int64, data []byte) error {
	if err := s.bucket.Write(ctx, key(generation, k), data); err != nil {
		return s.bucket.Problem("store an object", err)
	}
	s.remember(k, generation)
	return nil
}

// writeSnapshot stores the root of a snapshot whose chunks are stored. The chunks are on the disk before the snapshot, and the
// snapshot before the caller tells anybody: after a power failure there is no snapshot without its chunks, and no job without
// its snapshot.
func (s *Store) writeSnapshot(ctx context.Context, k knownKey, generation int64, root []byte) error {
	if err := s.flush(); err != nil {
		return s.bucket.Problem("write objects to the disk", err)
	}
	if err := s.write(ctx, k, generation, root); err != nil {
		return err
	}
	if err := s.flush(); err != nil {
		s.forget(k)
		_ = s.bucket.Delete(ctx, key(generation, k)) // the next upload stores it again
		return s.bucket.Problem("write a snapshot to the disk", err)
	}
	return nil
}

func (s *Store) remember(k knownKey, generation int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[k] = generation
}

func (s *Store) forget(k knownKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, k)
}

// The method `find` returns the newest generation that has an object, or -1. It looks at the generation `now` and at so many
// older ones.
func (s *Store) find(ctx context.Context, k knownKey, now, older int64) (int64, error) {
	s.mu.Lock()
	at, ok := s.known[k]
	s.mu.Unlock()
	if ok && at >= now-older {
		return at, nil
	}
	for g := now; g >= now-older; g-- {
		found, err := s.bucket.Exists(ctx, key(g, k))
		if err != nil {
			return -1, s.bucket.Problem("look for an object", err)
		}
		if found {
			s.remember(k, g)
			return g, nil
		}
	}
	return -1, nil
}

// The method `locate` returns the newest of all generations that has an object, or -1.
func (s *Store) locate(ctx context.Context, k knownKey) (int64, error) {
	now := s.generation()
	at, err := s.find(ctx, k, now, 1)
	if err != nil || at >= 0 {
		return at, err
	}
	all, err := s.generations(ctx)
	if err != nil {
		return -1, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		found, err := s.bucket.Exists(ctx, key(all[i], k))
		if err != nil || found {
			return all[i], s.bucket.Problem("look for an object", err)
		}
	}
	return -1, nil
}

// listTries is how often a list is tried. With the file driver it fails if a file vanishes while it is read: a temporary file, or one that
// another server deletes.
const listTries = 10

// generations returns the generations that have objects, in order.
func (s *Store) generations(ctx context.Context) (out []int64, err error) {
	for range listTries {
		if out, err = s.generationsOnce(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	return out, err
}

func (s *Store) generationsOnce(ctx context.Context) ([]int64, error) {
	var out []int64
	list := s.bucket.List(&blob.ListOptions{Delimiter: "/"})
	for {
		x, err := list.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, s.bucket.Problem("list objects", err)
		}
		if g, ok := parseGeneration(trimSlash(x.Key)); ok && x.IsDir {
			out = append(out, g)
		}
	}
}

func trimSlash(key string) string {
	if n := len(key); n > 0 && key[n-1] == '/' {
		return key[:n-1]
	}
	return key
}

// The method `read` reads an object of a tenant and checks its digest. An object that was damaged on the disk is deleted, so
// that the next upload stores it again.
func (s *Store) read(ctx context.Context, k knownKey) ([]byte, error) {
	at, err := s.locate(ctx, k)
	if err != nil {
		return nil, err
	}
	if at < 0 {
		return nil, gone(k)
	}
	data, err := s.bucket.ReadAll(ctx, key(at, k))
	if gcerrors.Code(err) == gcerrors.NotFound {
		s.forget(k)
		return nil, gone(k)
	}
	if err != nil {
		return nil, s.bucket.Problem("read an object", err)
	}
	if tree.Sum(data) != k.digest {
		s.forget(k)
		_ = s.bucket.Delete(ctx, key(at, k)) // if this fails, the next read tries it again
		return nil, ares.Errorf(ares.NotFound, "the %s %s of the job's code was damaged where the server stores it: submit the job again with --sync", k.kind, k.digest)
	}
	return data, nil
}

func gone(k knownKey) error {
	return ares.Errorf(ares.NotFound, "the %s %s of the job's code is not stored, or is stored no longer: submit the job again with --sync", k.kind, k.digest)
}
