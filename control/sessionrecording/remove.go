package sessionrecording

import (
	"context"
	"encoding/json"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/store"
)

const (
	// recount is how often the recordings of a tenant are counted anew. In between, a server adds what it stores itself, so the limit can
	// be exceeded for this time by what other servers store.
	recount = 10 * time.Minute
	// longest is longer than a session can last. A younger recording without an end may still be written, so it is never removed.
	longest = 13 * time.Hour
	// The leader removes old recordings so often.
	expireEvery = time.Hour
	firstExpire = 6 * time.Minute
)

// The type `usage` is how much the recordings of a tenant take.
type usage struct {
	bytes   int64
	counted time.Time
}

// The method `grow` adds to the usage of a tenant that was counted.
func (r *Recorder) grow(tenant string, bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.used[tenant]; u != nil {
		u.bytes += bytes
	}
}

// The method `makeRoom` removes the oldest recordings of a tenant that has reached its limit, until a tenth of it is free.
func (r *Recorder) makeRoom(ctx context.Context, tenant string) error {
	if r.TenantBytes == 0 {
		return nil
	}
	r.mu.Lock()
	u := r.used[tenant]
	isFresh := u != nil && r.Now().Sub(u.counted) < recount && u.bytes < r.TenantBytes
	r.mu.Unlock()
	if isFresh {
		return nil
	}
	list, err := r.Objects.Recordings(ctx, tenant)
	if err != nil {
		return err
	}
	var total int64
	for i := range list {
		total += list[i].Bytes
	}
	if total >= r.TenantBytes {
		total = r.removeOldest(ctx, list, total)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used == nil {
		r.used = map[string]*usage{}
	}
	r.used[tenant] = &usage{total, r.Now()}
	if total >= r.TenantBytes {
		return ares.Errorf(ares.LimitReached, "the recordings of tenant %s take %d MiB, and the limit is %d MiB (session_recording.tenant_mb)", tenant, total>>20, r.TenantBytes>>20)
	}
	return nil
}

// The method `removeOldest` removes recordings that are complete, and returns the size of the others.
func (r *Recorder) removeOldest(ctx context.Context, list []objects.StoredRecording, total int64) int64 {
	removed, target := 0, r.TenantBytes-r.TenantBytes/10
	for i := 0; i < len(list) && total > target; i++ {
		if r.mayGrow(ctx, list[i].RecordingRef) {
			continue
		}
		if err := r.Objects.DeleteRecording(ctx, list[i].RecordingRef); err != nil {
			r.Log.Warn("remove a recording of a session", "recording", list[i].ID, "error", err)
			continue
		}
		removed, total = removed+1, total-list[i].Bytes
	}
	r.Log.Warn("removed the oldest recordings of a tenant's sessions, because they had reached their limit", "tenant", list[0].Tenant, "removed", removed, "limit_mb", r.TenantBytes>>20)
	return total
}

// mayGrow reports whether the session of a recording may still last.
func (r *Recorder) mayGrow(ctx context.Context, ref objects.RecordingRef) bool {
	began, ok := beganAt(ref.ID)
	if !ok || r.Now().Sub(began) > longest {
		return false
	}
	info, err := r.info(ctx, ref)
	return err != nil || info.Ended.IsZero()
}

// The method `info` reads the description of a recording.
func (r *Recorder) info(ctx context.Context, ref objects.RecordingRef) (*Info, error) {
	data, err := r.Objects.RecordingPart(ctx, ref, infoPart)
	if err != nil {
		return nil, err
	}
	info := &Info{}
	if err = json.Unmarshal(data, info); err != nil || info.ID != ref.ID || info.Tenant != ref.Tenant {
		return nil, ares.Errorf(ares.Unavailable, "the description of the recording %s is damaged", ref.ID)
	}
	return info, nil
}

// Lead removes old recordings until ctx ends. It runs on the leader, also while nothing is recorded.
func (r *Recorder) Lead(ctx context.Context, _ *store.Leadership) error {
	for wait := firstExpire; pause.For(ctx, wait); wait = expireEvery {
		if r.ready() != nil {
			continue
		}
		removed, err := r.Expire(ctx)
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("remove old recordings of sessions", "error", err)
		}
		if removed > 0 {
			r.Log.Info("removed old recordings of sessions", "removed", removed)
		}
	}
	return ctx.Err()
}

// Expire removes the recordings of all tenants that are older than Keep.
func (r *Recorder) Expire(ctx context.Context) (removed int, err error) {
	tenants, err := r.Objects.RecordedTenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, tenant := range tenants {
		list, err := r.Objects.Recordings(ctx, tenant)
		if err != nil {
			return removed, err
		}
		for i := range list {
			began, ok := beganAt(list[i].ID)
			if !ok || r.Now().Sub(began) <= max(r.Keep, longest) {
				continue
			}
			if err = r.Objects.DeleteRecording(ctx, list[i].RecordingRef); err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}
