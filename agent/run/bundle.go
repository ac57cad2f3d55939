//go:build linux

package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Container makes a job run in an image; see package seat.
type Container = seat.Container

// Mount is a file or directory of the machine that a job in an image sees; see package seat.
type Mount = seat.Mount

// ProbeProgram with ProbeArgument is a command that works in every image and does nothing.
const (
	ProbeProgram  = seat.SandboxInside
	ProbeArgument = seat.Probe
)

// These lists are those of Docker: what a container must not read or change in /proc and /sys.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
		"/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// libraryPath is a list of directories. The specification of the job's devices may add to it.
const libraryPath = "LD_LIBRARY_PATH"

// placeContainer checks that a job in an image can run here, and records where it finds its cgroup and its temporary directory.
func (r *Runner) placeContainer(o *seat.Order) error {
	c := &o.Container
	if c.Runtime == "" {
		return nil
	}
	if !o.Contained() || r.cgroupMount == "" {
		return fmt.Errorf("the job cannot run in an image, because its end could not be verified: %s", r.why)
	}
	c.CgroupMount, o.Tmp = r.cgroupMount, "/tmp"
	return nil
}

// furnishBundle writes the input of the OCI runtime into the seat's directory.
func (r *Runner) furnishBundle(dir *os.Root, o *seat.Order) error {
	if o.Container.Runtime == "" {
		return nil
	}
	for _, name := range []string{seat.BundleDir, seat.RootDir, seat.RuntimeDir, seat.UpperDir} {
		if err := dir.Mkdir(name, 0o700); err != nil {
			return err
		}
	}
	spec, err := r.bundle(o)
	if err != nil {
		return err
	}
	b, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	if err = dir.WriteFile(seat.BundleDir+"/config.json", b, 0o600); err != nil {
		return err
	}
	return dir.WriteFile(seat.PointsFile, []byte(strings.Join(pointsOf(spec, o), "\n")), 0o600)
}

// pointsOf returns the paths at which the job's devices have files, apart from those in /dev.
func pointsOf(s *specs.Spec, o *seat.Order) (points []string) {
	own := containerMounts(o)
	for _, m := range s.Mounts {
		if !slices.ContainsFunc(own, func(x specs.Mount) bool { return x.Destination == m.Destination }) {
			points = append(points, filepath.Clean(m.Destination))
		}
	}
	for _, d := range s.Linux.Devices {
		if path := filepath.Clean(d.Path); !strings.HasPrefix(path, "/dev/") {
			points = append(points, path)
		}
	}
	return points
}

// The method `bundle` returns the configuration of a container. The command and the environment are not in it, because the environment may
// contain secrets, and the runtime stores its configuration: see seat.Inside.
func (r *Runner) bundle(o *seat.Order) (*specs.Spec, error) {
	group, err := filepath.Rel(r.cgroupMount, o.Cgroup+"/"+seat.JobGroup)
	if err != nil || strings.HasPrefix(group, "..") {
		return nil, fmt.Errorf("the job's cgroup %s is not below the mounted cgroup2 file system %s", o.Cgroup, r.cgroupMount)
	}
	here := filepath.Join(r.dir, seatsDir, o.Key.String())
	s := &specs.Spec{
		Version: "1.0.2",
		Process: &specs.Process{
			User: specs.User{UID: o.User.UID, GID: o.User.GID, AdditionalGids: o.User.Groups},
			Args: []string{seat.SandboxInside, seat.Inside}, Env: []string{"GOMAXPROCS=1"}, Cwd: "/",
			Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
		},
		Root:   &specs.Root{Path: filepath.Join(here, seat.RootDir)},
		Mounts: containerMounts(o),
		Linux: &specs.Linux{
			CgroupsPath: "/" + group,
			Namespaces:  []specs.LinuxNamespace{{Type: specs.MountNamespace}, {Type: specs.PIDNamespace}, {Type: specs.CgroupNamespace}},
			MaskedPaths: maskedPaths, ReadonlyPaths: readonlyPaths,
			// The runtime itself allows /dev/null and its like.
			Resources: &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
		},
	}
	if o.Container.Root {
		s.Process.Args[1] = seat.InsideRoot
	}
	if len(o.Container.Devices) == 0 {
		return s, nil
	}
	return s, injectDevices(s, &o.Container)
}

// addContainer gives a command beside a job in an image what the CDI specifications of the job's devices gave the job itself: variables and
// groups. As for the job, its own variables win.
func (p *Proc) addContainer(cmd *Command) error {
	if p.order.Container.Runtime == "" {
		return nil
	}
	b, err := p.r.read(p.order.Key, seat.BundleDir+"/config.json")
	if errors.Is(err, fs.ErrNotExist) {
		return ErrEnded
	}
	var s specs.Spec
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil || s.Process == nil {
		return fmt.Errorf("read the configuration of the job's container: %w", err)
	}
	has := map[string]bool{"GOMAXPROCS": true} // it is for the first process of the container
	for _, v := range p.order.Env {
		name, _, _ := strings.Cut(v, "=")
		has[name] = true
	}
	for _, v := range s.Process.Env {
		name, value, _ := strings.Cut(v, "=")
		switch {
		case !has[name]:
			cmd.Env = append(cmd.Env, v)
		case name == libraryPath: // as for the job, the libraries of its devices are searched after its own
			if i := slices.IndexFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, libraryPath+"=") }); i >= 0 && !strings.Contains(cmd.Env[i]+":", value+":") {
				cmd.Env[i] = strings.TrimSuffix(cmd.Env[i], ":") + ":" + value
			}
		}
	}
	for _, g := range s.Process.User.AdditionalGids {
		if !slices.Contains(p.order.User.Groups, g) {
			cmd.Groups = append(cmd.Groups, g)
		}
	}
	return nil
}

func containerMounts(o *seat.Order) []specs.Mount {
	bind := func(from, to string, options ...string) specs.Mount {
		return specs.Mount{Source: from, Destination: to, Type: "bind", Options: append([]string{"rbind", "nosuid", "nodev"}, options...)}
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
		bind(seat.SandboxShm, "/dev/shm"),
		bind(seat.SandboxDir, seat.SandboxDir),
		bind(seat.SandboxTmp, o.Tmp),
	}
	for _, path := range seat.ResolverFiles {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			mounts = append(mounts, bind(real, path, "ro"))
		}
	}
	return mounts
}
