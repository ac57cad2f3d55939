//go:build linux

package seat

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzNames parses the names of directory entries, some of which may not belong to Ares.
func FuzzNames(f *testing.F) {
	for _, s := range []string{
		"train.v2.12345.3", "a.0.0", "a.01.2", "..1.2", "-a.1.2", "a.9223372036854775808.1", "a.1.-0", "log.00000000000000000042", "log.-0000000000000000001", "log.+0000000000000000001", "log.9999999999999999999", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if k, ok := ParseKey(name); ok && (k.String() != name || k.Check() != nil || filepath.Base(name) != name || name[0] == '.' || len(name) > 255) {
			t.Fatalf("%q is seat %+v", name, k)
		}
		if at, ok := ParseLogName(name); ok && (at < 0 || LogName(at) != name) {
			t.Fatalf("%q is the log from %d on", name, at)
		}
	})
}

// FuzzExec parses the command that an agent passes to a supervisor.
func FuzzExec(f *testing.F) {
	whole := (&Exec{Argv: []string{"sh", "-c", "echo\n"}, Env: []string{"TERM=dumb"}, Groups: []uint32{44, 1<<32 - 1}, Terminal: true}).Encode()
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add((&Exec{}).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := DecodeExec(b)
		if err != nil {
			return
		}
		again, err := DecodeExec(x.Encode())
		if err != nil || !slices.Equal(again.Argv, x.Argv) || !slices.Equal(again.Env, x.Env) || !slices.Equal(again.Groups, x.Groups) || again.Terminal != x.Terminal {
			t.Fatalf("%+v becomes %+v, %v", x, again, err)
		}
	})
}

// FuzzKernelFiles parses the kernel's files about a cgroup and a process. A cgroup counts as empty only when the kernel
// says so. A process chooses its own name, which must not change the parsed parent or state.
func FuzzKernelFiles(f *testing.F) {
	f.Add([]byte("populated 0\nfrozen 0\n"), []byte("sleep"))
	f.Add([]byte("frozen 0\npopulated 1\n"), []byte(") R 1 ("))
	f.Add([]byte("populated"), []byte("a b\nc"))
	f.Add([]byte("populated 00\n"), []byte(")"))
	f.Add([]byte("usage_usec 12345\nuser_usec 1\n"), []byte("\xff("))
	f.Add([]byte("9223372036854775807"), []byte(" Z 0 "))
	f.Add([]byte("oom_kill 3\n"), []byte("x"))
	f.Add([]byte("1\n2\n-1\n0\n"), []byte("x"))
	dir := f.TempDir()
	ppid := os.Getppid()
	f.Fuzz(func(t *testing.T, file, name []byte) {
		for _, n := range []string{"cgroup.events", "cpu.stat", "memory.peak", "memory.events", "cgroup.procs"} {
			if err := os.WriteFile(filepath.Join(dir, n), file, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		group := Cgroup(dir)
		populated, err := group.Populated()
		said := false
		for line := range strings.Lines(string(file)) {
			v, ok := strings.CutPrefix(line, "populated ")
			said = said || ok && strings.TrimSpace(v) == "0"
		}
		if !populated && (!said || err != nil) {
			t.Fatalf("%q is taken for an empty cgroup: %v", file, err)
		}
		_, _, _ = group.CPU(), group.PeakMemory(), OOMKills(dir)
		// A process that is not in the cgroup must not be killed, whatever PID the cgroup's file lists.
		if n, err := (Group{Dir: dir}).Kill(); err != nil || n != 0 {
			t.Fatalf("%q: %d processes were killed, %v", file, n, err)
		}
		if hasEntry(file, name) != bytes.Contains(append(append([]byte{0}, file...), 0), append(append([]byte{0}, name...), 0)) && !bytes.Contains(name, []byte{0}) {
			t.Fatalf("%q in %q", name, file)
		}
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if err := os.WriteFile("/proc/self/comm", name, 0); err != nil && len(name) > 0 {
			t.Fatal(err)
		}
		if up, state, ok := stat(os.Getpid()); !ok || up != ppid || strings.IndexByte("RSD", state) < 0 {
			t.Fatalf("called %q, this process has parent %d, not %d, and state %q", name, up, ppid, state)
		}
	})
}
