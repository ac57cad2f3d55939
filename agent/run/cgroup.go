//go:build linux

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/pause"
)

// openSafe holds the flags with which Runner.open opens a file. The comment on Runner.open explains the purpose of
// these flags.
const openSafe = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// With the setting DelegateSubgroup, a service manager creates the agent's own cgroup below the unit's cgroup. agentGroup is
// the name of that cgroup. If that cgroup exists, the seats' cgroups are created beside it, not below it. A cgroup that holds
// processes cannot delegate controllers.
const agentGroup = "agent"

// The function `bases` returns the possible parent cgroups (version 2) for the seats' cgroups, best first. The first candidate
// is below the agent's own cgroup, which Delegate=yes hands over to the agent. If the agent is root, the second candidate is
// the top of the cgroup hierarchy, which container engines use too. The top of the hierarchy may delegate controllers even if
// it holds processes. If the seats' cgroups are below the top, a service manager can restart the agent while jobs of the
// previous agent are alive.
func bases(mountinfo, cgroup string) ([]string, error) {
	own, err := ownCgroup(mountinfo, cgroup)
	if err != nil {
		return nil, err
	}
	if filepath.Base(own) == agentGroup {
		own = filepath.Dir(own)
	}
	all := []string{own}
	top, err := mountOf(mountinfo, "/", func(kind, _ string) bool { return kind == "cgroup2" })
	if err != nil || top == own || os.Geteuid() != 0 {
		return all, nil
	}
	// Every cgroup except the root of the hierarchy has the file cgroup.type. In a container, the topmost visible
	// cgroup is not the root of the hierarchy.
	if _, err := os.Stat(filepath.Join(top, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		all = append(all, top)
	}
	return all, nil
}

// findCgroups chooses the parent cgroup with the most controllers. If several parents have equally many controllers,
// findCgroups chooses the first of them.
func (r *Runner) findCgroups(mountinfo, cgroup string) {
	places, err := bases(mountinfo, cgroup)
	for _, base := range places {
		parent, bad := makeCgroup(base, r.id, r.supervisor)
		if bad != nil {
			err = cmp.Or(err, bad)
			continue
		}
		l := newLimiter(r.id, parent, mountinfo, cgroup)
		loser := parent
		if r.cgroup == "" || len(l.v2) > len(r.limits.v2) {
			loser, r.cgroup, r.limits = r.cgroup, parent, l
		}
		if loser != "" {
			_ = os.Remove(string(loser)) // fails if it still holds seats from earlier
		}
	}
	if r.cgroup != "" {
		// It was found there, so this cannot fail.
		r.cgroupMount, _ = mountOf(mountinfo, "/", func(kind, _ string) bool { return kind == "cgroup2" })
	}
	if r.cgroup == "" {
		r.why, r.limits = err.Error(), newLimiter(r.id, "", mountinfo, cgroup)
	}
}

// makeCgroup makes <base>/ares/<id>, the parent of all seats' cgroups, and tests it.
func makeCgroup(base, id, supervisor string) (seat.Cgroup, error) {
	parent := filepath.Join(base, "ares", id)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(parent, "cgroup.kill")); err != nil {
		return "", errors.New("the kernel does not support cgroup.kill: Linux 5.14 or later is required")
	}
	trial := seat.Cgroup(filepath.Join(parent, "probe."+strconv.Itoa(os.Getpid())))
	if err := os.MkdirAll(string(trial), 0o755); err != nil {
		return "", err
	}
	if err := probe(supervisor, trial); err != nil {
		return "", errors.Join(fmt.Errorf("start a process in %s: %w", trial, err), trial.Remove())
	}
	return seat.Cgroup(parent), trial.Remove()
}

// ownCgroup finds this process's cgroup v2 directory. On hybrid machines cgroup v2 is mounted next to the v1
// controllers.
func ownCgroup(mountinfo, cgroup string) (string, error) {
	own := ""
	for line := range strings.Lines(cgroup) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = p
		}
	}
	if own == "" {
		return "", errors.New("the kernel does not support cgroup2")
	}
	dir, err := mountOf(mountinfo, own, func(kind, _ string) bool { return kind == "cgroup2" })
	if err != nil {
		return "", errors.New("no cgroup2 file system is mounted")
	}
	return dir, nil
}

// mountOf finds where a path of a cgroup hierarchy is mounted. In a container the mount may show only a part of the
// cgroup hierarchy.
func mountOf(mountinfo, own string, wanted func(kind, options string) bool) (string, error) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		f, super := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 6 || len(super) < 3 || !wanted(super[0], super[2]) {
			continue
		}
		root, mount := unescape(f[3]), unescape(f[4])
		rel, err := filepath.Rel(root, own)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			rel = "." // our cgroup is outside of the mount, so use the mount itself
		}
		return filepath.Join(mount, rel), nil
	}
	return "", errors.New("not mounted")
}

// The function `unescape` undoes the octal escapes of mountinfo (blank, tab, newline, backslash).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// The function `probe` runs the supervisor without a job. If a cgroup is given, the supervisor starts in it. Only a real
// run shows whether permissions, the kernel's version or a sandbox's filter prevent the supervisor from starting.
func probe(supervisor string, group seat.Cgroup) error {
	attr := &syscall.SysProcAttr{}
	if group != "" {
		dir, err := os.Open(string(group))
		if err != nil {
			return err
		}
		defer dir.Close()
		attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	fd := null.Fd()
	pid, err := syscall.ForkExec(supervisor, []string{"ares-supervisor", seat.Probe},
		&syscall.ProcAttr{Files: []uintptr{fd, fd, fd}, Sys: attr})
	if err != nil {
		return err
	}
	var ws syscall.WaitStatus
	for {
		_, err = syscall.Wait4(pid, &ws, 0, nil)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err == nil && (!ws.Exited() || ws.ExitStatus() != 0) {
		err = errors.New("the test run of the supervisor program failed: its file may contain a different program")
	}
	return err
}

// The method `whereabouts` returns an order that says where the seat's processes are: its cgroups and its mark. A seat may have been started
// under other parent cgroups, which are recorded in the seat's spec. If the spec cannot be read, `known` is false, and the order names the
// cgroups that this Runner would use.
func (r *Runner) whereabouts(key Key) (o seat.Order, known bool) {
	if read, err := r.readOrder(key); err == nil {
		return read, true
	}
	o = seat.Order{Spec: Spec{Key: key}, Cgroup: string(r.defaultGroup(key)), Mark: r.mark(key)}
	if cgroup, ok := r.owners.slotOf(key); ok {
		o.Cgroup, o.InSlot = cgroup, true
	}
	for _, parent := range r.limits.v1 {
		o.Groups = append(o.Groups, seat.Group{Dir: filepath.Join(parent.Dir, groupName(&o)), Back: parent.Back})
	}
	return o, false
}

func (r *Runner) defaultGroup(key Key) seat.Cgroup {
	if r.cgroup == "" {
		return ""
	}
	return r.cgroup + "/" + seat.Cgroup(key.String())
}

func (r *Runner) mark(key Key) string { return r.id + "/" + key.String() }

// EnsureDead kills all remaining processes of a seat, including its supervisor, waits until none is alive, and removes the cgroup.
// EnsureDead is the only function that verifies the end of a seat's processes.
func (r *Runner) EnsureDead(ctx context.Context, key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	order, known := r.whereabouts(key)
	return r.ensureDead(ctx, &order, known)
}

// ensureDead is EnsureDead for a seat whose order may be `known`; see the method `whereabouts`.
func (r *Runner) ensureDead(ctx context.Context, order *seat.Order, known bool) error {
	if r.owners.hasLeft(order) {
		return nil // it left the slot when its processes were verified to be dead
	}
	// If the seat has no cgroup, or its spec cannot be read, search for the seat's processes outside a cgroup too.
	swept := order.Contained() && known
	var last error
	err := until(ctx, func() bool {
		killed := true
		if order.Contained() {
			killed, last = killGroup(seat.Cgroup(order.Cgroup))
		}
		if killed && !swept {
			swept, last = r.sweep(order)
		}
		gone := false
		if killed && swept {
			gone, last = removeGroups(order.Groups)
		}
		return gone
	})
	if err != nil {
		return fmt.Errorf("wait until %s has ended: %w", order.Key, errors.Join(err, last))
	}
	if order.InSlot {
		r.owners.remove(order.Cgroup)
	}
	r.removeSecrets(order.Key, known && order.SecretCount == 0)
	return nil
}

func killGroup(g seat.Cgroup) (dead bool, err error) {
	if g.RemoveEmpty() {
		return true, nil
	}
	if err = g.Kill(); err != nil {
		return false, err
	}
	populated, err := g.Populated()
	if populated || err != nil {
		return false, err
	}
	// EBUSY means that the kernel is still removing a process that has just died.
	err = g.Remove()
	return err == nil, err
}

// The method `sweep` ends the processes of a seat that has no cgroup. It kills the supervisor first, and then the job.
func (r *Runner) sweep(o *seat.Order) (dead bool, err error) {
	alive, err := r.alive(o.Key)
	if err != nil {
		return false, err
	}
	if alive {
		r.killSupervisor(o.Key)
	}
	n, err := o.KillUncontained(0)
	return err == nil && n == 0 && !alive, err
}

// killSupervisor kills the supervisor of a seat by its PID, if the seat's lock says that it is alive.
func (r *Runner) killSupervisor(key Key) {
	if pid := r.pidOfSupervisor(key); pid > 1 {
		_ = seat.KillPid(pid, func() bool { alive, unknown := r.alive(key); return alive && unknown == nil })
	}
}

// killStrays kills processes in this node's cgroups that have no seat directory. Processes without a seat directory
// remain if Forget was interrupted or if the directory was lost.
func (r *Runner) killStrays(ctx context.Context) error {
	var entries []fs.DirEntry
	parents := []string{string(r.cgroup)}
	for _, g := range r.limits.v1 {
		parents = append(parents, g.Dir)
	}
	for _, parent := range parents {
		if parent == "" {
			continue
		}
		more, err := os.ReadDir(parent)
		if err != nil {
			return err
		}
		entries = append(entries, more...)
	}
	for _, e := range entries {
		if e.IsDir() && isSlotName(e.Name()) {
			r.removeStraySlot(e.Name())
			continue
		}
		key, ok := seat.ParseKey(e.Name())
		if !ok || !e.IsDir() {
			continue
		}
		if _, err := r.root.Lstat(seatsDir + "/" + e.Name()); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := r.EnsureDead(ctx, key); err != nil {
			return err
		}
	}
	return nil
}

// The function `until` calls the function `done` at growing intervals. It returns when `done` returns true or
// the context ends.
func until(ctx context.Context, done func() bool) error {
	for wait := time.Millisecond; !done(); wait = min(2*wait, 50*time.Millisecond) {
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
	}
	return nil
}
