package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// userRange gives each job on this node a user of its own, from a range of UIDs. A job keeps its user until it has no rank on this node any
// more, also while the agent restarts. UIDs are given out in turn, so that a UID is used again as late as possible: files of an ended job on
// a shared disk still belong to it.
type userRange struct {
	first, last uint32
	// exists reports whether a UID belongs to another user of this machine. `busy` returns the UIDs that processes have now.
	exists func(uid uint32) bool
	busy   func() map[uint32]bool

	mu   sync.Mutex
	path string                // of the file that stores the fields below
	next uint32                // where the search for a free UID begins
	jobs map[uint32]ares.JobID // Invariant: no two UIDs have the same job.
}

// errNoUser means that a job can run on other nodes, but has no user on this one.
var errNoUser = errors.New("no user is free for the job")

// parseUserRange reads a range such as 200000-265535.
func parseUserRange(text string) (first, last uint32, err error) {
	from, to, ok := strings.Cut(text, "-")
	a, err1 := strconv.ParseUint(strings.TrimSpace(from), 10, 32)
	b, err2 := strconv.ParseUint(strings.TrimSpace(to), 10, 32)
	// UIDs below 65536 belong to the machine's own users. Some programs misread UIDs of 2^31 and above.
	if !ok || err1 != nil || err2 != nil || a < 65536 || b < a || b >= 1<<31 {
		return 0, 0, fmt.Errorf("%q is not a range of UIDs between 65536 and 2147483647: write it as 200000-265535", text)
	}
	return uint32(a), uint32(b), nil
}

func (i *Isolation) checkUserRange(p *ares.Problems) {
	if i.UserRange == "" {
		return
	}
	if _, _, err := parseUserRange(i.UserRange); err != nil {
		p.Add("isolation.user_range", "%s", err)
	}
	if i.Mode != IsolateJob {
		p.Add("isolation.user_range", "is used only with mode job, and the mode is %s", i.Mode)
	}
}

// openUserRange reads which jobs had users when the previous agent ended.
func (i *isolation) openUserRange(dir string) error {
	if i.UserRange == "" || i.mode != IsolateJob {
		return nil
	}
	first, last, err := parseUserRange(i.UserRange)
	if err != nil {
		return ares.Errorf(ares.Invalid, "isolation.user_range: %s", err)
	}
	u := &userRange{
		first: first, last: last, next: first, jobs: map[uint32]ares.JobID{}, path: filepath.Join(dir, "users"), busy: busyUsers,
		exists: func(uid uint32) bool {
			for _, named := range i.named { // order-free: any of them is enough
				if named.UID == uid || named.GID == uid {
					return true
				}
			}
			return i.exists(strconv.FormatUint(uint64(uid), 10))
		},
	}
	i.users = u
	return u.load()
}

// userFromRange returns the user of a job, for isolation.ofJob.
func (i *isolation) userFromRange(job ares.JobID) (*run.User, error) {
	uid, err := i.users.take(job)
	if err != nil {
		return nil, err
	}
	return &run.User{UID: uid, GID: uid, Groups: i.groups}, nil
}

// The method `take` returns the UID of a job. A job without one gets the next that no job, no process and no account has.
func (u *userRange) take(job ares.JobID) (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uid, of := range u.jobs { // order-free: a job has one UID
		if of == job {
			return uid, nil
		}
	}
	busy := u.busy()
	uid := u.next
	if uid < u.first || uid > u.last { // the range was changed
		uid = u.first
	}
	for range uint64(u.last-u.first) + 1 {
		after := uid + 1
		if uid == u.last {
			after = u.first
		}
		if u.isFree(uid, busy) {
			u.jobs[uid], u.next = job, after
			if err := u.write(); err != nil {
				delete(u.jobs, uid)
				return 0, fmt.Errorf("%w: store the UID of job %s: %w", errNoUser, job, err)
			}
			return uid, nil
		}
		uid = after
	}
	return 0, fmt.Errorf("%w: all UIDs of isolation.user_range %d-%d are in use: choose a larger range", errNoUser, u.first, u.last)
}

// isFree reports whether a UID can be given to a job. A process of an ended job would be able to reach the processes of the next one, so the
// UIDs of all processes are checked too.
func (u *userRange) isFree(uid uint32, busy map[uint32]bool) bool {
	if u.jobs[uid] != "" {
		return false
	}
	return !busy[uid] && !u.exists(uid)
}

// keepOnly frees the users of all jobs that the function does not name. If the file cannot be written, the next start of the agent frees
// them again.
func (u *userRange) keepOnly(has func(ares.JobID) bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	freed := false
	for uid, job := range u.jobs { // order-free: each is decided by itself
		if !has(job) {
			delete(u.jobs, uid)
			freed = true
		}
	}
	if !freed {
		return nil
	}
	return u.write()
}

func (u *userRange) load() error {
	data, err := os.ReadFile(u.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the stored UIDs of jobs: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 32); ok && err == nil && key == "next" {
			u.next = uint32(n)
		} else if n, err := strconv.ParseUint(key, 10, 32); ok && err == nil && n != 0 {
			u.jobs[uint32(n)] = ares.JobID(value)
		}
	}
	return nil
}

func (u *userRange) write() error {
	lines := []string{fmt.Sprintln("next", u.next)}
	for uid, job := range u.jobs {
		lines = append(lines, fmt.Sprintln(uid, job))
	}
	slices.Sort(lines)
	return writeAtomically(u.path, strings.Join(lines, ""))
}

// freeUsers frees the users of jobs that have no rank on this node. The caller holds a.mu.
func (a *Agent) freeUsers() {
	if a.isolation == nil || a.isolation.users == nil {
		return
	}
	has := map[ares.JobID]bool{}
	for key := range a.seats {
		has[ares.JobID(key.Job)] = true
	}
	if err := a.isolation.users.keepOnly(func(job ares.JobID) bool { return has[job] }); err != nil {
		a.log.Warn("the free users of isolation.user_range cannot be stored", "error", err)
	}
}

// busyUsers returns the UIDs of all processes of this machine. The owner of a process's directory is not enough, because a process can make
// root its owner.
func busyUsers() map[uint32]bool {
	busy := map[uint32]bool{}
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		return busy
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended
		}
		for line := range strings.Lines(string(data)) {
			if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
				for id := range strings.FieldsSeq(ids) {
					if n, err := strconv.ParseUint(id, 10, 32); err == nil {
						busy[uint32(n)] = true
					}
				}
			}
		}
	}
	return busy
}
