package recording

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares/audit"
)

// These are the actions of the entries that connect recordings with the signed audit log.
const (
	ActionDigest  = "RECORDING_DIGEST"  // a recording had this digest
	ActionRemoved = "RECORDING_REMOVED" // a recording was removed because of the limits on recordings
	ActionStopped = "RECORDING_STOPPED" // decisions are not recorded from now on, until the next digest
)

// ObjectPrefix is the beginning of the object of such an entry. The name of the file follows.
const ObjectPrefix = "recording/"

// FileDigest states what a recording file contained at one moment. Whatever is appended later, the first Bytes bytes of the
// file keep this digest.
type FileDigest struct {
	File      string // name without its directory
	Bytes     int64
	Decisions int    // among these bytes
	SHA256    string // of these bytes, in hex
	End       string // why the file ends, or "" while it is open
}

// Removal states that a recording file was removed because of the limits on recordings.
type Removal struct {
	File  string
	Bytes int64
	// Total and Files are the size and the number of all recordings before the removal. Somebody who adds files to make the server remove a
	// recording is revealed by them: they exceed what the digests in the log account for.
	Total int64
	Files int
}

// Stopped returns the entry which says that decisions are not recorded from now on.
func Stopped(why string) audit.Entry {
	return audit.Entry{Action: ActionStopped, Status: audit.Done, Object: ObjectPrefix, Detail: why}
}

// ReadStopped reads an entry that Stopped returned, and returns the reason.
func ReadStopped(e *audit.Entry) (why string, ok bool) {
	return e.Detail, e.Action == ActionStopped && e.Object == ObjectPrefix
}

const (
	digestDetail = "%d bytes, %d decisions, "
	openDetail   = "open"
	endedDetail  = "ended: "
)

// Entry returns the digest as an entry of the audit log.
func (d FileDigest) Entry() audit.Entry {
	state := openDetail
	if d.End != "" {
		state = endedDetail + d.End
	}
	return audit.Entry{
		Action: ActionDigest, Status: audit.Done, Object: ObjectPrefix + d.File, After: d.SHA256,
		Detail: fmt.Sprintf(digestDetail, d.Bytes, d.Decisions) + state,
	}
}

// ReadDigest reads an entry that FileDigest.Entry wrote. The second result is false for other entries.
func ReadDigest(e *audit.Entry) (d FileDigest, ok bool) {
	name, ok := fileOf(e, ActionDigest)
	if !ok {
		return d, false
	}
	d = FileDigest{File: name, SHA256: e.After}
	if n, _ := fmt.Sscanf(e.Detail, digestDetail, &d.Bytes, &d.Decisions); n < 2 {
		return d, false
	}
	if _, end, ended := strings.Cut(e.Detail, endedDetail); ended {
		d.End = end
	}
	return d, true
}

// Entry returns the removal as an entry of the audit log.
func (r Removal) Entry() audit.Entry {
	return audit.Entry{
		Action: ActionRemoved, Status: audit.Done, Object: ObjectPrefix + r.File,
		Detail: fmt.Sprintf("%d bytes, of %d bytes in %d files: recordings are limited by recording.max_mb and recording.files", r.Bytes, r.Total, r.Files),
	}
}

// ReadRemoval reads an entry that Removal.Entry wrote, and returns the name of the file.
func ReadRemoval(e *audit.Entry) (file string, ok bool) { return fileOf(e, ActionRemoved) }

// fileOf returns the file that an entry is about. A name that leads to another directory is rejected.
func fileOf(e *audit.Entry, action string) (string, bool) {
	name, ok := strings.CutPrefix(e.Object, ObjectPrefix)
	return name, ok && e.Action == action && filepath.Base(name) == name && strings.HasSuffix(name, Suffix)
}

// The method `digest` reports the digest of the file so far, after the file is on disk. Otherwise a power failure could leave a
// shorter file than the one that the audit log knows.
func (f *recordingFile) digest(why string) error {
	f.fresh, f.seconds = false, 0
	if f.recorder.Wrote == nil {
		return nil
	}
	if err := f.file.Sync(); err != nil {
		return fmt.Errorf("write recording: %w", err)
	}
	f.recorder.Wrote(FileDigest{File: f.name, Bytes: f.writer.Size(), Decisions: f.decisions, SHA256: hex.EncodeToString(f.sum.Sum(nil)), End: why})
	return nil
}

// The method `prune` removes the oldest recordings beyond the limits. The file that is being written stays, and has the given
// size. The method returns the size of the other files that are left.
func (t *DecisionRecorder) prune(current string, size int64) (left int64, err error) {
	names, err := filepath.Glob(filepath.Join(t.Dir, "*"+Suffix))
	if err != nil {
		return 0, err
	}
	slices.Sort(names) // names begin with the time
	names = slices.DeleteFunc(names, func(name string) bool { return filepath.Base(name) == current })
	sizes := make([]int64, len(names))
	for i, name := range names {
		info, err := os.Stat(name)
		if err == nil {
			sizes[i] = info.Size()
			left += sizes[i]
		} else if !errors.Is(err, fs.ErrNotExist) {
			return left, fmt.Errorf("measure the recordings: %w", err)
		}
	}
	for i, name := range names {
		if len(names)-i < t.Files && (t.MaxBytes <= 0 || left+size <= t.MaxBytes) {
			break
		}
		if t.Removed != nil {
			t.Removed(Removal{File: filepath.Base(name), Bytes: sizes[i], Total: left + size, Files: len(names) - i + 1})
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return left, fmt.Errorf("remove an old recording: %w", err)
		}
		left -= sizes[i]
	}
	t.size.Store(left + size)
	return left, nil
}
