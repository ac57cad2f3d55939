//go:build linux

package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// Limits and Sandbox are shared with the supervisor. Package seat defines Limits and Sandbox.
type (
	// Limits restrict a job's use of its machine.
	Limits = seat.Limits
	// Sandbox isolates a job from the rest of its machine.
	Sandbox = seat.Sandbox
)

// SandboxWork is the path at which a job in a sandbox finds Sandbox.Scratch.
const SandboxWork = seat.SandboxWork

// MaxDiskMB is the largest Sandbox.DiskMB.
const MaxDiskMB = seat.MaxDiskMB

// Means lists the kinds of job isolation that this machine supports.
type Means struct {
	// Users is true if jobs can run as users other than the agent's own user. If Users is false, NoUsers gives the reason.
	Users   bool
	NoUsers string
	// Limited lists the working controllers: cpu, memory, pids.
	Limited []string
	// CgroupVersion is the cgroup version of the controllers: 2, 1, or 0 if no controller works.
	CgroupVersion int
	// Sandbox is true when jobs can run in a sandbox. If Sandbox is false, NoSandbox gives the reason.
	Sandbox   bool
	NoSandbox string
	// NoSeccomp is the reason why jobs cannot have a filter of system calls, "" if they can.
	NoSeccomp string
	// NoDisk is the reason why jobs cannot have a file system of their own (Sandbox.DiskMB), "" if they can.
	NoDisk string
	// NoDevices is the reason why jobs cannot have a filter of devices (Sandbox.FilterDevices), "" if they can.
	NoDevices string
	// NoNetwork is the reason why jobs cannot have a network of their own (Sandbox.OwnNetwork), "" if they can.
	NoNetwork string
}

// Means returns the kinds of job isolation that this machine supports.
func (r *Runner) Means() Means {
	status, err := os.ReadFile("/proc/self/status")
	m := Means{NoUsers: noUsers(os.Geteuid(), string(status), err), Sandbox: r.noSandbox == "", NoSandbox: r.noSandbox, NoSeccomp: r.noSeccomp, NoDisk: noDisk(), NoNetwork: r.noNetwork, NoDevices: r.noDevices}
	m.Users = m.NoUsers == ""
	for _, name := range []string{"cpu", "memory", "pids"} {
		if r.limits.has(name) {
			m.Limited = append(m.Limited, name)
		}
	}
	switch {
	case len(r.limits.v2) > 0:
		m.CgroupVersion = 2
	case len(r.limits.v1) > 0:
		m.CgroupVersion = 1
	}
	return m
}

// The variable `needed` lists, by number, the capabilities that root needs to start, stop and clean up jobs of other users.
var needed = map[int]string{0: "CHOWN", 1: "DAC_OVERRIDE", 5: "KILL", 6: "SETGID", 7: "SETUID"}

// noUsers returns the reason why this process cannot run jobs as other users, or "" if it can.
func noUsers(uid int, status string, err error) string {
	if uid != 0 {
		return "the agent is not root"
	}
	var have uint64
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			have, err = strconv.ParseUint(strings.TrimSpace(v), 16, 64)
		}
	}
	if err != nil {
		return "its capabilities cannot be read: " + err.Error()
	}
	var missing []string
	for n, name := range needed {
		if have&(1<<n) == 0 {
			missing = append(missing, "CAP_"+name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	slices.Sort(missing)
	return "the agent is root without " + strings.Join(missing, ", ")
}

// probeSandbox tests a sandbox and returns the reason why it does not work, or "" if it works.
func (r *Runner) probeSandbox() string {
	if os.Geteuid() != 0 {
		return "the agent is not root"
	}
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil || !ownProc(string(release)) {
		return "Linux 5.8 is needed, this is " + strings.TrimSpace(string(release))
	}
	dir := filepath.Join(r.dir, "probe")
	err = os.MkdirAll(filepath.Join(dir, seat.TmpDir), 0o700)
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile} {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	// SandboxDir is the mount point of each job's sandbox. Outside the sandboxes, the mount point stays empty.
	if err = errors.Join(err, os.MkdirAll(seat.SandboxDir, 0o755)); err != nil {
		return err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }() // if this fails, the probe of the next start removes it
	c := exec.Command(r.supervisor, seat.ProbeSandbox)
	c.Dir, c.Env = dir, []string{}
	if out, err := c.Output(); err != nil {
		return strings.TrimSpace(string(out) + " (" + err.Error() + ")")
	}
	return ""
}

// probeIsolation lets the supervisor test one kind of isolation, and returns the reason why it does not work, or "" if it works.
func (r *Runner) probeIsolation(argument string) string {
	if os.Geteuid() != 0 {
		return "the agent is not root"
	}
	c := exec.Command(r.supervisor, argument)
	c.Env = []string{}
	if out, err := c.Output(); err != nil {
		return strings.TrimSpace(string(out) + " (" + err.Error() + ")")
	}
	return ""
}

// ownProc reports whether a kernel version allows each mount of /proc to have its own options. Before Linux 5.8, all mounts
// of /proc share their options. Hiding processes from one job would then hide them from every program.
func ownProc(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 8)
}

// The method `place` sets the fields of a seat.Order that hold the paths of the job's files. A job in a sandbox
// sees its files at other paths.
func (r *Runner) place(o *seat.Order) error {
	if o.Sandbox.Private && (o.User == nil || r.noSandbox != "") {
		return fmt.Errorf("the job cannot run in a sandbox: the job must have a separate user (has one: %t), and the machine must support sandboxes (problem: %q)", o.User != nil, r.noSandbox)
	}
	if o.Sandbox.DiskMB > 0 && (!o.Sandbox.Private || o.Sandbox.Scratch == "") {
		return errors.New("the job cannot have a file system of its own without a sandbox and a working directory")
	}
	if o.SecretsDir = r.secretsDir(o.Key); o.Sandbox.Private {
		o.SecretsDir = seat.SandboxSecrets
	}
	if o.Sandbox.Seccomp && (o.User == nil || r.noSeccomp != "") {
		return fmt.Errorf("the job cannot run with a filter of system calls: the job must have a separate user (has one: %t), and the machine must support filters (problem: %q)", o.User != nil, r.noSeccomp)
	}
	if o.Sandbox.FilterDevices && (o.User == nil || !o.Contained() || r.noDevices != "") {
		return fmt.Errorf("the job cannot run with a filter of devices: the job must have a separate user (has one: %t) and a cgroup (has one: %t), and the machine must support such filters (problem: %q)",
			o.User != nil, o.Contained(), r.noDevices)
	}
	if o.Sandbox.OwnNetwork && (o.User == nil || r.noNetwork != "") {
		return fmt.Errorf("the job cannot run without the machine's network: the job must have a separate user (has one: %t), and the machine must support network namespaces (problem: %q)", o.User != nil, r.noNetwork)
	}
	r.placeJobSocket(o)
	if o.Sandbox.Private {
		o.Progress, o.Checkpoint, o.Tmp = seat.SandboxProgress, seat.SandboxCheckpoint, seat.SandboxTmp
		if o.Sandbox.OwnTmp {
			o.Tmp = "/tmp"
		}
		if o.Sandbox.ShareShm {
			o.Sandbox.Shm = r.sharedShm(o.Key)
		}
		return r.placeContainer(o)
	}
	o.Progress = filepath.Join(r.dir, seatPath(o.Key, seat.ProgressFile))
	o.Checkpoint = filepath.Join(r.dir, seatPath(o.Key, seat.CheckpointFile))
	o.Tmp = filepath.Join(r.dir, seatPath(o.Key, seat.TmpDir))
	return nil
}

// furnishJob creates the files that the job writes in the seat's directory, and makes the job's user their owner.
func (r *Runner) furnishJob(ctx context.Context, dir *os.Root, order seat.Order) error {
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile} {
		if err := dir.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
	}
	if err := dir.Mkdir(seat.TmpDir, 0o700); err != nil {
		return err
	}
	if order.JobSocket != "" {
		if err := errors.Join(dir.Mkdir(seat.JobDir, 0o755), dir.Chmod(seat.JobDir, 0o755)); err != nil { // whatever the umask is
			return err
		}
	}
	if len(order.Sandbox.Hide) > 0 {
		if err := dir.WriteFile(seat.ClosedFile, nil, 0); err != nil {
			return err
		}
	}
	if u := order.User; u != nil {
		for _, name := range []string{seat.ProgressFile, seat.CheckpointFile, seat.TmpDir} {
			if err := dir.Chown(name, int(u.UID), int(u.GID)); err != nil {
				return err
			}
		}
		if !order.Sandbox.Private { // it must be reachable through the directory itself
			if err := dir.Chmod(".", 0o711); err != nil {
				return err
			}
		}
	}
	if err := makeDisk(ctx, &order.Sandbox); err != nil {
		return err
	}
	if err := errors.Join(r.mountShm(&order), r.furnishBundle(dir, &order)); err != nil {
		return err
	}
	return dir.Chtimes(seat.CheckpointFile, never, never)
}
