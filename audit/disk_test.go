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

// fakeDisk is a directory whose files accept a limited amount of data. fakeDisk records which data was synced.
type fakeDisk struct {
	beforeSync func()

	mu      sync.Mutex
	full    bool // accepts half of a write, and then nothing
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

// TestFullDisk checks that calls are rejected while the disk is full. No pending entry may be lost, and the log must
// be valid at every moment.
func TestFullDisk(t *testing.T) {
	for name, bad := range map[string]struct{ full, sync bool }{"no space": {full: true}, "sync fails": {sync: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := &fakeDisk{}
				l := start(t, t.TempDir(), func(c *Config) { c.open = disk.open })
				l.record(3)
				disk.set(bad.full, bad.sync)
				late := testEntry(77)
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
				if r := good(t, l.Dir()); r.Entries != 7 { // opened, 3, pending, rejected, 1
					t.Errorf("%d entries, want 7", r.Entries)
				}
			})
		})
	}
}

// TestLongOutageSaysWhatIsMissing records entries while the disk fails. There are more entries than the log keeps in
// memory, so the log must report the lost entries.
func TestLongOutageSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &fakeDisk{}
		l := start(t, t.TempDir(), func(c *Config) { c.open = disk.open })
		l.record(1)
		disk.set(true, false)
		for i := range maxOwed + 10 {
			l.Note(testEntry(i))
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

// TestTornEnd truncates the last line at every byte, as a crash may. The log must continue after the last complete
// entry, and must record the recovery.
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
	tear(t, whole, append(slices.Clone(data[:last+20]), data[last:]...), 3)                 // some blocks were written only later
	tear(t, whole, append(slices.Clone(data), "{\"seq\":5,\"time\":\"2026-01-01T00"...), 4) // ends with one more, incomplete entry
}

// writeUnsigned creates a log that has no signed head, like the log of a server that was killed before it signed one.
func writeUnsigned(t *testing.T, dir string, n int) {
	t.Helper()
	l := start(t, dir)
	l.record(n)
	l.stop()
	if err := os.Remove(filepath.Join(dir, headsName(1))); err != nil {
		t.Fatal(err)
	}
}

// The function `tear` opens a log with the given data as its last segment, and checks how many entries are left.
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

// TestDamageIsNotRepaired checks that a log cannot be opened when a signed entry is missing or damaged, because no
// crash causes such damage.
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

// TestKilledServer kills a writer with SIGKILL many times, and checks that every acknowledged entry is on disk.
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
		buf := make([]byte, 200) // the child prints at least the number of acknowledged entries
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
		if err := l.Record(context.Background(), testEntry(i)); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString(".")
	}
}

// TestWhatIsBeingWrittenCounts blocks the disk and checks that the entries of the current write also count towards the
// limit of waiting entries.
func TestWhatIsBeingWrittenCounts(t *testing.T) {
	hold, busy := make(chan struct{}), make(chan struct{}, 64)
	d := &fakeDisk{beforeSync: func() {
		busy <- struct{}{}
		<-hold
	}}
	l := start(t, t.TempDir(), func(c *Config) { c.open = d.open })
	<-busy // it is writing the entry of its opening
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
