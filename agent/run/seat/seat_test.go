//go:build linux

package seat

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func order() Order {
	return Order{
		Spec: Spec{
			Key: Key{Job: "train.v2", Fence: 12345, Rank: 3}, Attempt: 2,
			Argv: []string{"sh", "-c", "echo \n", ""}, Env: []string{"A=1\nB", "C=\xff"}, Dir: "/tmp",
			User: &User{UID: 1, GID: 2, Groups: []uint32{3, 4}}, Limits: Limits{MilliCPU: 5, MemoryMB: 6, Pids: 7},
			Sandbox: Sandbox{Private: true, OwnTmp: true, Scratch: "/s", Hide: []string{"/dev/a", "/dev/b"}, ShmMB: 1, ShareShm: true, Shm: "/shm", TmpMB: 2, WorkMB: 3, DiskMB: 4, Scoped: true, OwnUser: true, Seccomp: true, UserNamespaces: true}, LostAfter: time.Minute, MaxRuntime: time.Hour,
			Grace: time.Second, RenewedAt: 99, LogLimit: 1 << 20,
			Container: Container{
				Runtime: "/runc", Dir: "/l", Layers: []string{"a", "b"}, CgroupMount: "/g", Data: "/d",
				Root: true, Mounts: []Mount{{Source: "/data/x", Target: "/x", Below: "/data", ReadOnly: true}, {Source: "/y", Target: "/z", Below: "/y"}},
			},
		},
		Cgroup: "/sys/fs/cgroup/x", Mark: "id/seat", Progress: "/p", Checkpoint: "/c",
		Tmp: "/t", Groups: []Group{{Dir: "/m/ares/x", Back: "/m"}, {Dir: "/p/ares/x", Back: "/p"}}, MemoryGroup: "/m/ares/x", CPUGroup: "/c/ares/x", PidsByUser: true, SecretCount: 1, SecretsDir: "/x",
	}
}

func TestOrderRoundTrip(t *testing.T) {
	want := order()
	got, err := DecodeOrder(want.Encode())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v %v", got, err)
	}
}

func TestResultRoundTrip(t *testing.T) {
	want := Result{
		Outcome: Exited, Reason: "a\nb", ExitCode: -1, Signal: 9, Started: time.Unix(1, 2), Ended: time.Unix(3, 4),
		CPU: 5, PeakMemory: 6, Contained: true, LogDropped: 7,
	}
	if got, err := DecodeResult(want.Encode()); err != nil || got != want {
		t.Errorf("%+v %v", got, err)
	}
	want = Result{Outcome: SpawnError, Reason: strings.Repeat("ü", MaxReason), Ended: time.Unix(0, 1)}
	b := want.Encode()
	if got, err := DecodeResult(b); err != nil || len(b) > 4<<10 || !strings.HasPrefix(want.Reason, got.Reason) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}

// TestTorn checks that a truncated file, or one in which any byte was changed, is rejected.
func TestTorn(t *testing.T) {
	r := Result{Outcome: Exited, ExitCode: 0, Ended: time.Unix(3, 4)}
	o := order()
	for _, whole := range [][]byte{r.Encode(), o.Encode()} {
		for i := range whole {
			if _, err := decode(whole[:i]); err == nil {
				t.Errorf("cut at %d", i)
			}
			damaged := append([]byte(nil), whole...)
			damaged[i] ^= 0x10
			if _, err := decode(damaged); err == nil {
				t.Errorf("byte %d changed", i)
			}
		}
		if _, err := decode(append(whole, 0)); err == nil {
			t.Error("something appended")
		}
	}
	if _, err := decode(make([]byte, 4096)); err == nil {
		t.Error("zeros, as in the reserved file")
	}
}

// TestUserOutOfRange checks that a user ID that is too large does not become 0, which is root's ID.
func TestUserOutOfRange(t *testing.T) {
	for _, id := range []string{"4294967296", "-1"} {
		for _, key := range []string{"uid", "gid"} {
			o := order()
			b := o.Encode()
			e := &encoder{b: b[:len(b)-crcSize]}
			e.str(key, id)
			if got, err := DecodeOrder(e.finish()); !errors.Is(err, ErrTorn) {
				t.Errorf("%s %s is read as %+v, %v", key, id, got.User, err)
			}
		}
	}
}

func TestKeyNames(t *testing.T) {
	for _, k := range []Key{{"a", 0, 0}, {"a.b-c_9", 1 << 60, 7}, {"x.1.2", 3, 4}} {
		if got, ok := ParseKey(k.String()); !ok || got != k {
			t.Errorf("%v: %v %v", k, got, ok)
		}
	}
	for _, name := range []string{"", "a", "a.1", "a.1.", "a.01.2", "a.+1.2", "a.-1.2", "../a.1.2", ".a.1.2", "a b.1.2"} {
		if k, ok := ParseKey(name); ok {
			t.Errorf("%q is %v", name, k)
		}
	}
}

func TestLogNames(t *testing.T) {
	for _, at := range []int64{0, 5, 1<<63 - 1} {
		if got, ok := ParseLogName(LogName(at)); !ok || got != at {
			t.Errorf("%d: %d %v", at, got, ok)
		}
	}
	for _, name := range []string{"log", "log.", "log.1", "log.-0000000000000000001", "log.+0000000000000000001", "log.-0000000000000000000", "lock"} {
		if _, ok := ParseLogName(name); ok {
			t.Errorf("%q passed", name)
		}
	}
}

func TestDeadlines(t *testing.T) {
	s := Spec{LostAfter: 20 * time.Second}
	from := BootTime(1000)
	for name, c := range map[string]struct {
		got  BootTime
		want time.Duration
	}{
		"decide": {s.DecideAt(from), 10 * time.Second}, "term": {s.TermAt(from), 12 * time.Second},
		"kill": {s.KillAt(from), 14 * time.Second}, "overdue": {s.OverdueAt(from), 15 * time.Second},
	} {
		if c.got.Sub(from) != c.want {
			t.Errorf("%s after %v, want %v", name, c.got.Sub(from), c.want)
		}
	}
	if a, b := Now(), Now(); a <= 0 || b < a {
		t.Errorf("the clock goes from %d to %d", a, b)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	open := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	holder, asker := open(), open()
	defer asker.Close()
	check := func(want bool) {
		t.Helper()
		if got, err := Locked(asker); err != nil || got != want {
			t.Errorf("locked: %v %v, want %v", got, err, want)
		}
	}
	check(false)
	if err := Lock(holder); err != nil {
		t.Fatal(err)
	}
	check(true)
	if err := Lock(asker); err == nil {
		t.Error("locked twice")
	}
	_ = holder.Close()
	check(false)
}

func FuzzDecode(f *testing.F) {
	o := order()
	whole := Result{
		Outcome: Exited, Reason: "a\nb", ExitCode: -1, Signal: 9, Started: time.Unix(1, 2), Ended: time.Unix(3, 4), CPU: 5, PeakMemory: 6, Contained: true, LogDropped: 7,
	}
	for _, b := range [][]byte{o.Encode(), whole.Encode()} {
		f.Add(b)
		f.Add(b[len(magic) : len(b)-crcSize])
	}
	plain := "job 1\na\narg 1\na\ndir 1\n/\nlost_after 10\n1000000000\nlog_limit 5\n99999\nrenewed_at 1\n1\n"
	for _, more := range []string{"", "uid 10\n4294967296\n", "gid 2\n-1\n", "rank 2\n07\n", "key 3\nnew\n", "grace 1\nx\n", "env -1\n\n", "env 9999\na\n"} {
		f.Add([]byte(plain + more))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		// The input gets a valid checksum, so that the fuzzer reaches the parser.
		for _, in := range [][]byte{b, (&encoder{b: append([]byte(magic), b...)}).finish()} {
			if o, err := DecodeOrder(in); err == nil {
				again, err := DecodeOrder(o.Encode())
				if err != nil || !reflect.DeepEqual(again, o) {
					t.Fatalf("%+v is read as %+v, %v", o, again, err)
				}
			}
			if r, err := DecodeResult(in); err == nil && !r.Ended.IsZero() {
				again, err := DecodeResult(r.Encode())
				if len(r.Reason) > MaxReason {
					again.Reason = r.Reason // it may have been truncated
				}
				if err != nil || again != r {
					t.Fatalf("%+v is read as %+v, %v", r, again, err)
				}
			}
		}
	})
}

func TestParseLock(t *testing.T) {
	for _, c := range []struct {
		content string
		pid     int
		errors  string
	}{
		{"", 0, ""},
		{"123\n", 123, ""},
		{"123\nares-supervisor: read spec\n", 123, "ares-supervisor: read spec\n"},
		{"ares-supervisor: started by hand\n", 0, "ares-supervisor: started by hand\n"}, // it died before it wrote its PID
		{"-1\n", 0, "-1\n"},
	} {
		if pid, errors := ParseLock(c.content); pid != c.pid || errors != c.errors {
			t.Errorf("%q: %d %q", c.content, pid, errors)
		}
	}
}
