package nvidia

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// Kind is the kind of the generated devices. It is not nvidia.com/gpu, so that it never conflicts with a specification of the vendor.
const Kind = "ares.dev/nvidia-gpu"

// LibraryDir is where a container finds the libraries of the driver, and LibraryPath is the variable that says so. The directory belongs to
// no package of an image, and images of NVIDIA have it in that variable already. So no hook needs to write the loader's cache in the image.
const (
	LibraryDir  = "/usr/local/nvidia/lib64"
	LibraryPath = "LD_LIBRARY_PATH"
)

// File is the name of the specification in its directory.
const File = "nvidia.json"

const (
	version       = "0.5.0"
	procDir       = "/proc/driver/nvidia/gpus"
	controlDevice = "/dev/nvidiactl"
)

// sharedDevices are used by programs on every GPU, if they exist.
var sharedDevices = []string{"/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset"}

// programs are mounted at their own paths, if they exist.
var programs = []string{"/usr/bin/nvidia-smi"}

// Device returns the CDI name of the GPU with a UUID.
func Device(uuid string) string { return Kind + "=" + uuid }

// Generate describes the GPUs with these UUIDs. The argument `root` is the root directory of the machine. Everything that a job could miss
// later is an error now.
func Generate(root string, uuids []string) (*cdi.Spec, error) {
	t := tree{root}
	libraries, err := t.libraries()
	if err != nil {
		return nil, err
	}
	minors, err := t.minors()
	if err != nil {
		return nil, err
	}
	spec := &cdi.Spec{Version: version, Kind: Kind}
	edits := &spec.ContainerEdits
	if _, err := os.Stat(t.path(controlDevice)); err != nil {
		return nil, fmt.Errorf("the driver has no %s: load it with `nvidia-modprobe`, or run nvidia-smi once as root", controlDevice)
	}
	for _, name := range append([]string{controlDevice}, sharedDevices...) {
		if _, err := os.Stat(t.path(name)); err == nil {
			edits.DeviceNodes = append(edits.DeviceNodes, t.node(name))
		}
	}
	for _, l := range libraries {
		edits.Mounts = append(edits.Mounts, t.mount(l.file, path.Join(LibraryDir, l.name)))
	}
	for _, name := range programs {
		if st, err := os.Stat(t.path(name)); err == nil && st.Mode().IsRegular() {
			edits.Mounts = append(edits.Mounts, t.mount(name, name))
		}
	}
	edits.Env = []string{LibraryPath + "=" + LibraryDir}
	for _, uuid := range uuids {
		minor, ok := minors[uuid]
		if !ok {
			return nil, fmt.Errorf("the driver does not say in %s which device file belongs to %s; slices of GPUs (MIG) need a specification of nvidia-ctk", procDir, uuid)
		}
		name := "/dev/nvidia" + strconv.Itoa(minor)
		if _, err := os.Stat(t.path(name)); err != nil {
			return nil, fmt.Errorf("%s has no device file %s: run nvidia-smi once as root", uuid, name)
		}
		spec.Devices = append(spec.Devices, cdi.Device{Name: uuid, ContainerEdits: cdi.ContainerEdits{DeviceNodes: []*cdi.DeviceNode{t.node(name)}}})
	}
	return spec, nil
}

// Write writes a specification into a directory, where it replaces an earlier one.
func Write(dir string, spec *cdi.Spec) error {
	b, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, File)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// tree is the machine's file system, or a directory in its place.
type tree struct{ root string }

func (t tree) path(name string) string { return filepath.Join(t.root, name) }

// The method `node` describes a device file, which has the same path in the container.
func (t tree) node(name string) *cdi.DeviceNode {
	n := &cdi.DeviceNode{Path: name, Permissions: "rw"}
	if real := t.path(name); real != name {
		n.HostPath = real
	}
	return n
}

func (t tree) mount(file, target string) *cdi.Mount {
	return &cdi.Mount{HostPath: t.path(file), ContainerPath: target, Type: "bind", Options: []string{"bind", "ro", "nosuid", "nodev"}}
}

// The method `minors` returns the minor numbers of the GPUs' device files by UUID. They can differ from the order of the GPUs.
func (t tree) minors() (map[string]int, error) {
	infos, err := filepath.Glob(t.path(procDir + "/*/information"))
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, file := range infos {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "GPU UUID":
				uuid = value
			case "Device Minor":
				if n, err := strconv.Atoi(value); err == nil && n >= 0 {
					minor = n
				}
			}
		}
		if uuid != "" && minor >= 0 {
			out[uuid] = minor
		}
	}
	return out, nil
}

// The method `resolve` follows the links of a file's last component. Links of directories above it are left to the kernel.
func (t tree) resolve(name string) (string, error) {
	const maxLinks = 40
	for range maxLinks {
		to, err := os.Readlink(t.path(name))
		if err != nil {
			st, err := os.Stat(t.path(name))
			if err == nil && !st.Mode().IsRegular() {
				err = fmt.Errorf("%s is not a regular file", name)
			}
			return name, err
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(name), to)
		}
		name = to
	}
	return "", &os.PathError{Op: "resolve", Path: name, Err: syscall.ELOOP}
}
