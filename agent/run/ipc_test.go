//go:build linux

package run

import (
	"os"
	"slices"
	"testing"
)

// ipcOf returns how many System V objects of each kind a user has.
func ipcOf(t *testing.T, uid string) (counts []int) {
	t.Helper()
	for _, kind := range ipcKinds {
		table, err := os.ReadFile("/proc/sysvipc/" + kind.file)
		if err != nil {
			t.Skip("no System V objects here")
		}
		counts = append(counts, len(ipcObjects(string(table), uid)))
	}
	return counts
}

// TestSystemVIsRemoved checks that the System V objects of a job with several ranks are gone once the last rank of its user is forgotten, and
// not before.
func TestSystemVIsRemoved(t *testing.T) {
	w := needSandbox(t)
	owner, uid := &User{UID: 1879048202, GID: 1879048202}, "1879048202" // other tests have other users
	rank := func(n int) Spec {
		spec := apart(sh("exec " + SandboxWork + "/intruder sysv="))
		spec.User, spec.Rank, spec.Sandbox.ShmMB, spec.Sandbox.ShareShm, spec.Sandbox.OwnUser = owner, n, 8, true, true
		spec.Sandbox.Scratch = w.withIntruder()
		return spec
	}
	first, second := rank(0), rank(1)
	t.Cleanup(func() { // if the test fails
		for _, kind := range ipcKinds {
			table, _ := os.ReadFile("/proc/sysvipc/" + kind.file)
			for _, id := range ipcObjects(string(table), uid) {
				_ = kind.remove(id)
			}
		}
	})
	for _, spec := range []Spec{first, second} {
		w.want(w.start(spec), Exited, 0)
		if said := w.log(spec.Key); said != "sysv=: did\n" {
			t.Fatalf("rank %d: %s", spec.Rank, said)
		}
	}
	for i, spec := range []Spec{first, second} {
		if err := w.Forget(spec.Key); err != nil {
			t.Fatal(err)
		}
		want := []int{2, 2, 2}
		if i == 1 {
			want = []int{0, 0, 0}
		}
		if got := ipcOf(t, uid); !slices.Equal(got, want) {
			t.Errorf("after rank %d, this is left: %v, want %v", i, got, want)
		}
	}
	// A job with one rank has objects of its own.
	spec := rank(2)
	spec.Sandbox.ShareShm = false
	w.want(w.start(spec), Exited, 0)
	if got := ipcOf(t, uid); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("of a job with one rank, this is left: %v", got)
	}
}

// TestObjectsOfAUser checks which lines of /proc/sysvipc belong to a user: those that it owns or has created.
func TestObjectsOfAUser(t *testing.T) {
	const table = "       key      shmid perms       size  cpid  lpid nattch   uid   gid  cuid  cgid\n" +
		"         0          7   600    1048576    10     0      0  2000  2000  2000  2000\n" +
		"         0          8   600    1048576    10     0      0     0     0     0     0\n" +
		"         0          9   600    1048576    10     0      0     0     0  2000  2000\n" +
		"broken\n"
	if got := ipcObjects(table, "2000"); !slices.Equal(got, []uintptr{7, 9}) {
		t.Errorf("objects %v", got)
	}
	if got := ipcObjects("", "2000"); len(got) != 0 {
		t.Errorf("objects %v", got)
	}
}
