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
)

// openSafe: see Runner.open.
const openSafe = syscall.O_NONBLOCK | syscall.O_NOFOLLOW

// agentGroup is the name of the agent's own cgroup where a service manager makes one below
// the unit's (DelegateSubgroup). Seats are then beside it: a cgroup that holds processes
// cannot hand controllers down.
const agentGroup = "agent"

// bases are where the seats' cgroups of version 2 may be, the best place first: below the
// agent's own, because that is what Delegate=yes hands over; then, for root, at the top, as
// container engines do. The top may hand controllers down whoever is in it, and a service
// manager can start the agent again while jobs of the last one live.
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
	// Every cgroup but the root of all has a type; in a container the top is not that root.
	if _, err := os.Stat(filepath.Join(top, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		all = append(all, top)
	}
	return all, nil
}

// findCgroups chooses the place where most controllers can be had, the first of equals.
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
			_ = os.Remove(string(loser)) // unless seats of an earlier time are in it
		}
	}
	if r.cgroup == "" {
		r.why, r.limits = err.Error(), newLimiter(r.id, "", mountinfo, cgroup)
	}
}

// makeCgroup makes <base>/ares/<id>, the parent of all seats' cgroups, and tries it out.
func makeCgroup(base, id, supervisor string) (seat.Cgroup, error) {
	parent := filepath.Join(base, "ares", id)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(parent, "cgroup.kill")); err != nil {
		return "", errors.New("the kernel has no cgroup.kill (Linux 5.14 is needed)")
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

// ownCgroup finds the directory of this process's cgroup2. On hybrid machines cgroup2 is
// mounted beside the v1 controllers.
func ownCgroup(mountinfo, cgroup string) (string, error) {
	own := ""
	for line := range strings.Lines(cgroup) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			own = p
		}
	}
	if own == "" {
		return "", errors.New("this kernel runs without cgroup2")
	}
	dir, err := mountOf(mountinfo, own, func(kind, _ string) bool { return kind == "cgroup2" })
	if err != nil {
		return "", errors.New("no cgroup2 is mounted")
	}
	return dir, nil
}

// mountOf finds where a path of a cgroup hierarchy is mounted. In a container the mount may
// show a part of the tree.
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
			rel = "." // our cgroup lies outside of what is mounted: use what is there
		}
		return filepath.Join(mount, rel), nil
	}
	return "", errors.New("not mounted")
}

// unescape undoes the octal escapes of mountinfo (blank, tab, newline, backslash).
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// probe runs the supervisor to no purpose, in the cgroup if one is given. Only the real
// call tells: permissions, an old kernel and a sandbox's filter all show here.
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
		err = errors.New("the supervisor does not answer: is it the right program?")
	}
	return err
}

// group is the seat's cgroup, "" without containment. A seat may have been started under
// another parent; its spec remembers.
func (r *Runner) group(key Key) seat.Cgroup {
	if o, err := r.readOrder(key); err == nil {
		return seat.Cgroup(o.Cgroup)
	}
	return r.defaultGroup(key)
}

func (r *Runner) defaultGroup(key Key) seat.Cgroup {
	if r.cgroup == "" {
		return ""
	}
	return r.cgroup + "/" + seat.Cgroup(key.String())
}

func (r *Runner) mark(key Key) string { return r.id + "/" + key.String() }

// EnsureDead kills all that is left of a seat, its supervisor too, waits until nothing is,
// and removes the cgroup. It is the only way in which a seat's death is verified.
func (r *Runner) EnsureDead(ctx context.Context, key Key) error {
	if err := key.Check(); err != nil {
		return err
	}
	group := r.group(key)
	// Without a cgroup, or without a spec that says whether there was one, also look for
	// what has no cgroup.
	_, err := r.readOrder(key)
	swept := group != "" && err == nil
	limits := r.groups(key)
	var last error
	err = until(ctx, func() bool {
		killed := true
		if group != "" {
			killed, last = killGroup(group)
		}
		if killed && !swept {
			swept, last = r.sweep(key)
		}
		gone := false
		if killed && swept {
			gone, last = removeGroups(limits)
		}
		return gone
	})
	if err != nil {
		return fmt.Errorf("wait for the death of %s: %w", key, errors.Join(err, last))
	}
	return nil
}

func killGroup(g seat.Cgroup) (dead bool, err error) {
	if err = g.Kill(); err != nil {
		return false, err
	}
	populated, err := g.Populated()
	if populated || err != nil {
		return false, err
	}
	// EBUSY: a dying process is still being taken out.
	err = g.Remove()
	return err == nil, err
}

// sweep is for seats without a cgroup: first the supervisor, then what bears the mark.
func (r *Runner) sweep(key Key) (dead bool, err error) {
	alive, err := r.alive(key)
	if err != nil {
		return false, err
	}
	if alive {
		b, unread := r.read(key, seat.PidFile)
		if pid, bad := strconv.Atoi(string(b)); unread == nil && bad == nil && pid > 1 {
			_ = seat.KillPid(pid, func() bool { ok, unknown := r.alive(key); return ok && unknown == nil })
		}
	}
	n, err := seat.KillMarked(r.mark(key))
	return err == nil && n == 0 && !alive, err
}

// killStrays ends what runs in our cgroups without a seat directory: a Forget that was
// interrupted, or a directory lost with its disk.
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

// until asks again and again, ever less often, until done or the context ends.
func until(ctx context.Context, done func() bool) error {
	pause := time.Millisecond
	for !done() {
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
		pause = min(2*pause, 50*time.Millisecond)
	}
	return nil
}
