package objects

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	ares "github.com/ares-scheduler/ares"
)

// recordingsPrefix begins the keys of recorded sessions. It is no generation, so Collect leaves them alone: package
// sessionrecording deletes them by their age.
const recordingsPrefix = "sessions/"

// RecordingRef names the recording of a session. Both parts become parts of file names, so callers check them first.
type RecordingRef struct{ Tenant, ID string }

func (r RecordingRef) prefix() string { return recordingsPrefix + r.Tenant + "/" + r.ID + "/" }

// StoredRecording is the size of a recording.
type StoredRecording struct {
	RecordingRef
	Parts []string // in order of their names
	Bytes int64
}

// PutRecordingPart stores a part of a recording, or replaces it. Readers see the old or the new one, and never a mixture.
func (s *Store) PutRecordingPart(ctx context.Context, r RecordingRef, part string, data []byte) error {
	return s.bucket.Problem("store a recording", s.bucket.Write(ctx, r.prefix()+part, data))
}

// RecordingPart returns a part of a recording.
func (s *Store) RecordingPart(ctx context.Context, r RecordingRef, part string) ([]byte, error) {
	data, err := s.bucket.ReadAll(ctx, r.prefix()+part)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ares.Errorf(ares.NotFound, "the recording %s is not stored, or is stored no longer: see `ares session list`", r.ID)
	}
	return data, s.bucket.Problem("read a recording", err)
}

// RecordedTenants returns the tenants that have recordings, sorted.
func (s *Store) RecordedTenants(ctx context.Context) (out []string, err error) {
	list, err := s.listDirs(ctx, recordingsPrefix)
	for _, key := range list {
		out = append(out, strings.TrimSuffix(strings.TrimPrefix(key, recordingsPrefix), "/"))
	}
	return out, err
}

// listDirs returns the next words of all keys that begin with a prefix.
func (s *Store) listDirs(ctx context.Context, prefix string) (out []string, err error) {
	for range listTries {
		out = nil
		token := blob.FirstPageToken
		for err = nil; err == nil && len(token) > 0; {
			var page []*blob.ListObject
			page, token, err = s.bucket.ListPage(ctx, token, 1<<20, &blob.ListOptions{Prefix: prefix, Delimiter: "/"})
			for _, x := range page {
				if x.IsDir {
					out = append(out, x.Key)
				}
			}
		}
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	slices.Sort(out)
	return slices.Compact(out), s.bucket.Problem("list recordings", err)
}

// Recordings returns the recordings of a tenant, the oldest first.
func (s *Store) Recordings(ctx context.Context, tenant string) (out []StoredRecording, err error) {
	top := recordingsPrefix + tenant + "/"
	list, err := s.list(ctx, top)
	if err != nil {
		return nil, err
	}
	for _, x := range list { // in order of the keys
		id, part, ok := strings.Cut(strings.TrimPrefix(x.Key, top), "/")
		if !ok {
			continue
		}
		if n := len(out); n == 0 || out[n-1].ID != id {
			out = append(out, StoredRecording{RecordingRef: RecordingRef{tenant, id}})
		}
		last := &out[len(out)-1]
		last.Parts, last.Bytes = append(last.Parts, part), last.Bytes+x.Size
	}
	return out, nil
}

// DeleteRecording deletes a recording. It is no error if it is gone.
func (s *Store) DeleteRecording(ctx context.Context, r RecordingRef) error {
	list, err := s.list(ctx, r.prefix())
	if err != nil {
		return err
	}
	var errs []error
	for _, x := range list {
		if err = s.bucket.Delete(ctx, x.Key); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			errs = append(errs, s.bucket.Problem("delete a recording", err))
		}
	}
	_ = s.bucket.Prune(recordingsPrefix + r.Tenant) // what stays is removed with the next one
	return errors.Join(errs...)
}
