//go:build linux

package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// startTimes are the times from the start of a job until the end of its program, which does nothing.
type startTimes struct{ plain, image, runtime []time.Duration }

// BenchmarkStartInImage compares a job in an image, whose layers are on the node, with a job without an image and with `runc run` of the same
// container, in turns. The aim: what the image adds to a job is at most 15 ms more than `runc run` alone. Results are medians.
func BenchmarkStartInImage(b *testing.B) {
	r, spec := startWorld(b)
	run := runcAlone(b, r, spec)
	var times startTimes
	for b.Loop() {
		times.measure(b, r, spec, run)
	}
	ms := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	plain, image, alone := ms(times.plain), ms(times.image), ms(times.runtime)
	b.ReportMetric(plain, "plain-ms")
	b.ReportMetric(image, "image-ms")
	b.ReportMetric(alone, "runc-ms")
	b.ReportMetric(image-plain-alone, "over-runc-ms")
}

// TestStartInImageIsMeasured runs what BenchmarkStartInImage measures, because nobody sees early that a benchmark has stopped working. On a
// busy machine the times say nothing.
func TestStartInImageIsMeasured(t *testing.T) {
	r, spec := startWorld(t)
	run := runcAlone(t, r, spec)
	var times startTimes
	for range 2 {
		times.measure(t, r, spec, run)
	}
	t.Logf("%+v", times)
}

// startWorld returns a runner, and a job in an image that has only the supervisor's program.
func startWorld(tb testing.TB) (*Runner, Spec) {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("only root has other users")
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		tb.Fatal("this needs runc: run `make needs`, or install it")
	}
	dir := tb.TempDir()
	r, err := Open(dir, supervisorPath)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		r.spares.close()
		err := r.Close()
		if r.cgroup != "" {
			err = errors.Join(err, r.cgroup.Remove())
		}
		for _, g := range r.limits.v1 {
			err = errors.Join(err, g.Remove())
		}
		if err != nil {
			tb.Error(err)
		}
	})
	if ok, why := r.Contained(); !ok {
		tb.Skipf("no containment here: %s", why)
	}
	layers := filepath.Join(dir, "layers")
	tree := filepath.Join(layers, "program", seat.LayerTree)
	program, err := os.ReadFile(supervisorPath)
	if err == nil {
		err = os.MkdirAll(tree, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(tree, "program"), program, 0o755)
	}
	if err != nil {
		tb.Fatal(err)
	}
	spec := apart(sh(""))
	// In a cgroup with a limit of processor time, a job has its own share of a busy machine, and runc alone has not.
	spec.Limits = Limits{}
	spec.Container = Container{Runtime: runc, Dir: layers, Layers: []string{"program"}}
	spec.Argv = []string{"/program", seat.Probe}
	return r, spec
}

// The method `measure` runs each of the three once.
func (s *startTimes) measure(tb testing.TB, r *Runner, spec Spec, runc func() (time.Duration, error)) {
	tb.Helper()
	job := func(spec Spec, list *[]time.Duration) {
		tb.Helper()
		spec.Key.Rank, spec.RenewedAt = len(s.plain)+len(s.image), Now()
		begun := time.Now()
		p, err := r.Start(tb.Context(), spec)
		if err != nil {
			tb.Fatal(err)
		}
		res, err := p.Wait(tb.Context())
		*list = append(*list, time.Since(begun))
		if err != nil || res.Outcome != Exited || res.ExitCode != 0 {
			tb.Fatalf("%+v %v", res, err)
		}
		if err := errors.Join(r.EnsureDead(tb.Context(), p.Key()), r.Forget(p.Key())); err != nil {
			tb.Fatal(err)
		}
	}
	plain := spec
	plain.Container, plain.Argv = Container{}, []string{supervisorPath, seat.Probe}
	job(plain, &s.plain)
	job(spec, &s.image)
	took, err := runc()
	if err != nil {
		tb.Fatal(err)
	}
	s.runtime = append(s.runtime, took)
}

// runcAlone returns a function that runs the container of a job with `runc run`. The mounts of the job's sandbox are empty directories. As for
// jobs, runc sees only cgroup2, and the image's layer is below an overlay: this is in the mount namespace of one thread.
func runcAlone(tb testing.TB, r *Runner, spec Spec) func() (time.Duration, error) {
	tb.Helper()
	dir := tb.TempDir()
	order := seat.Order{Spec: spec, Cgroup: string(r.cgroup) + "/runc", Tmp: "/tmp"}
	config, err := r.bundle(&order)
	if err != nil {
		tb.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	config.Process.Args, config.Root.Path = spec.Argv, at("rootfs")
	for _, name := range []string{"rootfs", "upper", "work", "state", "empty"} {
		if err = os.Mkdir(at(name), 0o755); err != nil { //nolint:gosec // the job's user enters it
			tb.Fatal(err)
		}
	}
	for i := range config.Mounts {
		if m := &config.Mounts[i]; strings.HasPrefix(m.Source, seat.SandboxDir) {
			m.Source = at("empty")
		}
	}
	b, err := json.Marshal(config)
	if err == nil {
		err = os.WriteFile(at("config.json"), b, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	requests, answers := make(chan int), make(chan error)
	tb.Cleanup(func() { close(requests) })
	go func() {
		runtime.LockOSThread() // and never unlocked, so the thread and its mounts end with this function
		options := "lowerdir=" + filepath.Join(spec.Container.Dir, spec.Container.Layers[0], seat.LayerTree) + ",upperdir=" + at("upper") + ",workdir=" + at("work") + ",userxattr"
		err := syscall.Unshare(syscall.CLONE_NEWNS)
		if err == nil {
			err = syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
		}
		if err == nil {
			err = syscall.Mount("overlay", at("rootfs"), "overlay", 0, options)
		}
		if err == nil && r.cgroupMount != "/sys/fs/cgroup" {
			err = syscall.Mount(r.cgroupMount, "/sys/fs/cgroup", "", syscall.MS_BIND, "")
		}
		for n := range requests {
			if err == nil {
				c := exec.Command(spec.Container.Runtime, "--root", at("state"), "run", "--bundle", dir, fmt.Sprint("bench-", n))
				var out bytes.Buffer
				c.Stdout, c.Stderr = &out, &out
				if bad := c.Run(); bad != nil {
					err = fmt.Errorf("runc run: %w: %s", bad, &out)
				}
			}
			answers <- err
		}
	}()
	n := 0
	return func() (time.Duration, error) {
		n++
		begun := time.Now()
		requests <- n
		err := <-answers
		return time.Since(begun), err
	}
}
