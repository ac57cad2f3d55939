package realnode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

const cgroups = "/sys/fs/cgroup"

// cgroupRoots returns the directories in which a cgroup of this name is: one with cgroup v2, one for each controller with v1.
func cgroupRoots(name string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroups, "cgroup.controllers")); err == nil {
		return []string{filepath.Join(cgroups, name)}, nil
	}
	controllers, err := filepath.Glob(filepath.Join(cgroups, "*", "cgroup.procs"))
	for i := range controllers {
		controllers[i] = filepath.Join(filepath.Dir(controllers[i]), name)
	}
	return controllers, err
}

// makeCgroup makes the cgroup below which the kubelet puts its pods.
func makeCgroup(name string) error {
	roots, err := cgroupRoots(name)
	for _, dir := range roots {
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		// With cgroup v1, a new cpuset is empty and takes no process.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err != nil || filepath.Dir(dir) == cgroups {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0o600); err != nil {
				return err
			}
		}
	}
	return err
}

// removeCgroup removes the cgroup and those below it. No process may be left in them.
func removeCgroup(name string) error {
	roots, err := cgroupRoots(name)
	if err != nil {
		return err
	}
	var failed []error
	for _, root := range roots {
		var dirs []string
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
		for _, dir := range slices.Backward(dirs) { // the innermost first
			failed = append(failed, os.Remove(dir))
		}
	}
	return errors.Join(failed...)
}
