package lifecycle

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// FuzzJournal appends to a journal whose file has arbitrary content, as after a crash. The old content must stay.
// Each appended line must be separate and must be read back unchanged.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(""), "train", int64(1_700_000_000_000_000), uint16(0))
	f.Add([]byte("{\"job\":{}}\n{\"torn"), "a\nb", int64(0), uint16(200))
	f.Add([]byte("\n\n"), "\u2028<&>\x00", int64(-1), uint16(1))
	f.Add([]byte{0, 0, 0}, "\xff", int64(253402300799999999), uint16(3))
	f.Fuzz(func(t *testing.T, old []byte, text string, micros int64, limit uint16) {
		at := time.UnixMicro(micros).UTC()
		if y := at.Year(); y < 1 || y > 9999 {
			return // the API rejects such a time
		}
		text = string(bytes.ToValidUTF8([]byte(text), []byte("?"))) // the API also rejects text that is not UTF-8
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, old, 0o600); err != nil {
			t.Fatal(err)
		}
		spec := ares.Spec{Name: text, Command: []string{text}, Environment: map[string]string{text: text}, Deadline: at}
		want := archivedJob{Job: ares.Job{Spec: spec.WithDefaults(), ID: "a", AcceptedAt: at}, Run: ares.NewRun(at)}
		want.Run.Reason, want.Run.FinishedAt, want.Run.Extra = text, at, []byte(text)
		j := &Journal{Path: path, MaxBytes: int64(limit)}
		for range 2 {
			if err := j.Append(want); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if limit == 0 && !bytes.HasPrefix(now, old) {
			t.Fatalf("%q became %q", old, now)
		}
		if !bytes.HasSuffix(now, []byte("\n")) {
			t.Fatalf("torn: %q", now)
		}
		all := bytes.Split(bytes.TrimSuffix(now, []byte("\n")), []byte("\n"))
		written := 2
		if limit > 0 {
			written = 1 // each line began a new file
		}
		for _, line := range all[len(all)-written:] {
			var got archivedJob
			if err := json.Unmarshal(line, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v is read as %+v, %v", want, got, err)
			}
		}
		if limit > 0 && int64(len(now)) > max(int64(limit), int64(len(all[len(all)-1]))+1) {
			t.Fatalf("%d bytes, at most %d are allowed", len(now), limit)
		}
	})
}
