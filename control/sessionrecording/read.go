package sessionrecording

import (
	"context"
	"slices"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects"
)

// Query selects recordings.
type Query struct {
	Tenant string // "" for all tenants
	Job    string // the ID or the name of the job
	User   string
	Since  time.Time
	// Before is an ID. Only older recordings are listed.
	Before string
	Limit  int
	// Unnamed says that a search for a user must not find those from outside the tenant.
	Unnamed bool
}

// maxScanned is the maximum number of descriptions that one call reads.
const maxScanned = 2000

// List returns recordings, the newest first. If there may be more, it also returns the ID after which they continue.
func (r *Recorder) List(ctx context.Context, q Query) (out []Info, next string, err error) {
	if err = r.ready(); err != nil {
		return nil, "", err
	}
	refs, err := r.refs(ctx, q)
	if err != nil {
		return nil, "", err
	}
	for i, ref := range refs {
		if len(out) == q.Limit || i == maxScanned {
			return out, refs[i-1].ID, nil
		}
		info, err := r.info(ctx, ref.RecordingRef)
		switch {
		case ares.CodeOf(err) == ares.NotFound: // it was just removed
			continue
		case ares.CodeOf(err) == ares.Unavailable && ctx.Err() == nil: // it is damaged, which should be seen
			began, _ := beganAt(ref.ID)
			info = &Info{ID: ref.ID, Tenant: ref.Tenant, Began: began, Result: "the description is damaged"}
		case err != nil:
			return nil, "", err
		}
		isOther := q.User != "" && (q.User != info.User || info.Outside && q.Unnamed)
		if q.Job != "" && q.Job != info.Job && q.Job != info.JobName || isOther {
			continue
		}
		if info.Bytes == 0 { // it has not ended
			info.Bytes = ref.Bytes
		}
		out = append(out, *info)
	}
	return out, "", nil
}

// The method `refs` returns the recordings that a query may select, the newest first.
func (r *Recorder) refs(ctx context.Context, q Query) (out []objects.StoredRecording, err error) {
	if q.Before != "" {
		if err = checkID(q.Before); err != nil {
			return nil, err
		}
	}
	tenants := []string{q.Tenant}
	if q.Tenant == "" {
		if tenants, err = r.Objects.RecordedTenants(ctx); err != nil {
			return nil, err
		}
	}
	for _, tenant := range tenants {
		if !ares.ValidName(tenant) {
			continue
		}
		list, err := r.Objects.Recordings(ctx, tenant)
		if err != nil {
			return nil, err
		}
		for _, x := range list {
			began, ok := beganAt(x.ID)
			if ok && (q.Before == "" || x.ID < q.Before) && !began.Before(q.Since.Truncate(time.Second)) {
				out = append(out, x)
			}
		}
	}
	slices.SortFunc(out, func(a, b objects.StoredRecording) int { return strings.Compare(b.ID, a.ID) })
	return out, nil
}

// Find returns the description of a recording. The tenant "" stands for all tenants.
func (r *Recorder) Find(ctx context.Context, tenant, id string) (*Info, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	if err := checkID(id); err != nil {
		return nil, err
	}
	tenants := []string{tenant}
	if tenant == "" {
		var err error
		if tenants, err = r.Objects.RecordedTenants(ctx); err != nil {
			return nil, err
		}
	}
	for _, tenant := range tenants {
		if !ares.ValidName(tenant) {
			continue
		}
		info, err := r.info(ctx, objects.RecordingRef{Tenant: tenant, ID: id})
		if ares.CodeOf(err) != ares.NotFound {
			return info, err
		}
	}
	return nil, ares.Errorf(ares.NotFound, "there is no recording %s, or it was removed because of its age or the limit of its tenant: see `ares session list`", id)
}

// Read passes the parts of a recording to a function. Together they are an asciicast.
func (r *Recorder) Read(ctx context.Context, info *Info, send func([]byte) error) error {
	if err := r.ready(); err != nil {
		return err
	}
	ref := objects.RecordingRef{Tenant: info.Tenant, ID: info.ID}
	for number := 1; ; number++ {
		data, err := r.Objects.RecordingPart(ctx, ref, partName(number))
		if ares.CodeOf(err) == ares.NotFound && number > 1 {
			return nil
		}
		if err == nil {
			err = send(data)
		}
		if err != nil {
			return err
		}
	}
}
