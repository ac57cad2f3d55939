//go:build linux

package run

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// FuzzProgress parses the content of a job's progress file, which may be anything.
func FuzzProgress(f *testing.F) {
	for _, s := range []string{
		"42.5 epoch 3\n", "1\n2%\n3", "100% done\nNaN x\n-1\n101\nInf\n", "0x1p3 hex\n", "1e-400\n", "\n\n", "5 \x1b[31mred\u202e\n", "7 " + strings.Repeat("ü", 300) + "\n", "50\t\xff\xfe\n", "1_0 x\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := parseProgress(b)
		if !ok {
			if p != (Progress{}) {
				t.Fatalf("%+v of %q", p, b)
			}
			return
		}
		if !(p.Percent >= 0 && p.Percent <= 100) || len(p.Message) > progressMessage || !utf8.ValidString(p.Message) ||
			strings.ContainsFunc(p.Message, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%+v of %q", p, b)
		}
		if again, ok := parseProgress(fmt.Appendf(nil, "%v %s\n", p.Percent, p.Message)); !ok || again.Percent != p.Percent || again.Message != strings.TrimSpace(p.Message) {
			t.Fatalf("%+v is read again as %+v", p, again)
		}
		if torn, _ := parseProgress(append(bytes.Clone(b), "99.5 torn"...)); torn != p {
			t.Fatalf("a line that is being written is read as %+v", torn)
		}
	})
}

// FuzzOwnCgroup parses mountinfo, which lists mount points of other programs too.
func FuzzOwnCgroup(f *testing.F) {
	const mount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	f.Add(mount, "0::/system.slice/ares.service\n")
	f.Add("1 2 0:3 / /a\\040b\\134 rw - tmpfs x rw\n"+mount, "12:cpu:/x\n0::/\n")
	f.Add("1 2 0:3 /docker/abc /sys/fs/cgroup rw - cgroup2 c rw\n", "0::/docker/abc/../../../etc\n")
	f.Add("1 2 0:3 ../x /mnt\\012 rw - cgroup2 - cgroup2 \n - cgroup2 \n", "0::relative")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, mountinfo, cgroup string) {
		dir, err := ownCgroup(mountinfo, cgroup)
		if err != nil {
			if dir != "" || err.Error() == "" {
				t.Fatalf("%q, %v", dir, err)
			}
			return
		}
		if dir == "" {
			t.Fatal("no directory and no error")
		}
		// The resulting path must be inside a listed mount point.
		for line := range strings.Lines(mountinfo) {
			fields := strings.Fields(line)
			if len(fields) < 5 {
				continue
			}
			rel, err := filepath.Rel(unescape(fields[4]), dir)
			if err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
				return
			}
		}
		t.Fatalf("%q lies in none of the mounts %q", dir, mountinfo)
	})
}

// FuzzSupervisorAnswer sends the agent an arbitrary answer instead of a real supervisor's. The agent must not block,
// and must accept a renewal as delivered only if the answer is valid.
func FuzzSupervisorAnswer(f *testing.F) {
	f.Add([]byte("ok state=running pid=12 started=5 renewed=7 attempt=3 lost_after=20000000000 grace=5 fenced=false ending="))
	for _, s := range []string{"ok", "", "okay", "refused fenced", "refused ", " refused ", "ok refused fenced", "error no", "ok pid=-1 renewed=9223372036854775808 lost_after=-5 = ==", "\xff\x00", strings.Repeat("x", 5000)} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = root.Close() })
	order := seat.Order{Spec: Spec{Key: Key{Job: "j", Fence: 1}, LostAfter: time.Minute, Grace: time.Second}}
	if err := os.MkdirAll(filepath.Join(dir, seatsDir, order.Key.String()), 0o700); err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(dir, seatsDir, order.Key.String(), seat.ControlFile)
	f.Fuzz(func(t *testing.T, answer []byte) {
		if len(answer) == 0 || len(answer) > 4<<10 {
			return // the connection was closed, because a supervisor never sends such a long answer
		}
		_ = os.Remove(path)
		listener, err := net.Listen("unixpacket", path)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, end := listener.Accept()
				if end != nil {
					return
				}
				_, cut := conn.Read(make([]byte, 4<<10))
				_, lost := conn.Write(answer)
				if bad := errors.Join(cut, lost, conn.Close()); bad != nil {
					t.Error(bad)
				}
			}
		}()
		defer func() { _ = listener.Close(); <-done }()
		r := &Runner{root: root}
		p := r.adopt(t.Context(), order)
		if p.Key() != order.Key {
			t.Fatalf("adopted as %v", p.Key())
		}
		before, sent := p.RenewedAt(), Now()
		err = p.Renewed(t.Context(), sent)
		agreed := string(answer) == "ok" || bytes.HasPrefix(answer, []byte("ok "))
		if agreed != (err == nil) || err == nil && p.RenewedAt() != max(before, sent) || err != nil && p.RenewedAt() != before {
			t.Fatalf("%q renews from %d to %d: %v", answer, before, p.RenewedAt(), err)
		}
		if errors.Is(err, ErrFenced) != (string(answer) == "refused fenced") {
			t.Fatalf("%q: %v", answer, err)
		}
	})
}

// FuzzLog reads the output of a job whose log was rotated at an arbitrary point. The fuzz test reads the log from the beginning,
// from an arbitrary offset, and from the start of the last lines.
func FuzzLog(f *testing.F) {
	f.Add([]byte("one\ntwo\nthree"), uint16(4), uint16(5), 2, int64(3))
	f.Add([]byte("\n\n\n"), uint16(0), uint16(9), 1, int64(-1))
	f.Add([]byte("x\r\n\xff\x00y\n"), uint16(1), uint16(2), 0, int64(1<<62))
	f.Add([]byte(""), uint16(0), uint16(0), 5, int64(0))
	f.Fuzz(func(t *testing.T, whole []byte, skip, cut uint16, lines int, offset int64) {
		dir := t.TempDir()
		first := min(int(skip), len(whole))
		second := min(first+int(cut), len(whole))
		for at, part := range map[int][]byte{first: whole[first:second], second: whole[second:]} {
			if at == first && second == first {
				part = whole[first:]
			}
			if err := os.WriteFile(filepath.Join(dir, seat.LogName(int64(at))), part, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		l := newLog(root, follower{watches: new(atomic.Int32)})
		if got := drainLog(t.Context(), t, l, false); got != string(whole[first:]) || l.Offset() != int64(len(whole)) {
			t.Fatalf("%q is read as %q, up to %d", whole[first:], got, l.Offset())
		}
		l.SeekTo(offset)
		from := int(min(max(offset, int64(first)), int64(len(whole))))
		if got := drainLog(t.Context(), t, l, false); got != string(whole[from:]) {
			t.Fatalf("from %d: %q", offset, got)
		}
		if err := l.Tail(lines); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if got, want := drainLog(t.Context(), t, l, false), lastLines(whole[first:], lines); got != want {
			t.Fatalf("the last %d lines are %q, want %q", lines, got, want)
		}
	})
}

func lastLines(b []byte, n int) string {
	all := bytes.SplitAfter(b, []byte("\n"))
	if len(all[len(all)-1]) == 0 {
		all = all[:len(all)-1]
	}
	return string(bytes.Join(all[len(all)-min(max(n, 0), len(all)):], nil))
}
