package nvidia

import (
	"os"
	"strings"
	"syscall"
	"testing"
)

// After a start of the machine, /dev/nvidia-uvm is missing until a program uses CUDA. In an image, none could.
func TestMakeDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root makes device files")
	}
	m := machine(t)
	if err := os.Remove(m.path(uvmDevice)); err != nil {
		t.Fatal(err)
	}
	if err := MakeDevices(m.root); err == nil || !strings.Contains(err.Error(), "run nvidia-modprobe") {
		t.Errorf("without the module: %v", err)
	}
	own := t.TempDir()
	generate := func() {
		t.Helper()
		spec, err := Generate(m.root, []string{first})
		if err == nil {
			err = Write(own, spec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	generate()
	if !IsComplete(m.root, own) {
		t.Error("the specification has all device files that there are")
	}
	m.put(t, devicesFile, "Character devices:\n  1 mem\n195 nvidia\n511 nvidia-uvm\n\nBlock devices:\n")
	m.put(t, driverOptions, "ModifyDeviceFiles: 0\nDeviceFileMode: 438\n")
	if err := MakeDevices(m.root); err == nil || !strings.Contains(err.Error(), "NVreg_ModifyDeviceFiles") {
		t.Errorf("against the driver's option: %v", err)
	}
	m.put(t, driverOptions, "ModifyDeviceFiles: 1\nDeviceFileMode: 432\nDeviceFileUID: 0\nDeviceFileGID: 44\n")
	if err := MakeDevices(m.root); err != nil {
		t.Fatal(err)
	}
	for minor, name := range []string{uvmDevice, uvmDevice + "-tools"} {
		var st syscall.Stat_t
		if err := syscall.Stat(m.path(name), &st); err != nil || st.Mode != syscall.S_IFCHR|0o660 || st.Gid != 44 || st.Rdev != uint64(511<<8|minor) {
			t.Errorf("%s is %+v: %v", name, st, err)
		}
	}
	if IsComplete(m.root, own) {
		t.Error("the specification lacks a device file")
	}
	generate()
	if !IsComplete(m.root, own) {
		t.Error("the new specification lacks a device file")
	}
}
