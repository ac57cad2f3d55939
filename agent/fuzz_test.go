package agent

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/ares-scheduler/ares/agent/run"
)

// FuzzStateFiles starts an agent with an arbitrary state directory. The agent's identity must be one that servers accept, and
// must stay the same. The agent must read either the first session that was written, or none. A truncated file must not make
// another agent's processes look older than they are.
func FuzzStateFiles(f *testing.F) {
	f.Add([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"), int64(5), int64(99), uint8(3))
	f.Add([]byte(""), int64(0), int64(0), uint8(0))
	f.Add([]byte("ABCDEFGHIJKLMNOPQRSTU"), int64(1<<62), int64(1<<62), uint8(1))
	f.Add([]byte("                 \n"), int64(-1), int64(-1), uint8(255))
	f.Add([]byte("one line of words\nand another\n"), int64(1), int64(1), uint8(2))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\n"), int64(1), int64(1), uint8(9))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, file []byte, revision, at int64, cut uint8) {
		write(t, filepath.Join(dir, "instance"), file)
		id, err := instance(dir)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(id); n < 16 || n > 64 || !utf8.ValidString(id) {
			t.Fatalf("%q is read as %q, which no server takes", file, id)
		}
		if again, lost := instance(dir); lost != nil || again != id {
			t.Fatalf("%q was %q before, %v", again, id, lost)
		}

		write(t, firstSessionPath(dir), file)
		if a := readFirstSession(dir); a != nil && *a != (firstSession{}) {
			t.Fatalf("%q is read as %+v", file, a)
		}
		want := firstSession{revision: revision, at: run.BootTime(at)}
		if err = want.write(dir); err != nil {
			t.Fatal(err)
		}
		if got := readFirstSession(dir); got == nil || *got != want {
			t.Fatalf("%+v is read as %+v", want, got)
		}
		whole, err := os.ReadFile(firstSessionPath(dir))
		if err != nil {
			t.Fatal(err)
		}
		write(t, firstSessionPath(dir), whole[:max(0, len(whole)-1-int(cut))])
		if got := readFirstSession(dir); got != nil && *got != (firstSession{}) {
			t.Fatalf("%+v, cut short by %d bytes, is read as %+v", want, int(cut)+1, got)
		}
	})
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
