//go:build linux

package seat

import (
	"errors"
	"strings"
)

// Container makes a job run in an OCI image, by an OCI runtime. It needs a Sandbox that is private, a User and a cgroup. The runtime gets the
// bundle in BundleDir, which the agent writes.
type Container struct {
	// Runtime is the absolute path of the runtime, a program with the command line of runc. It is "" for a job without an image.
	Runtime string
	// Dir is the directory with the image's layers.
	Dir string
	// Root gives the job user 0 in a user namespace in which only the job's user exists. It needs a kernel that lets this user make one.
	Root bool
	// Layers are the names of directories in Dir, from the lowest layer to the highest. The files of a layer are in LayerTree below it.
	Layers []string
	// CgroupMount is where the cgroup2 file system is mounted. The runner sets it.
	CgroupMount string
	// Data is a directory of the machine that the job sees at the same path: the job's checkpoints. It is "" if there is none.
	Data string
	// Mounts are other files and directories of the machine that the job sees.
	Mounts []Mount
	// Devices are the CDI names of the job's devices. The agent writes what they mean into the bundle.
	Devices []string
	// DeviceSpecs is a directory with CDI specifications, in addition to those of the machine. Like Devices, only the agent uses it.
	DeviceSpecs string
}

// Mount is a file or directory of the machine that a job in an image sees. The job's user needs the right to reach it.
type Mount struct {
	// Source is the absolute path on the machine. It is Below, or is below it.
	Source string
	// Target is the absolute path in the image.
	Target string
	// Below is the directory that the node's configuration allows. Below it, no symbolic link is followed.
	Below    string
	ReadOnly bool
}

func (m *Mount) check() error {
	for _, path := range []string{m.Source, m.Target, m.Below} {
		if path == "" || path[0] != '/' || strings.IndexByte(path, 0) >= 0 {
			return errors.New("the paths of a mount must be absolute")
		}
	}
	if rest, ok := strings.CutPrefix(m.Source, m.Below); !ok || rest != "" && rest[0] != '/' {
		return errors.New("the mount " + m.Source + " is not below " + m.Below)
	}
	return nil
}

// These are the files of a job in an image, in its seat directory and in SandboxDir.
const (
	BundleDir     = "bundle" // the runtime's input: config.json, and rootfs, where the image is mounted
	RootDir       = BundleDir + "/rootfs"
	PointsFile    = BundleDir + "/points" // the paths at which the job's devices have files, one in each line
	RuntimeDir    = "runtime"             // the runtime's own state
	RuntimeLog    = "runtime.log"         // what the runtime complains about
	ContainerPid  = "container.pid"       // written by the runtime
	RootProgram   = "init"                // the first program in a container with Container.Root
	UpperDir      = "upper"               // what the job changes in the image
	LayerTree     = "t"                   // below the directory of a layer
	SandboxInside = SandboxDir + "/init"
	SandboxShm    = SandboxDir + "/shm"
)

// ResolverFiles are files of the machine that are in every container, so that names can be resolved, as with Docker.
var ResolverFiles = [...]string{"/etc/resolv.conf", "/etc/hosts"}

// Inside is the argument with which the supervisor's program is the first process of a container. It reads an InsideOrder from InsideFD,
// restricts itself, and executes the job's command. It reports a failure on InsideStatusFD, which the command does not inherit.
const (
	Inside         = "inside"
	InsideRoot     = "root"   // the same for Container.Root
	BesideRoot     = "beside" // a command beside a job with Container.Root, which enters the user namespace at InsideUserFD
	InsideFD       = 3
	InsideStatusFD = 4
	InsideUserFD   = 5
	InsideFiles    = 2 // the files that the runtime passes on
)

// InsideOrder is what the first process of a container executes. It contains the job's secrets, so it is only ever in a pipe.
type InsideOrder struct {
	Argv, Env      []string
	Dir            string
	Seccomp        bool
	UserNamespaces bool
	Terminal       bool // standard input is a terminal, which the command controls
}

// Encode returns the text that the supervisor sends through the pipe.
func (i *InsideOrder) Encode() []byte {
	e := newEncoder()
	for _, a := range i.Argv {
		e.str("arg", a)
	}
	for _, v := range i.Env {
		e.str("env", v)
	}
	e.str("dir", i.Dir)
	for key, on := range map[string]bool{"seccomp": i.Seccomp, "user_namespaces": i.UserNamespaces, "terminal": i.Terminal} {
		if on {
			e.str(key, "on")
		}
	}
	return e.finish()
}

// DecodeInside parses the output of InsideOrder.Encode. The command must not start with less isolation than was ordered, so a text that is
// not complete is an error.
func DecodeInside(b []byte) (InsideOrder, error) {
	fields, err := decode(b)
	if err != nil {
		return InsideOrder{}, err
	}
	var i InsideOrder
	for _, f := range fields {
		switch f.key {
		case "arg":
			i.Argv = append(i.Argv, f.value)
		case "env":
			i.Env = append(i.Env, f.value)
		case "dir":
			i.Dir = f.value
		case "seccomp":
			i.Seccomp = true
		case "user_namespaces":
			i.UserNamespaces = true
		case "terminal":
			i.Terminal = true
		}
	}
	if len(i.Argv) == 0 {
		return i, ErrTorn
	}
	return i, nil
}

func (c *Container) check(s *Spec) error {
	switch {
	case c.Runtime == "":
		return nil
	case c.Runtime[0] != '/' || c.Dir == "" || c.Dir[0] != '/':
		return errors.New("the runtime and the directory of the image's layers must be absolute paths")
	case len(c.Layers) == 0:
		return errors.New("the image has no layers")
	case s.User == nil || !s.Sandbox.Private:
		return errors.New("a job in an image needs a user of its own and a sandbox")
	}
	for i := range c.Mounts {
		if err := c.Mounts[i].check(); err != nil {
			return err
		}
	}
	return nil
}

func (o *Order) encodeContainer(e *encoder) {
	c := &o.Container
	if c.Runtime == "" {
		return
	}
	e.str("runtime", c.Runtime)
	e.str("layers_dir", c.Dir)
	for _, name := range c.Layers {
		e.str("layer", name)
	}
	e.str("cgroup_mount", c.CgroupMount)
	e.str("data", c.Data)
	if c.Root {
		e.str("container_root", "on")
	}
	for i := range c.Mounts {
		m := &c.Mounts[i]
		e.str("mount", m.Source)
		e.str("mount_target", m.Target)
		e.str("mount_below", m.Below)
		if m.ReadOnly {
			e.str("mount_ro", "on")
		}
	}
}

func (o *Order) decodeContainer(f field) {
	c := &o.Container
	switch f.key {
	case "runtime":
		c.Runtime = f.value
	case "layers_dir":
		c.Dir = f.value
	case "layer":
		c.Layers = append(c.Layers, f.value)
	case "cgroup_mount":
		c.CgroupMount = f.value
	case "data":
		c.Data = f.value
	case "container_root":
		c.Root = true
	case "mount":
		c.Mounts = append(c.Mounts, Mount{Source: f.value})
	}
	if n := len(c.Mounts); n > 0 {
		switch m := &c.Mounts[n-1]; f.key {
		case "mount_target":
			m.Target = f.value
		case "mount_below":
			m.Below = f.value
		case "mount_ro":
			m.ReadOnly = true
		}
	}
}
