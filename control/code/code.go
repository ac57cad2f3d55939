// Package code connects jobs with the snapshots of their code: it checks the snapshot of a submitted job, sends it to the
// agents that run the job, and deletes the snapshots that no job needs.
package code

import (
	"context"
	"log/slog"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/control/cache"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/objects/tree"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

// Code manages the code of jobs.
type Code struct {
	Store *store.Store
	View  *cache.View
	Log   *slog.Logger
	// Objects keeps the snapshots. If Objects is nil, jobs cannot bring their code, and Disabled says what to set.
	Objects  *objects.Store
	Disabled string
}

// The method `ready` returns an error if this server keeps no snapshots.
func (c *Code) ready() error {
	if c == nil {
		return ares.Errorf(ares.FeatureDisabled, "this server does not keep the code of jobs")
	}
	if c.Objects == nil {
		return ares.Errorf(ares.FeatureDisabled, "%s", c.Disabled)
	}
	return nil
}

// Commit makes a snapshot usable by jobs of a tenant, or returns the digests of the chunks that are missing.
func (c *Code) Commit(ctx context.Context, tenant string, snapshot *apipb.Snapshot) (tree.Digest, []tree.Digest, error) {
	if err := c.ready(); err != nil {
		return tree.Digest{}, nil, err
	}
	return c.Objects.Commit(ctx, tenant, snapshot)
}

// Put stores chunks of a tenant.
func (c *Code) Put(ctx context.Context, tenant string, chunks [][]byte) error {
	if err := c.ready(); err != nil {
		return err
	}
	for _, chunk := range chunks {
		if err := c.Objects.Put(ctx, tenant, chunk); err != nil {
			return err
		}
	}
	return nil
}

// Check rejects a job whose code is not stored completely, and keeps the code until the job is stored.
func (c *Code) Check(ctx context.Context, tenant, digest string) error {
	if err := c.ready(); err != nil {
		return err
	}
	d, err := tree.ParseDigest(digest)
	if err != nil {
		return err
	}
	return c.Objects.Pin(ctx, tenant, d)
}

// Deliver sends the code of a job to a node that has claimed one of its seats under its current session. Any other caller
// gets the code Fenced.
func (c *Code) Deliver(ctx context.Context, ref store.SeatRef, session int64, root, chunk func([]byte) error) error {
	job, _, err := c.Store.ClaimedJob(ctx, ref, session)
	if err != nil {
		return err
	}
	if err = c.ready(); err != nil {
		return err
	}
	if job.CodeDigest == "" {
		return ares.Errorf(ares.Invalid, "job %s has no code of its own", job.ID)
	}
	d, err := tree.ParseDigest(job.CodeDigest)
	if err != nil {
		return err
	}
	return c.Objects.Send(ctx, job.Tenant, d, root, chunk)
}

// The leader deletes what no job needs so often.
const (
	collectEvery = time.Hour
	firstCollect = 5 * time.Minute
)

// Lead deletes unneeded snapshots until ctx ends. It runs on the leader.
func (c *Code) Lead(ctx context.Context, _ *store.Leadership) error {
	for wait := firstCollect; pause.For(ctx, wait); wait = collectEvery {
		if c.ready() != nil {
			continue
		}
		done, err := c.Collect(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.Log.Warn("delete the code that no job needs", "error", err)
		case done.Deleted > 0:
			c.Log.Info("deleted the code that no job needs", "objects", done.Deleted, "bytes", done.Bytes, "kept", done.Kept)
		}
	}
	return ctx.Err()
}

// Collect deletes the snapshots and chunks that no job has needed for 24 hours.
func (c *Code) Collect(ctx context.Context) (objects.Collected, error) {
	return c.Objects.Collect(ctx, c.refs)
}

// The method `refs` returns the snapshots of all jobs that are stored now. The view must therefore contain the store's current
// revision.
func (c *Code) refs(ctx context.Context) ([]objects.Ref, error) {
	now, err := c.Store.Revision(ctx)
	if err != nil {
		return nil, err
	}
	if err = c.View.WaitFor(ctx, now); err != nil {
		return nil, err
	}
	var out []objects.Ref
	for _, r := range c.View.CodeRefs() {
		d, err := tree.ParseDigest(r.Digest)
		if err != nil {
			continue // an invalid digest was never accepted, so it names nothing
		}
		out = append(out, objects.Ref{Tenant: r.Tenant, Digest: d})
	}
	return out, nil
}
