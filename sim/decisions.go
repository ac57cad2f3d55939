package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/control/recording"
)

// RecordingObject is the prefix of the objects of audit entries about recordings.
const RecordingObject = recording.ObjectPrefix

// DecisionsReport is the result of VerifyDecisions.
type DecisionsReport struct {
	// Files is the number of recordings that were compared with the digests in the audit log.
	Files int `json:"files"`
	// Decisions is the number of decisions that were replayed. Equal is how many of them were the same again.
	Decisions int `json:"decisions"`
	Equal     int `json:"equal"`
	// Removed is the number of recordings that the server removed because of the limits on recordings. RemovedAt is when it removed the last one.
	Removed   int       `json:"removed"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
	// Gaps says when and why decisions were not recorded.
	Gaps []string `json:"gaps"`
	// Uncovered is the number of bytes at the ends of recordings for which the log has no digest yet.
	Uncovered int64 `json:"uncovered_bytes"`
	// Unknown lists recordings that the log does not mention, such as those of another server.
	Unknown []string `json:"not_in_log"`
	// OtherVersion lists unchanged recordings whose decisions cannot be repeated, because another version of Ares made them.
	OtherVersion []string `json:"other_version"`
	Faults       []string `json:"faults"`
}

// OK reports whether no fault was found.
func (r *DecisionsReport) OK() bool { return len(r.Faults) == 0 }

func (r *DecisionsReport) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// loggedRecording is what the audit log says about one recording.
type loggedRecording struct {
	digests []recording.FileDigest // in the order of the log, so with growing sizes
	removed bool
	at      time.Time // of the removal
}

// VerifyDecisions compares the recordings in a directory with the digests in the audit log, and replays their decisions. The
// function `entries` returns the log's entries about recordings, oldest first. It is called again if a recording is missing,
// because a running server may have removed that recording in the meantime. The argument `version` is the version of this
// program.
func VerifyDecisions(dir string, entries func() ([]audit.Entry, error), version string) (*DecisionsReport, error) {
	out := &DecisionsReport{Unknown: []string{}, OtherVersion: []string{}, Gaps: []string{}, Faults: []string{}}
	logged, err := out.readLogged(entries)
	if err != nil {
		return nil, err
	}
	present, err := recordingsIn(dir)
	if err != nil {
		return nil, err
	}
	if anyMissing(logged, present) {
		if logged, err = out.readLogged(entries); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(logged)) {
		switch one := logged[name]; {
		case present[name] && len(one.digests) > 0:
			if err = out.file(dir, name, one.digests, version); err != nil {
				return nil, err
			}
		case one.removed:
			out.Removed++
			if one.at.After(out.RemovedAt) {
				out.RemovedAt = one.at
			}
		case !present[name]:
			out.fault("%s is missing: the log has its digest, and no entry says that the limits on recordings removed it", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(present)) {
		if one := logged[name]; one == nil || len(one.digests) == 0 {
			out.Unknown = append(out.Unknown, name)
		}
	}
	return out, nil
}

func anyMissing(logged map[string]*loggedRecording, present map[string]bool) bool {
	for name, one := range logged { // order-free
		if !present[name] && !one.removed {
			return true
		}
	}
	return false
}

func (r *DecisionsReport) readLogged(entries func() ([]audit.Entry, error)) (map[string]*loggedRecording, error) {
	list, err := entries()
	if err != nil {
		return nil, err
	}
	out := map[string]*loggedRecording{}
	r.Gaps = r.Gaps[:0]
	of := func(name string) *loggedRecording {
		if out[name] == nil {
			out[name] = &loggedRecording{}
		}
		return out[name]
	}
	for i := range list {
		if d, ok := recording.ReadDigest(&list[i]); ok {
			of(d.File).digests = append(of(d.File).digests, d)
			if d.End == recording.EndBehind {
				r.gap(list[i].Time, d.End)
			}
		} else if name, ok := recording.ReadRemoval(&list[i]); ok {
			of(name).removed, of(name).at = true, list[i].Time
		} else if why, ok := recording.ReadStopped(&list[i]); ok {
			r.gap(list[i].Time, why)
		}
	}
	return out, nil
}

// The method `gap` notes that decisions were not recorded from a time on, until the next recording.
func (r *DecisionsReport) gap(at time.Time, why string) {
	r.Gaps = append(r.Gaps, fmt.Sprintf("%s: %s", at.UTC().Format(time.RFC3339), why))
}

func recordingsIn(dir string) (map[string]bool, error) {
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]bool{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the recordings: %w", err)
	}
	out := map[string]bool{}
	for _, f := range list {
		if filepath.Ext(f.Name()) == recording.Suffix {
			out[f.Name()] = true
		}
	}
	return out, nil
}

// The method `file` compares one recording with its digests, and replays it if it was not changed.
func (r *DecisionsReport) file(dir, name string, digests []recording.FileDigest, version string) error {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("read a recording: %w", err)
	}
	defer f.Close()
	r.Files++
	faults := len(r.Faults)
	if err = r.digests(f, name, digests); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(r.Faults) > faults {
		return nil // the decisions of a changed recording prove nothing
	}
	if _, err = f.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	r.replay(f, name, &digests[len(digests)-1], version)
	return nil
}

// The method `digests` compares the beginnings of a file with the digests that the log has of them.
func (r *DecisionsReport) digests(f *os.File, name string, digests []recording.FileDigest) error {
	sum, at := sha256.New(), int64(0)
	for i := range digests {
		d := &digests[i]
		n, err := copyUpTo(sum, f, d.Bytes-at)
		if err != nil {
			return err
		}
		if at += n; at < d.Bytes {
			r.fault("%s was cut: it has %d bytes, but the log says that it had %d bytes with %d decisions", name, at, d.Bytes, d.Decisions)
			return nil
		}
		if at > d.Bytes || hex.EncodeToString(sum.Sum(nil)) != d.SHA256 {
			r.fault("%s was changed: the digest of its first %d bytes differs from the one in the log", name, d.Bytes)
			return nil
		}
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	rest := info.Size() - at
	if d := &digests[len(digests)-1]; d.End != "" && rest > 0 {
		r.fault("%s was changed: it has %d bytes more than when it ended", name, rest)
		return nil
	}
	r.Uncovered += rest
	return nil
}

func copyUpTo(sum hash.Hash, from io.Reader, n int64) (int64, error) {
	if n <= 0 {
		return 0, nil
	}
	done, err := io.CopyN(sum, from, n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return done, err
}

// The method `replay` repeats the decisions of an unchanged recording. A version of Ares may decide differently than another one. Only a
// difference under the same version is therefore a fault.
func (r *DecisionsReport) replay(f io.Reader, name string, last *recording.FileDigest, version string) {
	got, err := Replay(f, nil)
	if other := got == nil || got.Build != version; other && (err != nil || got.Different > 0) {
		r.OtherVersion = append(r.OtherVersion, name)
		return
	}
	if err != nil {
		r.fault("%s cannot be replayed: %s", name, err)
		return
	}
	r.Decisions += got.Decisions
	r.Equal += got.Decisions - got.Different
	if got.Different > 0 {
		r.fault("%s: %d of %d decisions differ in the replay, first: %s, replayed: %s", name, got.Different, got.Decisions, got.First.Recorded, got.First.Replayed)
	}
	if got.Decisions < last.Decisions || last.End != "" && got.Decisions != last.Decisions {
		r.fault("%s has %d decisions, but the log says %d", name, got.Decisions, last.Decisions)
	}
}
