//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

func TestLogRotation(t *testing.T) {
	w := newWorld(t)
	spec := sh(`i=0; while [ $i -lt 4000 ]; do echo "line $i"; i=$((i+1)); done`)
	spec.LogLimit = 16 << 10
	w.want(w.start(spec), Exited, 0)
	var whole strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&whole, "line %d\n", i)
	}
	l, err := w.OpenLog(spec.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	first, end, err := l.Bounds()
	if err != nil || end != int64(whole.Len()) || end-first > spec.LogLimit || end-first <= spec.LogLimit/2 {
		t.Fatalf("bounds %d %d %v of %d", first, end, err, whole.Len())
	}
	if got := drainLog(w.ctx, t, l, true); got != whole.String()[first:] || l.Offset() != end {
		t.Errorf("what is kept differs, %d bytes", len(got))
	}
	for _, at := range []int64{end - 20, first + 1, end, end + 5} {
		l.SeekTo(at)
		if got := drainLog(w.ctx, t, l, false); got != whole.String()[min(at, end):] {
			t.Errorf("from %d: %q", at, got)
		}
	}
	for n, want := range map[int]string{0: "", 1: "line 3999\n", 3: "line 3997\nline 3998\nline 3999\n"} {
		if err := l.Tail(n); err != nil {
			t.Fatal(err)
		}
		if got := drainLog(w.ctx, t, l, false); got != want {
			t.Errorf("tail %d: %q", n, got)
		}
	}
	if err := l.Tail(1_000_000); err != nil || l.Offset() != first {
		t.Errorf("a long tail begins at %d, not %d: %v", l.Offset(), first, err)
	}
}

// TestLogFollow checks that a follower reads each byte once, across rotations and Forget, and stops when the seat ends.
func TestLogFollow(t *testing.T) {
	w := newWorld(t)
	spec := sh(`i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); sleep 0.001; done; printf end`)
	spec.LogLimit = seat.MinLogLimit
	p := w.start(spec)
	l, err := w.OpenLog(spec.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		var all []byte
		buf := make([]byte, 100)
		for {
			n, err := l.Next(w.ctx, buf, true)
			all = append(all, buf[:n]...)
			if err != nil {
				done <- answer{string(all), err}
				return
			}
		}
	}()
	w.want(p, Exited, 0)
	if err := w.Forget(spec.Key); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if !strings.HasPrefix(got.text, "line 0\n") || !strings.HasSuffix(got.text, "line 299\nend") ||
		strings.Count(got.text, "\n") != 300 {
		t.Errorf("%v, followed:\n%s", got.err, got.text)
	}
}

func TestForget(t *testing.T) {
	w := newWorld(t)
	w.KeepLogs = 2
	for rank := range 4 {
		spec := sh("echo output of " + fmt.Sprint(rank))
		spec.Rank = rank
		spec.Env = append(spec.Env, "SECRET=hunter2")
		p := w.start(spec)
		if rank == 0 {
			w.eventually("refused or ended", func() bool {
				err := w.Forget(spec.Key)
				if err != nil && !errors.Is(err, ErrAlive) {
					t.Fatal(err)
				}
				return err == nil
			})
			p.reap(w.ctx) // it was not waited for
			continue
		}
		w.want(p, Exited, 0)
		if err := w.Forget(spec.Key); err != nil {
			t.Fatal(err)
		}
		if err := w.Forget(spec.Key); err != nil {
			t.Errorf("forget again: %v", err)
		}
	}
	for rank := range 4 {
		k := Key{Job: "job", Fence: 7, Rank: rank}
		if rank < 2 {
			if _, err := w.OpenLog(k); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("log %d: %v", rank, err)
			}
		} else if got := w.log(k); got != fmt.Sprintf("output of %d\n", rank) {
			t.Errorf("log %d: %q", rank, got)
		}
	}
	err := filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), "hunter2") {
			t.Errorf("a secret is left in %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	w.KeepLogBytes = 12
	if err := w.tidyLogs(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.OpenLog(Key{Job: "job", Fence: 7, Rank: 2}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kept beyond its bytes: %v", err)
	}
}

// TestForgetInterrupted checks that a Forget interrupted by a crash is completed at the next Open.
func TestForgetInterrupted(t *testing.T) {
	w := newWorld(t)
	w.want(w.start(sh("echo out")), Exited, 0)
	name := key("job").String()
	if err := w.root.Rename("seats/"+name, "logs/"+name); err != nil {
		t.Fatal(err)
	}
	w.again()
	if _, err := w.root.Lstat("logs/" + name + "/" + seat.SpecFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the spec is still there: %v", err)
	}
	if got := w.log(key("job")); got != "out\n" {
		t.Errorf("log %q", got)
	}
}

func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := newWorldIn(t, dir)
	room := filepath.Join(t.TempDir(), "room")
	// The job writes ten times as much as fits on the disk, and must still run to its end.
	spec := sh(`head -c 2500000 /dev/zero; touch ` + room + `.full; while ! test -e ` + room + `; do sleep 0.01; done
		echo once more; exit 6`)
	p := w.start(spec)
	w.eventually("the job has filled the disk", func() bool {
		_, err := os.Stat(room + ".full")
		return err == nil
	})
	l, err := w.OpenLog(spec.Key)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// Free some disk space, so that the supervisor can note the missing output in the log.
	if err := os.Truncate(filepath.Join(dir, seatPath(spec.Key, seat.LogName(0))), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(room, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res := w.want(p, Exited, 6)
	if res.LogDropped < 2_000_000 {
		t.Errorf("result %+v", res)
	}
	log := w.log(spec.Key)
	if !strings.Contains(log, "bytes of output dropped: no space left on device]\nonce more\n") {
		t.Errorf("no note in the log: %q", log[max(0, len(log)-200):])
	}
}

// TestDiskFullToTheEnd checks that the result is stored even if the disk stays full.
func TestDiskFullToTheEnd(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	w := newWorldIn(t, dir)
	w.want(w.start(sh(`head -c 1000000 /dev/zero; exit 7`)), Exited, 7)
	// If the disk is full when a seat starts, the start reports that and leaves no files.
	spec := sh("true")
	spec.Rank = 1
	if _, err := w.Start(w.ctx, spec); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("start on a full disk: %v", err)
	}
	if found, err := w.Find(w.ctx); err != nil || len(found) != 1 {
		t.Errorf("found %+v %v", found, err)
	}
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	spec := sh(`echo "12.5 epoch 1" >> "$ARES_PROGRESS_FILE"; echo up; sleep 1000`)
	p := w.start(spec)
	w.untilUp(spec.Key)
	if got, ok := p.Progress(); !ok || got != (Progress{12.5, "epoch 1"}) {
		t.Errorf("progress %+v %v", got, ok)
	}
	path := filepath.Join(w.dir, seatPath(spec.Key, seat.ProgressFile))
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil { // opening it would block
		t.Fatal(err)
	}
	if got, ok := p.Progress(); ok {
		t.Errorf("progress of a pipe: %+v", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", path); err != nil {
		t.Fatal(err)
	}
	if got, ok := p.Progress(); ok {
		t.Errorf("progress of a link: %+v", got)
	}
}

func TestParseProgress(t *testing.T) {
	for in, want := range map[string]Progress{
		"42.5 epoch 3\n":            {42.5, "epoch 3"},
		"1 a\n2 b\n3 unfinished":    {2, "b"},
		"100%\njunk\n\n":            {100, ""},
		"7 \x1b[31mred\xff\n":       {7, " [31mred "},
		"5 x\r\n":                   {5, "x"},
		"8 ok\nNaN\n-1\n101\nInf\n": {8, "ok"},
	} {
		if got, ok := parseProgress([]byte(in)); !ok || got != want {
			t.Errorf("%q: %+v %v", in, got, ok)
		}
	}
	for _, in := range []string{"", "1", "x\n", "NaN x\n", strings.Repeat("x", 5000) + "\n"} {
		if got, ok := parseProgress([]byte(in)); ok {
			t.Errorf("%q: %+v", in, got)
		}
	}
	long, _ := parseProgress([]byte("1 " + strings.Repeat("ü", 500) + "\n"))
	if len(long.Message) > progressMessage || !strings.HasPrefix(long.Message, "üü") {
		t.Errorf("%d bytes of message", len(long.Message))
	}
}

func TestOwnCgroup(t *testing.T) {
	const v2 = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	const v1 = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
	const part = "41 31 0:38 /pod/7 /sys/fs/c\\040g rw shared:1 - cgroup2 cgroup2 rw\n"
	for _, c := range []struct{ mounts, own, want string }{
		{v1 + v2, "9:name=systemd:/\n0::/\n", "/sys/fs/cgroup/unified"},
		{v1 + v2, "0::/system.slice/ares.service\n", "/sys/fs/cgroup/unified/system.slice/ares.service"},
		{part, "0::/pod/7/x\n", "/sys/fs/c g/x"},
		{part, "0::/\n", "/sys/fs/c g"},
		{v1, "0::/\n", ""},
		{v2, "3:cpu:/\n", ""},
	} {
		if got, err := ownCgroup(c.mounts, c.own); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q: %q %v, want %q", c.own, got, err, c.want)
		}
	}
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	program, err := os.ReadFile(supervisorPath)
	if err != nil {
		t.Fatal(err)
	}
	path, err := unpack(dir, program)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.Stat(path)
	again, err := unpack(dir, program)
	if err != nil || again != path {
		t.Errorf("again: %s %v", again, err)
	}
	if after, _ := os.Stat(path); !os.SameFile(before, after) || after.Mode().Perm() != programMode {
		t.Errorf("written twice, or with mode %v", after.Mode())
	}
	if err = os.Truncate(path, 100); err != nil { // truncated, as after a crash
		t.Fatal(err)
	}
	if path, err = unpack(dir, program); err != nil {
		t.Fatal(err)
	}
	if err := probe(path, ""); err != nil {
		t.Errorf("execute: %v", err)
	}
	if _, err := unpack(dir, nil); err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("nothing embedded: %v", err)
	}
	if _, err := Open(t.TempDir(), filepath.Join(dir, "none")); err == nil {
		t.Error("opened without a supervisor")
	}
	if _, err := Open(t.TempDir(), "/bin/false"); err == nil {
		t.Error("opened with another program")
	}
}

func TestCheckpointed(t *testing.T) {
	w := newWorld(t)
	before := time.Now().Add(-time.Second)
	spec := sh(`echo up; read -r _ < ` + filepath.Join(w.dir, "go") + `; touch "$ARES_CHECKPOINT_FILE"; echo saved; sleep 1000`)
	if err := syscall.Mkfifo(filepath.Join(w.dir, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := w.start(spec)
	w.untilUp(spec.Key)
	if at, ok := p.Checkpointed(); ok {
		t.Errorf("checkpointed at %v by a job that has not", at)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "go"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.eventually("it has saved", func() bool { return strings.Contains(w.log(spec.Key), "saved\n") })
	at, ok := p.Checkpointed()
	if !ok || at.Before(before) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("checkpointed at %v, %v", at, ok)
	}
	// A symbolic link must not be followed, because it would reveal the modification time of another file.
	path := filepath.Join(w.dir, seatPath(spec.Key, seat.CheckpointFile))
	if err := errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)); err != nil {
		t.Fatal(err)
	}
	if at, ok := p.Checkpointed(); ok {
		t.Errorf("checkpointed at %v by a link", at)
	}
}
