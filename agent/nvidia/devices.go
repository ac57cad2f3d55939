package nvidia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// The driver does not make its device files. For a program without a container, the first use of CUDA starts nvidia-modprobe, which loads the
// module for unified memory and makes /dev/nvidia-uvm. In a container nothing can, so the node must have the file before.

const (
	uvmDevice     = "/dev/nvidia-uvm"
	uvmModule     = "nvidia-uvm"
	devicesFile   = "/proc/devices"
	driverOptions = "/proc/driver/nvidia/params"
	loadTime      = 10 * time.Second
	usualMode     = 0o666
)

// loaders load the module for unified memory; the first one also makes the files.
var loaders = [][]string{{"nvidia-modprobe", "-u", "-c=0"}, {"modprobe", uvmModule}}

// LoadModule loads the module for unified memory if it is missing. MakeDevices says what is missing after that.
func LoadModule(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	for _, argv := range loaders {
		if t := (tree{"/"}); t.has(uvmDevice) || t.major() != 0 {
			return
		}
		_ = exec.CommandContext(ctx, argv[0], argv[1:]...).Run()
	}
}

// MakeDevices makes /dev/nvidia-uvm and /dev/nvidia-uvm-tools if they are missing, as nvidia-modprobe does. The argument `root` is the root
// directory of the machine.
func MakeDevices(root string) error {
	t := tree{root}
	if t.has(uvmDevice) {
		return nil
	}
	major := t.major()
	if major == 0 {
		return fmt.Errorf("there is no %s, without which CUDA does not work in images: run nvidia-modprobe -u -c=0", uvmDevice)
	}
	mode, uid, gid, err := t.owner()
	if err != nil {
		return err
	}
	for minor, name := range []string{uvmDevice, uvmDevice + "-tools"} {
		path := t.path(name)
		err := unix.Mknod(path, unix.S_IFCHR, int(unix.Mkdev(uint32(major), uint32(minor))))
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = errors.Join(os.Chown(path, uid, gid), os.Chmod(path, mode))
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", name, err)
		}
	}
	return nil
}

func (t tree) has(name string) bool {
	_, err := os.Stat(t.path(name))
	return err == nil
}

// The method `major` returns the number of the devices for unified memory, or 0 if their module is not loaded.
func (t tree) major() int {
	b, _ := os.ReadFile(t.path(devicesFile))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 2 && f[1] == uvmModule {
			n, _ := strconv.Atoi(f[0])
			return n
		}
	}
	return 0
}

// The method `owner` returns who may use the driver's device files, as its options say.
func (t tree) owner() (mode fs.FileMode, uid, gid int, err error) {
	b, _ := os.ReadFile(t.path(driverOptions)) // an older driver has none
	options := map[string]int{"DeviceFileMode": usualMode, "ModifyDeviceFiles": 1}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(line, ":")
		if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
			options[strings.TrimSpace(key)] = n
		}
	}
	if options["ModifyDeviceFiles"] == 0 {
		return 0, 0, 0, fmt.Errorf("there is no %s, and the driver's option NVreg_ModifyDeviceFiles keeps others from making it: make it when the machine starts", uvmDevice)
	}
	return fs.FileMode(options["DeviceFileMode"]) & fs.ModePerm, options["DeviceFileUID"], options["DeviceFileGID"], nil
}

// IsComplete reports whether the specification in a directory has all device files that GPUs share. One may have been made since.
func IsComplete(root, dir string) bool {
	b, err := os.ReadFile(filepath.Join(dir, File))
	var spec cdi.Spec
	if err == nil {
		err = json.Unmarshal(b, &spec)
	}
	if err != nil {
		return false
	}
	t := tree{root}
	has := map[string]bool{}
	for _, n := range spec.ContainerEdits.DeviceNodes {
		has[n.Path] = true
	}
	for _, name := range sharedDevices {
		if t.has(name) != has[name] {
			return false
		}
	}
	return true
}
