package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/audit"
	"github.com/ares-scheduler/ares/control/recording"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/config"
)

// recordedDecisions writes a recording with three decisions, and returns the entries that a server would add to its audit log.
func recordedDecisions(t *testing.T, dir, name, build string) []audit.Entry {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(dir, name)
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w, err := recording.NewWriter(file, recording.NewHeader("s", build, config.Default(), at))
	must(err)
	state := engine.NewWith(config.Default())
	apply := func(reset bool, events ...ares.Event) {
		at = at.Add(time.Second)
		b := ares.Batch{Revision: state.Revision() + 1, Reset: reset, Events: events, At: at}
		for i := range events {
			events[i].Revision = b.Revision
		}
		state.Apply(b)
		must(w.Batch(b))
	}
	node := &ares.Node{ID: "n", CPUs: 64, MemoryMB: 1 << 16, Devices: []ares.Device{{ID: "n/0", Type: "gpu", Healthy: true}}}
	apply(true, ares.Event{Tenant: &ares.Tenant{ID: "t", Limits: ares.NoLimits(), Weight: 1}}, ares.Event{Node: node}, ares.Event{Session: &ares.Session{Node: "n", Instance: "i"}})
	digest := func(decisions int, end string) audit.Entry {
		t.Helper()
		data, err := os.ReadFile(path)
		must(err)
		sum := sha256.Sum256(data)
		return recording.FileDigest{File: name, Bytes: int64(len(data)), Decisions: decisions, SHA256: hex.EncodeToString(sum[:]), End: end}.Entry()
	}
	must(w.Flush())
	out := []audit.Entry{digest(0, "")}
	for i := range 3 {
		spec := ares.Spec{Tenant: "t", GPUs: 1}
		apply(false, ares.Event{Job: &ares.Job{Spec: spec.WithDefaults(), ID: ares.NewJobID("t", fmt.Sprint(i)), AcceptedAt: at, Revision: state.Revision() + 1}})
		plan := engine.Decide(state, at)
		must(w.Decision(recording.DecisionOf(&plan)))
	}
	must(w.Close(recording.EndClosed))
	return append(out, digest(3, recording.EndClosed))
}

func verifyDecisions(t *testing.T, dir string, entries []audit.Entry) *DecisionsReport {
	t.Helper()
	r, err := VerifyDecisions(dir, func() ([]audit.Entry, error) { return entries, nil }, "v1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestVerifyDecisions(t *testing.T) {
	from := t.TempDir()
	entries := recordedDecisions(t, from, "a.recording", "v1")
	entries = append(entries, recordedDecisions(t, from, "b.recording", "v1")...)
	r := verifyDecisions(t, from, entries)
	if !r.OK() || r.Files != 2 || r.Decisions != 6 || r.Equal != 6 || r.Removed != 0 || r.Uncovered != 0 {
		t.Fatalf("unchanged recordings: %+v", r)
	}
	for name, c := range map[string]struct {
		change func(t *testing.T, path string, data []byte)
		want   string
	}{
		"a changed byte": {func(t *testing.T, path string, data []byte) {
			data[len(data)-3] ^= 1
			rewriteFile(t, path, data)
		}, "was changed"},
		"a cut end": {func(t *testing.T, path string, data []byte) { rewriteFile(t, path, data[:len(data)-1]) }, "was cut"},
		"an added end": {func(t *testing.T, path string, data []byte) {
			rewriteFile(t, path, append(data, 'x'))
		}, "bytes more than when it ended"},
		"a missing file": {func(t *testing.T, path string, _ []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, "is missing"},
		"another recording": {func(t *testing.T, path string, _ []byte) {
			other := t.TempDir()
			recordedDecisions(t, other, "c.recording", "v0")
			data, err := os.ReadFile(filepath.Join(other, "c.recording"))
			if err != nil {
				t.Fatal(err)
			}
			rewriteFile(t, path, data)
		}, "was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "a.recording")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, path, data)
			r := verifyDecisions(t, dir, entries)
			if r.OK() || !strings.Contains(strings.Join(r.Faults, "\n"), c.want) || r.Decisions != 3 {
				t.Errorf("%+v, want a fault with %q and the decisions of the other file", r, c.want)
			}
		})
	}
}

// TestVerifyDecisionsAfterRemoval checks that a recording that the server itself removed is no fault, not even if the server
// removes it while the recordings are being verified.
func TestVerifyDecisionsAfterRemoval(t *testing.T) {
	dir := t.TempDir()
	entries := recordedDecisions(t, dir, "a.recording", "v1")
	removed := append(slices.Clone(entries), recording.Removal{File: "a.recording", Bytes: 1}.Entry())
	if err := os.Remove(filepath.Join(dir, "a.recording")); err != nil {
		t.Fatal(err)
	}
	if r := verifyDecisions(t, dir, entries); r.OK() {
		t.Error("a missing recording is not found")
	}
	if r := verifyDecisions(t, dir, removed); !r.OK() || r.Removed != 1 {
		t.Errorf("a removed recording: %+v", r)
	}
	asked := 0
	r, err := VerifyDecisions(dir, func() ([]audit.Entry, error) {
		if asked++; asked == 1 {
			return entries, nil
		}
		return removed, nil
	}, "v1")
	if err != nil || !r.OK() || r.Removed != 1 || asked != 2 {
		t.Errorf("removed meanwhile: %+v, %v, asked %d times", r, err, asked)
	}
}

// TestVerifyDecisionsOfAnOpenRecording checks that an open recording is compared up to its last digest, and that the report
// counts the bytes after it.
func TestVerifyDecisionsOfAnOpenRecording(t *testing.T) {
	dir := t.TempDir()
	entries := recordedDecisions(t, dir, "a.recording", "v1")[:1]
	recordedDecisions(t, dir, "unknown.recording", "v1")
	r := verifyDecisions(t, dir, entries)
	if !r.OK() || r.Equal != 3 || r.Uncovered == 0 || len(r.Unknown) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestVerifyDecisionsThatDiffer checks that decisions which the engine would not make again are a fault. If another version of
// Ares made them, the report only says that they were not compared.
func TestVerifyDecisionsThatDiffer(t *testing.T) {
	for build, fault := range map[string]bool{"v1": true, "v0": false} {
		dir := t.TempDir()
		path := filepath.Join(dir, "a.recording")
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		w, err := recording.NewWriter(file, recording.NewHeader("s", build, config.Default(), at))
		for _, step := range []func() error{
			func() error { return w.Batch(ares.Batch{Revision: 1, Reset: true, At: at}) },
			func() error { return w.Decision(recording.Decision{Revision: 1, Now: at, Digest: "another plan"}) },
			func() error { return w.Close(recording.EndClosed) },
			file.Close,
		} {
			if err == nil {
				err = step()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		d := recording.FileDigest{File: "a.recording", Bytes: int64(len(data)), Decisions: 1, SHA256: hex.EncodeToString(sum[:]), End: recording.EndClosed}
		r := verifyDecisions(t, dir, []audit.Entry{d.Entry()})
		if r.OK() == fault || len(r.OtherVersion) == 0 != fault || r.Equal != 0 {
			t.Errorf("made by %s: %+v", build, r)
		}
	}
}

func rewriteFile(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyDecisionsTellsGapsAndRemovals checks that the report tells the server's own removal of a recording from one by somebody else, and that it
// names the times without recordings.
func TestVerifyDecisionsTellsGapsAndRemovals(t *testing.T) {
	dir := t.TempDir()
	entries := recordedDecisions(t, dir, "a.recording", "v1")
	entries = append(entries, recordedDecisions(t, dir, "b.recording", "v1")...)
	entries = append(entries, recordedDecisions(t, dir, "c.recording", "v1")...)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	gone := recording.Removal{File: "a.recording", Bytes: 5, Total: 9, Files: 2}.Entry()
	gone.Time = at
	off := recording.Stopped("recording.enabled is false")
	off.Time = at.Add(time.Hour)
	behind := recording.FileDigest{File: "d.recording", End: recording.EndBehind}.Entry()
	behind.Time = at.Add(2 * time.Hour)
	for _, name := range []string{"a.recording", "b.recording"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r := verifyDecisions(t, dir, append(entries, gone, off, behind, recording.Removal{File: "d.recording"}.Entry()))
	if len(r.Faults) != 1 || !strings.Contains(r.Faults[0], "b.recording is missing") || r.Removed != 2 || !r.RemovedAt.Equal(at) {
		t.Errorf("%+v", r)
	}
	want := []string{"2026-03-01T13:00:00Z: recording.enabled is false", "2026-03-01T14:00:00Z: the disk was too slow"}
	if !slices.Equal(r.Gaps, want) {
		t.Errorf("the gaps are %q", r.Gaps)
	}
}
