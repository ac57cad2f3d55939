package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Backup writes a snapshot of the store to w, followed by the SHA-256 checksum that etcd computes.
// The snapshot holds everything that was acknowledged before the call. Backup therefore skips a
// member that cannot prove that it is up to date.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	if s.inside != nil {
		return s.inside.backup(ctx, w)
	}
	var errs []error
	for _, endpoint := range s.cfg.Endpoints {
		// Read the snapshot from the same member that was just checked. A client that is
		// connected to several members might switch to another member.
		c, err := s.connect([]string{endpoint})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		begun, err := s.backupFrom(ctx, c, w)
		_ = c.Close() // Close returns an error only because it closed the connection itself
		if err == nil || begun || ctx.Err() != nil {
			return err
		}
		errs = append(errs, fmt.Errorf("%s: %w", endpoint, err))
	}
	return storeError("back the store up", errors.Join(errs...))
}

// backupFrom copies one member's snapshot to w, and reports whether it has
// written anything to w.
func (s *Store) backupFrom(ctx context.Context, c *clientv3.Client, w io.Writer) (begun bool, err error) {
	reading, cancel := context.WithTimeout(ctx, s.timeout)
	_, err = c.Get(reading, planKey) // the read is linearizable, so the member has applied everything acknowledged before
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
	defer func() { _ = snap.Snapshot.Close() }() // everything needed was read
	if _, err = io.CopyBuffer(struct{ io.Writer }{w}, snap.Snapshot, make([]byte, 256<<10)); err != nil {
		return true, fmt.Errorf("back up the store: %w", err)
	}
	return true, nil
}

// This method writes the snapshot of the embedded etcd, with the checksum that
// an external member would send.
func (e *embedded) backup(ctx context.Context, w io.Writer) (err error) {
	snap := e.etcd.Server.Backend().Snapshot()
	defer func() { err = errors.Join(err, snap.Close()) }()
	sum := sha256.New()
	if _, err = snap.WriteTo(&contextWriter{ctx, io.MultiWriter(w, sum)}); err != nil {
		return fmt.Errorf("back up the store: %w", err)
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// contextWriter is a writer that fails once its context has ended.
type contextWriter struct {
	ctx context.Context
	w   io.Writer
}

func (b *contextWriter) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}
