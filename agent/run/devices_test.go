//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// closedDevice is a device that many machines have, and whose opening changes nothing. It stands for the GPU of another job.
var closedDevice = int(unix.Mkdev(10, 237))

// deviceFile makes a file for a device that every user may open.
func (w *world) deviceFile(name string, kind uint32, device int) string {
	w.Helper()
	path := filepath.Join(w.open(), name)
	err := syscall.Mknod(path, kind|0o666, device)
	if err == nil {
		err = os.Chmod(path, 0o666)
	}
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_WRONLY, 0)
	}
	if err != nil {
		w.Skip("this machine has no such device, or allows none in this directory: ", err)
	}
	_ = f.Close()
	return path
}

// TestDeviceFilter checks that a job cannot open a device that it was not given, whatever the path of its file is, and that the same holds for
// commands of sessions. The job can open what it was given, and what every program needs.
func TestDeviceFilter(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	if w.noDevices != "" {
		t.Fatal("this machine cannot test the device filter: " + w.noDevices)
	}
	file, second := w.deviceFile("file", syscall.S_IFCHR, closedDevice), w.deviceFile("second", syscall.S_IFCHR, closedDevice)
	disk := w.deviceFile("disk", syscall.S_IFBLK, int(unix.Mkdev(7, 0)))
	for i, c := range []struct {
		name           string
		filter         bool
		devices, hide  []string
		wants, ofDisks string
	}{
		{"no filter", false, nil, nil, "did", "did"}, // otherwise the test would prove nothing
		{"not given", true, nil, nil, notPermitted, notPermitted},
		{"given", true, []string{filepath.Dir(file) + "/*", disk}, nil, "did", notPermitted},
		{"hidden by another path", true, []string{file}, []string{second}, notPermitted, notPermitted},
		{"a pattern without files", true, []string{"/dev/no-such-device*"}, nil, notPermitted, notPermitted},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := apart(sh(""))
			spec.Key, spec.Rank = key("intruder"), i
			spec.Sandbox.Scratch = w.withIntruder()
			spec.Sandbox.FilterDevices, spec.Sandbox.Devices, spec.Sandbox.Hide = c.filter, c.devices, c.hide
			want := map[string]string{
				"write=" + file: c.wants, "write=" + disk: c.ofDisks, "write=/dev/null": "did", "write=/dev/zero": "did", "write=/dev/full": "did",
				"write=/dev/ptmx": "did", "write=/dev/random": "did", "list=/dev/pts": "did",
			}
			argv := []string{SandboxWork + "/intruder"}
			for attempt := range want {
				argv = append(argv, attempt)
			}
			spec.Argv = []string{"sh", "-c", strings.Join(argv, " ") + "; echo ready: yes; exec sleep 1000"}
			p := w.start(spec)
			if err := until(w.ctx, func() bool { return answers(w.log(spec.Key))["ready"] != "" }); err != nil {
				t.Fatal(err, w.log(spec.Key))
			}
			out, _, _, _ := w.output(w.exec(p, Command{Argv: argv}), "")
			for who, said := range map[string]map[string]string{"the job": answers(w.log(spec.Key)), "a command of a session": answers(out)} {
				for attempt, answer := range want {
					if !strings.HasSuffix(said[attempt], answer) {
						t.Errorf("%s: %s: %q, want %q", who, attempt, said[attempt], answer)
					}
				}
			}
			x := w.exec(p, Command{Argv: []string{"sh", "-c", "echo on the terminal > /dev/tty"}, Terminal: true})
			w.expect(x, "on the terminal")
			if err := p.Kill(w.ctx); err != nil {
				t.Error(err)
			}
			w.wait(p)
		})
	}
}

// TestDeviceFilterFails uses a machine without filters of devices, and a job that could remove its filter. Neither may start a job without one.
func TestDeviceFilterFails(t *testing.T) {
	needRoot(t)
	w := newWorld(t)
	spec := apart(sh("true"))
	spec.Sandbox.FilterDevices = true
	w.noDevices = "the test says so"
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "the test says so") {
		t.Errorf("started without a filter: %v", err)
	}
	w.noDevices, spec.User, spec.Sandbox = "", nil, Sandbox{FilterDevices: true}
	if _, err := w.Start(w.ctx, spec); err == nil || !strings.Contains(err.Error(), "separate user") {
		t.Errorf("started as root: %v", err)
	}
	if err := filterDevices(filepath.Join(w.dir, seat.JobGroup), basicDevices); err == nil {
		t.Error("a filter for a directory that does not exist")
	}
}
