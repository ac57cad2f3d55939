//go:build linux

package run

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A job must not make a node look broken: several failed starts of jobs take the node out of service for a while. So whatever an image or the
// size of a job does to the runtime is the job's own failure.
func TestContainerImageAtFault(t *testing.T) {
	w := newWorld(t)
	link := func(to, name string) func(dir string) {
		return func(dir string) { w.link(to, filepath.Join(dir, name)) }
	}
	file := func(content, name string) func(dir string) {
		return func(dir string) { w.put(filepath.Join(dir, name), content) }
	}
	directory := func(name string) func(dir string) {
		return func(dir string) { w.makeDir(filepath.Join(dir, name), 0o755) }
	}
	pipe := func(name string) func(dir string) {
		return func(dir string) {
			if err := syscall.Mkfifo(filepath.Join(dir, name), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	const runs, accounts, devices = "", "/etc/", "/opt/driver"
	cases := map[string]struct {
		fill func(dir string) // of the image, which has /etc and /opt
		want string
	}{
		"resolver-is-directory": {directory("etc/resolv.conf"), runs},
		"hosts-is-directory":    {directory("etc/hosts"), runs},
		"hosts-loops":           {link("hosts", "etc/hosts"), runs},
		"hosts-below-a-file":    {link("passwd/hosts", "etc/hosts"), runs},
		"hosts-in-proc":         {link("/proc/hosts", "etc/hosts"), runs},
		"hosts-in-sys":          {link("/sys/hosts", "etc/hosts"), runs},
		"hosts-too-long":        {link("/"+strings.Repeat("x", 300), "etc/hosts"), runs},
		"hosts-is-the-root":     {link("/", "etc/hosts"), runs},
		"passwd-is-directory":   {directory("etc/passwd"), accounts},
		"passwd-is-pipe":        {pipe("etc/passwd"), accounts},
		"passwd-is-terminal":    {link("/dev/ptmx", "etc/passwd"), accounts},
		"passwd-is-zero":        {link("/dev/zero", "etc/passwd"), accounts},
		"passwd-is-order":       {link("/proc/self/fd/3", "etc/passwd"), accounts},
		"passwd-is-long":        {file(strings.Repeat("x", 100<<10), "etc/passwd"), accounts},
		"group-is-directory":    {directory("etc/group"), accounts},
		"group-is-pipe":         {pipe("etc/group"), accounts},
		"library-is-directory":  {directory("opt/driver"), devices},
		"library-loops":         {link("driver", "opt/driver"), devices},
		"library-in-proc":       {link("/proc/driver", "opt/driver"), devices},
		"library-in-dev":        {link("/dev/shm/driver", "opt/driver"), devices},
		"library-in-tmp":        {link("../tmp/driver", "opt/driver"), devices},
		"library-in-work":       {link("/run/ares/work/driver", "opt/driver"), devices},
		"library-by-detour":     {link("../opt/../dev/../dev/shm", "opt/driver"), devices},
	}
	library := filepath.Join(w.open(), "library")
	w.put(library, "driver\n")
	specs := writeSpecs(t, deviceSpec("0", `"mounts": [{"hostPath": "`+library+`", "containerPath": "/opt/driver", "options": ["bind", "ro"]}]`))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w.makeLayer(name, func(dir string) {
				for _, d := range []string{"etc", "opt"} {
					w.makeDir(filepath.Join(dir, d), 0o755)
				}
				if !strings.Contains(name, "passwd") {
					w.put(filepath.Join(dir, "etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n")
				}
				c.fill(dir)
			})
			spec := w.inImage(sh("true"))
			spec.Key = key(name)
			spec.Container.Layers = append(spec.Container.Layers, name)
			if c.want == devices {
				spec.Container.Devices, spec.Container.DeviceSpecs = []string{"test.dev/gpu=0"}, specs
			}
			res := w.wait(w.start(spec))
			if c.want == runs {
				if res.Outcome != Exited || res.ExitCode != 0 {
					t.Errorf("the result is %+v", res)
				}
				return
			}
			if res.Outcome != SpawnError || !strings.Contains(res.Reason, c.want) || !strings.Contains(res.Reason, "the image") {
				t.Errorf("the result is %+v, want the reason %q", res, c.want)
			}
		})
	}
}

// A job whose memory is too small for the runtime itself must not make a node look broken either.
func TestContainerTooLittleMemory(t *testing.T) {
	w := newWorld(t)
	if !w.limited("memory") {
		return
	}
	for _, mb := range []int64{1, 2, 4, 8} {
		spec := w.inImage(sh("true"))
		spec.Key, spec.Limits.MemoryMB = key(fmt.Sprint("memory-", mb)), mb
		res := w.wait(w.start(spec))
		if res.Outcome != OutOfMemory && res.Outcome != Exited {
			t.Errorf("%d MB: the result is %+v", mb, res)
		}
	}
}
