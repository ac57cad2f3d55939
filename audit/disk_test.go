package audit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// fakeDisk is a directory whose files take only so much, and which remembers what
// was synced.
type fakeDisk struct {
	beforeSync func()

	mu      sync.Mutex
	full    bool // takes half of a write, then nothing
	syncBad bool
	synced  []byte
}

type fakeFile struct {
	file

	disk    *fakeDisk
	written []byte
}

func (d *fakeDisk) open(path string) (file, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return &fakeFile{file: f, disk: d}, nil
}

func (d *fakeDisk) set(full, syncBad bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full, d.syncBad = full, syncBad
}

func (d *fakeDisk) safe() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.synced)
}

func (f *fakeFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	full := f.disk.full
	f.disk.mu.Unlock()
	if full {
		n, err := f.file.Write(p[:len(p)/2])
		return n, errors.Join(err, syscall.ENOSPC)
	}
	f.written = append(f.written, p...)
	return f.file.Write(p)
}

func (f *fakeFile) Sync() error {
	if f.disk.beforeSync != nil {
		f.disk.beforeSync()
	}
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.syncBad {
		return syscall.EIO
	}
	f.disk.synced = append(f.disk.synced, f.written...)
	f.written = nil
	return f.file.Sync()
}

func (f *fakeFile) Truncate(size int64) error {
	f.written = nil
	return f.file.Truncate(size)
}

// TestFullDisk wants calls refused while nothing can be written, nothing lost of
// what was under way, and a good log at every moment.
func TestFullDisk(t *testing.T) {
	for name, bad := range map[string]struct{ full, sync bool }{"no space": {full: true}, "sync fails": {sync: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &fakeDisk{}
				l := start(t, t.TempDir(), func(c *Config) { c.open = disk.open })
				l.record(3)
				disk.set(bad.full, bad.sync)
				late := deed(77)
				late.Object = "under-way"
				if err := l.Record(t.Context(), late); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "audit") {
					t.Fatalf("a full disk answered %v", err)
				}
				if ares.CodeOf(l.Ready()) != ares.Unavailable {
					t.Fatal("a log on a full disk is ready")
				}
				l.Refuse(t.Context(), Entry{Action: "SUBMIT_JOB", Code: "unavailable"})
				pass(30 * time.Second)
				synctest.Wait()
				if l.Ready() == nil {
					t.Fatal("a disk that is still full is thought well")
				}
				disk.set(false, false)
				pass(2 * tickEvery)
				synctest.Wait()
				if err := l.Ready(); err != nil {
					t.Fatalf("the disk is well again, but %v", err)
				}
				l.record(1)
				if got := l.all(Query{Object: "under-way"}); len(got) != 1 {
					t.Errorf("what was under way is there %d times, want once", len(got))
				}
				l.stop()
				if r := good(t, l.Dir()); r.Entries != 7 { // opened, 3, under way, refused, 1
					t.Errorf("%d entries, want 7", r.Entries)
				}
			})
		})
	}
}

// TestLongOutageSaysWhatIsMissing fills what may be owed.
func TestLongOutageSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fakeDisk{}
		l := start(t, t.TempDir(), func(c *Config) { c.open = disk.open })
		l.record(1)
		disk.set(true, false)
		for i := range maxOwed + 10 {
			l.Note(deed(i))
			if i == 0 {
				synctest.Wait()
			}
		}
		disk.set(false, false)
		pass(2 * tickEvery)
		synctest.Wait()
		gaps := l.all(Query{Action: ActionGap})
		if len(gaps) != 1 || gaps[0].Count != 10 {
			t.Errorf("told of %+v, want one gap of 10", gaps)
		}
		l.stop()
		good(t, l.Dir())
	})
}

// TestTornEnd cuts the last line at every byte, as a crash may, and wants the log
// to go on behind the last whole entry and to say so.
func TestTornEnd(t *testing.T) {
	whole := t.TempDir()
	writeUnsigned(t, whole, 3)
	path := filepath.Join(whole, segmentName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	for cut := last + 1; cut < len(data); cut += 7 {
		tear(t, whole, data[:cut], 3)
	}
	tear(t, whole, append(slices.Clone(data[:last]), make([]byte, 300)...), 3)              // blocks that were never written
	tear(t, whole, append(slices.Clone(data[:last+20]), data[last:]...), 3)                 // and some of them later
	tear(t, whole, append(slices.Clone(data), "{\"seq\":5,\"time\":\"2026-01-01T00"...), 4) // an entry more
}

// writeUnsigned leaves a log as a killed server does: without a last head.
func writeUnsigned(t *testing.T, dir string, n int) {
	t.Helper()
	l := start(t, dir)
	l.record(n)
	l.stop()
	if err := os.Remove(filepath.Join(dir, headsName(1))); err != nil {
		t.Fatal(err)
	}
}

// tear opens a log whose segment is data, and wants good entries of it to be left.
func tear(t *testing.T, whole string, data []byte, left int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), data, 0o600); err != nil {
		t.Fatal(err)
	}
	l := start(t, dir)
	l.record(1)
	if got := l.all(Query{Action: ActionRecover}); len(got) != 1 || got[0].Sequence != uint64(left+1) || !strings.Contains(got[0].Detail, "cut") {
		t.Errorf("cut to %d bytes: recovery is told as %+v, want it as entry %d", len(data), got, left+1)
	}
	l.stop()
	good(t, dir)
}

// TestDamageIsNotRepaired wants a log that was signed further than it is good not
// to be opened: no crash does that.
func TestDamageIsNotRepaired(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir)
	l.record(10)
	l.stop()
	path := filepath.Join(dir, segmentName(1))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"changed":    bytes.Replace(data, []byte("job-000005"), []byte("job-000666"), 1),
		"cut":        data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1],
		"emptied":    {},
		"torn early": data[:len(data)-10],
	} {
		if err = os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err = Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "ares audit verify") {
			t.Errorf("%s: opened with %v", name, err)
		}
	}
	if err = os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(Config{Dir: dir}); err == nil {
		t.Error("a log without its segments was opened")
	}
}

// TestKilledServer kills a writer with SIGKILL many times, and wants everything
// that it was told to be safe.
func TestKilledServer(t *testing.T) {
	if dir := os.Getenv("ARES_AUDIT_VICTIM"); dir != "" {
		victim(t, dir)
		return
	}
	dir := t.TempDir()
	acked := 0
	for range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledServer$")
		cmd.Env = append(os.Environ(), "ARES_AUDIT_VICTIM="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err = cmd.Start(); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 200) // so many were told to be safe, at least
		for n := 0; n < len(buf); {
			k, readErr := out.Read(buf[n:])
			if readErr != nil {
				t.Fatal(readErr)
			}
			n += k
		}
		if err = cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		acked += strings.Count(string(buf), ".")
	}
	l := start(t, dir)
	if got := len(l.all(Query{Action: "SUBMIT_JOB", Limit: 1000})); got < acked {
		t.Errorf("%d entries of at least %d that were called safe", got, acked)
	}
	l.stop()
	good(t, dir)
}

func victim(t *testing.T, dir string) {
	l := start(t, dir, small)
	for i := 0; ; i++ {
		if err := l.Record(context.Background(), deed(i)); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString(".")
	}
}

// TestWhatIsBeingWrittenCounts holds the disk back: what it has in hand is on its
// way too, so that callers who wait for it are as few as the limit says.
func TestWhatIsBeingWrittenCounts(t *testing.T) {
	hold, busy := make(chan struct{}), make(chan struct{}, 64)
	d := &fakeDisk{beforeSync: func() {
		busy <- struct{}{}
		<-hold
	}}
	l := start(t, t.TempDir(), func(c *Config) { c.open = d.open })
	<-busy // with the entry of its opening
	l.Note(make([]Entry, maxPending-2)...)
	if err := l.Ready(); err != nil {
		t.Errorf("one entry less than the limit: %v", err)
	}
	l.Note(Entry{})
	if err := l.Ready(); ares.CodeOf(err) != ares.Exhausted {
		t.Errorf("at the limit it says %v", err)
	}
	close(hold)
	l.stop()
}
