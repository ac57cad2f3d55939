package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Backup writes a snapshot of the store to w, with the SHA-256 that etcd adds
// at its end. It holds everything that was acknowledged before the call: a
// member that cannot prove that it is up to date is passed over.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if s.inside != nil {
		return s.inside.backup(ctx, w)
	}
	var errs []error
	for _, endpoint := range s.cfg.Endpoints {
		// A snapshot is one member's own, so the member that is asked must be the
		// one that is read from: a client of all of them might change over.
		c, err := s.connect([]string{endpoint})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		begun, err := s.backupFrom(ctx, c, w)
		_ = c.Close() // it reports its own closing
		if err == nil || begun || ctx.Err() != nil {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
	}
	return storeError("back the store up", errors.Join(errs...))
}

// backupFrom reads one member's snapshot, and says whether it began to write.
func (s *Store) backupFrom(ctx context.Context, c *clientv3.Client, w io.Writer) (begun bool, err error) {
	reading, cancel := context.WithTimeout(ctx, s.timeout)
	_, err = c.Get(reading, planKey) // linearizable: it has applied whatever was acknowledged
	cancel()
	if err != nil {
		return false, storeError("read "+planKey, err)
	}
	ctx, cancel = context.WithCancel(ctx)
	defer cancel()
	snap, err := c.SnapshotWithVersion(ctx)
	if err != nil {
		return false, storeError("back the store up", err)
	}
	defer func() { _ = snap.Snapshot.Close() }() // what matters was read
	if _, err = io.CopyBuffer(struct{ io.Writer }{w}, snap.Snapshot, make([]byte, 256<<10)); err != nil {
		return true, fmt.Errorf("back the store up: %w", err)
	}
	return true, nil
}

// backup writes what the only member has, and the sum that an external one
// would send.
func (e *embedded) backup(ctx context.Context, w io.Writer) (err error) {
	snap := e.etcd.Server.Backend().Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	sum := sha256.New()
	if _, err = snap.WriteTo(&breakable{ctx, io.MultiWriter(w, sum)}); err != nil {
		return fmt.Errorf("back the store up: %w", err)
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// breakable is a writer that fails once its context has ended.
type breakable struct {
	ctx context.Context
	w   io.Writer
}

func (b *breakable) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}
