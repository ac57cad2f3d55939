//go:build linux

package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The variable `controllers` lists the cgroup controllers that limit a job. Each controller is listed with a cgroup v1 file
// that exists if the controller works.
var controllers = map[string]string{
	"cpu": "cpu.cfs_quota_us", "memory": "memory.limit_in_bytes", "pids": "pids.max",
}

// The type `limiter` holds the controllers that work on this machine. Each controller is used in cgroup v1 or in
// cgroup v2, never in both.
type limiter struct {
	v2 []string              // controllers that limit the seats' own cgroups
	v1 map[string]seat.Group // for each controller, the parent of the seats' cgroups and the agent's own cgroup
}

// newLimiter enables the controllers that work. The argument `parent` is the cgroup above the seats' v2 cgroups, or ""
// if seats have none.
func newLimiter(id string, parent seat.Cgroup, mountinfo, cgroup string) limiter {
	l := limiter{v1: map[string]seat.Group{}}
	for name := range controllers {
		if parent != "" && delegate(parent, name) {
			l.v2 = append(l.v2, name)
			continue
		}
		own, err := ownGroup(mountinfo, cgroup, name)
		if err != nil {
			continue
		}
		dir := filepath.Join(own, "ares", id)
		if os.MkdirAll(dir, 0o755) != nil {
			continue
		}
		if f, err := os.OpenFile(filepath.Join(dir, controllers[name]), os.O_WRONLY, 0); err == nil {
			_ = f.Close()
			l.v1[name] = seat.Group{Dir: dir, Back: own}
		}
	}
	slices.Sort(l.v2)
	return l
}

// The function `delegate` enables a controller for the cgroups below the cgroup `parent`. The controller must be enabled in
// the cgroup `parent` and in the two cgroups above it. The kernel does not enable a controller in a cgroup that holds
// processes, unless the cgroup is the root of the hierarchy.
func delegate(parent seat.Cgroup, controller string) bool {
	top := filepath.Dir(filepath.Dir(string(parent)))
	for _, dir := range []string{top, filepath.Dir(string(parent)), string(parent)} {
		if has(dir+"/cgroup.subtree_control", controller) {
			continue
		}
		if !has(dir+"/cgroup.controllers", controller) || os.WriteFile(dir+"/cgroup.subtree_control", []byte("+"+controller), 0) != nil {
			return false
		}
	}
	return has(string(parent)+"/cgroup.subtree_control", controller)
}

func has(file, word string) bool {
	b, err := os.ReadFile(file)
	return err == nil && slices.Contains(strings.Fields(string(b)), word)
}

// ownGroup finds this process's cgroup v1 directory for a controller.
func ownGroup(mountinfo, cgroup, controller string) (string, error) {
	own := ""
	for line := range strings.Lines(cgroup) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			own = f[2]
		}
	}
	if own == "" {
		return "", fmt.Errorf("cgroup v1 is mounted without the %s controller", controller)
	}
	return mountOf(mountinfo, own, func(kind, options string) bool {
		return kind == "cgroup" && slices.Contains(strings.Split(options, ","), controller)
	})
}

func (l *limiter) has(controller string) bool {
	_, old := l.v1[controller]
	return old || slices.Contains(l.v2, controller)
}

// The type `setting` is the name of one cgroup file and the value to write to it. A setting is optional if some
// kernels do not have its file.
type setting struct {
	file, value string
	optional    bool
}

// The function `settings` returns the files and values that set a limit, for a controller of either cgroup
// version.
func settings(controller string, v2 bool, limits seat.Limits) []setting {
	num := func(n int64) string { return strconv.FormatInt(n, 10) }
	switch quota := seat.CPUQuota(limits.MilliCPU); {
	case controller == "cpu" && limits.MilliCPU > 0 && v2:
		return []setting{{file: "cpu.max", value: num(quota) + " " + num(seat.CPUPeriod)}}
	case controller == "cpu" && limits.MilliCPU > 0:
		// A new cgroup has the period seat.CPUPeriod. For each write, the kernel checks the limits of all cgroups.
		return []setting{{file: "cpu.cfs_quota_us", value: num(quota)}}
	case controller == "memory" && limits.MemoryMB > 0 && v2:
		return []setting{
			{file: "memory.max", value: num(limits.MemoryMB << 20)},
			{file: "memory.swap.max", value: "0", optional: true},
			{file: "memory.oom.group", value: "1"}, // the kernel kills the whole job, not one process of it
		}
	case controller == "memory" && limits.MemoryMB > 0:
		return []setting{
			{file: "memory.limit_in_bytes", value: num(limits.MemoryMB << 20)},
			{file: "memory.memsw.limit_in_bytes", value: num(limits.MemoryMB << 20), optional: true},
		}
	case controller == "pids" && limits.Pids > 0:
		return []setting{{file: "pids.max", value: num(limits.Pids)}}
	}
	return nil
}

// cgroupFile has the flags with which a file of a cgroup is opened. In a cgroup no file can be created, but tests use plain directories.
const cgroupFile = syscall.O_CREAT | syscall.O_TRUNC

func apply(dir string, all []setting) error {
	for _, s := range all {
		err := seat.WriteFile(dir+"/"+s.file, []byte(s.value), cgroupFile, 0)
		if err != nil && (!s.optional || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)) {
			return fmt.Errorf("limit the job: %w", err)
		}
	}
	return nil
}

// The method `plan` records in the seat's order which cgroups will limit the job.
func (l *limiter) plan(o *seat.Order) {
	for _, name := range []string{"cpu", "memory", "pids"} {
		v2 := slices.Contains(l.v2, name) && o.Contained()
		parent, v1 := l.v1[name]
		if len(settings(name, v2, o.Limits)) == 0 {
			continue
		}
		dir := filepath.Join(parent.Dir, groupName(o))
		switch {
		case v2:
			dir = o.Cgroup
		case v1:
			g := seat.Group{Dir: dir, Back: parent.Back}
			if name == "cpu" {
				g.Back = filepath.Join(dir, seat.SupervisorGroup) // the supervisor stays in this cgroup
			}
			o.Groups = append(o.Groups, g)
		default:
			o.PidsByUser = o.PidsByUser || name == "pids" && o.User != nil
			continue
		}
		switch name {
		case "cpu":
			o.CPUGroup = dir
		case "memory":
			o.MemoryGroup = filepath.Join(dir, seat.JobGroup)
		}
	}
}

// groupName returns the name of the cgroups of a seat, in each hierarchy: that of the slot, or that of the seat.
func groupName(o *seat.Order) string {
	if o.InSlot {
		return filepath.Base(o.Cgroup)
	}
	return o.Key.String()
}

// The method `furnish` creates the cgroups that limit the job. The method `plan` has recorded the paths of
// these cgroups in the seat's order. The seat's own v2 cgroup already exists. With `again`, the seat is in a slot that another seat with the
// same limits has left, so only the job's own cgroups are created.
func (l *limiter) furnish(o *seat.Order, again bool) error {
	for _, name := range l.v2 {
		all := settings(name, true, o.Limits)
		if !o.Contained() || len(all) == 0 {
			continue
		}
		if !again {
			if err := seat.WriteFile(o.Cgroup+"/cgroup.subtree_control", []byte("+"+name), cgroupFile, 0); err != nil {
				return fmt.Errorf("limit the job: %w", err)
			}
			if err := favourSupervisor(o.Cgroup, name, "cpu.weight"); err != nil {
				return err
			}
		}
		if err := apply(o.Cgroup+"/"+seat.JobGroup, all); err != nil {
			return err
		}
	}
	for name, parent := range l.v1 {
		all := settings(name, false, o.Limits)
		if len(all) == 0 {
			continue
		}
		dir := filepath.Join(parent.Dir, groupName(o))
		subs := []string{"", "/" + seat.JobGroup, "/" + seat.SupervisorGroup}
		switch {
		case again && dir != filepath.Dir(o.MemoryGroup):
			continue // the cgroup of the last job is still there, with the same limit; see slot.jobRemoved
		case again:
			subs = subs[1:2]
		case name != "cpu": // the other limits apply to the job alone
			subs = subs[:2]
		}
		for _, sub := range subs {
			// Several controllers may share a directory.
			if err := syscall.Mkdir(dir+sub, 0o755); err != nil && err != syscall.EEXIST {
				return fmt.Errorf("limit the job: %w", &fs.PathError{Op: "mkdir", Path: dir + sub, Err: err})
			}
		}
		if !again {
			if err := favourSupervisor(dir, name, "cpu.shares"); err != nil {
				return err
			}
		}
		if err := apply(dir+"/"+seat.JobGroup, all); err != nil {
			return err
		}
	}
	return nil
}

// favourSupervisor sets the supervisor's share of processor time below the seat's cgroup `dir`. The name of the file `weight` depends on the
// cgroup version. The supervisor limits the seat's own cgroup when it starts the job; see seat.Order.Charge.
func favourSupervisor(dir, controller, weight string) error {
	if controller != "cpu" {
		return nil
	}
	return apply(dir+"/"+seat.SupervisorGroup, []setting{{file: weight, value: seat.SupervisorWeight[weight]}})
}

// removeGroups kills the remaining processes in the seat's v1 cgroups and removes these cgroups.
func removeGroups(groups []seat.Group) (gone bool, err error) {
	gone = true
	for _, g := range groups {
		if seat.Cgroup(g.Dir).RemoveEmpty() {
			continue
		}
		n, err := g.Kill()
		if err == nil && n == 0 {
			err = g.Remove()
		}
		if n > 0 || err != nil {
			gone = false
		}
		if err != nil {
			return false, err
		}
	}
	return gone, nil
}
