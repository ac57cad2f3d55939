//go:build linux

package main

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// cgroupDir is where an OCI runtime looks for the cgroup file systems.
const cgroupDir = "/sys/fs/cgroup"

// furnishContainer sets up what a job in an image sees of the machine, in the mount namespace of the job's thread. The runtime and the
// container inherit the namespace. Nothing is mounted over directories of the machine here: the bundle says where the job sees it.
func furnishContainer(o *seat.Order) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("unshare(CLONE_NEWNS)", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return errors.New("make the mounts the job's own: " + err.Error())
	}
	if err := errors.Join(furnishDir(o), furnishContainerShm(o), bindInside(o.Container.Root)); err != nil {
		return err
	}
	// On a machine with both cgroup versions, runtimes would use version 1, and some refuse to run. The job's cgroup is in version 2. So
	// here the runtime sees only that, which gives it the kernel's filter of devices (eBPF), too.
	if o.Container.CgroupMount == cgroupDir {
		return nil
	}
	return bind(o.Container.CgroupMount, cgroupDir)
}

// furnishContainerShm makes the job's /dev/shm, as furnishShm does for other jobs, at the path from which the bundle mounts it.
func furnishContainerShm(o *seat.Order) error {
	if err := os.Mkdir(seat.SandboxShm, 0o700); err != nil {
		return err
	}
	switch {
	case o.Sandbox.Shm != "":
		return bind(o.Sandbox.Shm, seat.SandboxShm)
	case o.Sandbox.ShmMB == 0:
		return bind(shmDir, seat.SandboxShm)
	}
	if err := syscall.Unshare(syscall.CLONE_NEWIPC); err != nil && err != syscall.EINVAL {
		return os.NewSyscallError("unshare(CLONE_NEWIPC)", err)
	}
	return mountSized(seat.SandboxShm, seat.TmpfsOptions(o.Sandbox.ShmMB)+",mode=1777")
}

// bindInside makes this program visible in the container, read-only.
func bindInside(root bool) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	if st, err := os.Stat(self); err != nil || st.Mode()&0o005 != 0o005 {
		return errors.New("the job's user must be able to execute " + self + ": run chmod 755 on it")
	}
	if root {
		here, err := os.Getwd()
		if err != nil {
			return err
		}
		copied := here + "/" + seat.RootProgram
		if err = writeRootProgram(self, copied); err != nil {
			return err
		}
		self = copied
	}
	if err := seat.WriteFile(seat.SandboxInside, nil, syscall.O_CREAT, 0o600); err != nil {
		return err
	}
	if err := bind(self, seat.SandboxInside); err != nil {
		return err
	}
	const flags = syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY | syscall.MS_NOSUID | syscall.MS_NODEV
	if err := syscall.Mount("", seat.SandboxInside, "", flags, ""); err != nil {
		return errors.New("make " + seat.SandboxInside + " read-only: " + err.Error())
	}
	return nil
}

// mountImage mounts the layers of the job's image, if it has one, with a directory for the job's changes above them. The mount exists only
// in the mount namespaces of the job, so it ends with the job's last process.
func mountImage(o *seat.Order) error {
	c := &o.Container
	if c.Runtime == "" {
		return nil
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	upper, err := makeUpper(o, here)
	if err != nil {
		return errors.New("make the directory for the job's changes to the image: " + err.Error())
	}
	// The names are relative to the directory of all layers, because the kernel limits the length of the options.
	var lower strings.Builder
	for i := len(c.Layers) - 1; i >= 0; i-- {
		if lower.Len() > 0 {
			lower.WriteByte(':')
		}
		lower.WriteString(c.Layers[i] + "/" + seat.LayerTree)
	}
	layers, names := c.Dir, lower.String()
	if c.Root {
		layers = layersDir
		if names, err = mountOwned(o); err != nil {
			return err
		}
	}
	// The job's thread has its own working directory since it has its own mount namespace.
	if err := syscall.Chdir(layers); err != nil {
		return errors.New("the image's layers in " + layers + ": " + err.Error())
	}
	options := "lowerdir=" + names + ",upperdir=" + upper + "/files,workdir=" + upper + "/work,userxattr"
	err = syscall.Mount("overlay", here+"/"+seat.RootDir, "overlay", 0, options)
	if back := syscall.Chdir(here); err == nil {
		err = back
	}
	if err != nil {
		return errors.New("mount the image's " + strconv.Itoa(len(c.Layers)) + " layers (overlayfs, which needs Linux 5.11): " + err.Error())
	}
	if c.Root {
		return leaveOwned()
	}
	return nil
}

// makeUpper makes the directory for the job's changes to its image.
func makeUpper(o *seat.Order, here string) (upper string, err error) {
	upper = here + "/" + seat.UpperDir
	switch {
	case o.Sandbox.Disk() != "": // it is in the job's own file system
		upper = diskDir + "/" + seat.UpperDir
		err = os.Mkdir(upper, 0o700)
	case o.Sandbox.TmpMB > 0: // nothing of the job is on the disk without a limit
		err = mountSized(upper, seat.TmpfsOptions(o.Sandbox.TmpMB)+",mode=0700")
	}
	for name, mode := range map[string]os.FileMode{"/files": 0o755, "/work": 0o700} {
		if err == nil {
			err = os.Mkdir(upper+name, mode)
		}
	}
	if err == nil {
		err = os.Chmod(upper+"/files", 0o755) // whatever the umask is: it is the mode of the job's root directory
	}
	// These are real directories, whatever the image has there. The runtime, which is root, makes mount points and device files in them, and
	// follows links of the image.
	for _, name := range [...]string{"/proc", "/sys", "/dev", "/etc", "/tmp", "/run", seat.SandboxDir} {
		if err == nil {
			err = os.Mkdir(upper+"/files"+name, 0o755)
		}
		if err == nil {
			err = os.Chmod(upper+"/files"+name, 0o755)
		}
	}
	// So are these files, at which the runtime mounts those of the machine: a directory or a looping link of the image would make it fail.
	for _, name := range seat.ResolverFiles {
		if _, missing := os.Stat(name); err == nil && missing == nil {
			err = seat.WriteFile(upper+"/files"+name, nil, syscall.O_CREAT|syscall.O_EXCL, 0o644)
		}
	}
	if err == nil && o.Container.Root {
		err = ownTree(upper+"/files", o.User)
	}
	return upper, err
}

// ownTree makes a user the owner of a directory and of everything in it.
func ownTree(dir string, owner *seat.User) error {
	if err := own(dir, owner); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	for _, d := range list {
		path := dir + "/" + d.Name()
		if d.IsDir() {
			err = errors.Join(err, ownTree(path, owner))
		} else {
			err = errors.Join(err, own(path, owner))
		}
	}
	return err
}
