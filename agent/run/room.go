//go:build linux

package run

import (
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

// Limits and Room are shared with the supervisor; see package seat.
type (
	// Limits are what a job may use of its machine.
	Limits = seat.Limits
	// Room is what sets a job apart from the rest of its machine.
	Room = seat.Room
)

// RoomWork is where a job in a room finds Room.Scratch.
const RoomWork = seat.RoomWork

// Means is what this machine has to set jobs apart.
type Means struct {
	// Users: jobs can have users other than the agent's. Otherwise NoUsers says why not.
	Users   bool
	NoUsers string
	// Limited are the controllers that bound what a job uses: cpu, memory, pids.
	Limited []string
	// CgroupVersion of the controllers: 2, 1, or 0 without any.
	CgroupVersion int
	// Room: jobs can have one. Otherwise NoRoom says why not.
	Room   bool
	NoRoom string
}

// Means says what this machine has to set jobs apart.
func (r *Runner) Means() Means {
	status, err := os.ReadFile("/proc/self/status")
	m := Means{NoUsers: noUsers(os.Geteuid(), string(status), err), Room: r.noRoom == "", NoRoom: r.noRoom}
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

// needed are the capabilities without which root cannot start, end and clean up after jobs
// of other users, by their numbers.
var needed = map[int]string{0: "CHOWN", 1: "DAC_OVERRIDE", 5: "KILL", 6: "SETGID", 7: "SETUID"}

// noUsers says why this process cannot have jobs of other users, "" if it can.
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

// probeRoom tries a room out and returns why there can be none, "" if there can.
func (r *Runner) probeRoom() string {
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
	// The place where each job finds its room; on the machine itself it stays empty.
	if err = errors.Join(err, os.MkdirAll(seat.RoomDir, 0o755)); err != nil {
		return err.Error()
	}
	defer func() { _ = os.RemoveAll(dir) }() // the next start's probe finds it otherwise
	c := exec.Command(r.supervisor, seat.ProbeRoom)
	c.Dir, c.Env = dir, []string{}
	if out, err := c.Output(); err != nil {
		return strings.TrimSpace(string(out) + " (" + err.Error() + ")")
	}
	return ""
}

// ownProc says whether a kernel can mount a /proc with options of its own. Before 5.8 those
// are the machine's, and hiding processes from a job would hide them from everybody.
func ownProc(release string) bool {
	var major, minor int
	_, err := fmt.Sscanf(release, "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 8)
}

// place says in an order where the job finds its files.
func (r *Runner) place(o *seat.Order) error {
	if o.Room.Private && (o.User == nil || r.noRoom != "") {
		return fmt.Errorf("a room needs a user of the job's own and a machine that can make it: %s", r.noRoom)
	}
	if o.Room.Private {
		o.Progress, o.Checkpoint, o.Tmp = seat.RoomProgress, seat.RoomCheckpoint, seat.RoomTmp
		if o.Room.OwnTmp {
			o.Tmp = "/tmp"
		}
		return nil
	}
	o.Progress = filepath.Join(r.dir, seatPath(o.Key, seat.ProgressFile))
	o.Checkpoint = filepath.Join(r.dir, seatPath(o.Key, seat.CheckpointFile))
	o.Tmp = filepath.Join(r.dir, seatPath(o.Key, seat.TmpDir))
	return nil
}

// furnishJob makes the files that the job writes, and gives them to its user.
func (r *Runner) furnishJob(order seat.Order) error {
	for _, name := range []string{seat.ProgressFile, seat.CheckpointFile} {
		if err := r.root.WriteFile(seatPath(order.Key, name), nil, 0o600); err != nil {
			return err
		}
	}
	if err := r.root.Mkdir(seatPath(order.Key, seat.TmpDir), 0o700); err != nil {
		return err
	}
	if len(order.Room.Hide) > 0 {
		if err := r.root.WriteFile(seatPath(order.Key, seat.ClosedFile), nil, 0); err != nil {
			return err
		}
	}
	if u := order.User; u != nil {
		for _, name := range []string{seat.ProgressFile, seat.CheckpointFile, seat.TmpDir} {
			if err := r.root.Chown(seatPath(order.Key, name), int(u.UID), int(u.GID)); err != nil {
				return err
			}
		}
		if !order.Room.Private { // it must get there by the directory itself
			if err := r.root.Chmod(seatsDir+"/"+order.Key.String(), 0o711); err != nil {
				return err
			}
		}
	}
	return r.root.Chtimes(seatPath(order.Key, seat.CheckpointFile), never, never)
}
