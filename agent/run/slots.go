//go:build linux

package run

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// A seat has up to ten cgroups, and to create and remove them costs more processor time than a short job. So a supervisor that serves a
// second seat gets a slot: cgroups that it keeps for its later seats, as long as they have the same limits. Only the cgroups for the job
// itself are removed after each seat and created for the next. Their removal proves that no process of the job is left, and the next job
// starts with new counters. In version 1, only the cgroup that counts memory has such counters; the others stay. The first seat of a supervisor, and with it every job that does not follow another one at once, has cgroups
// with its own name.

// A `slot` is a set of cgroups that seats use one after another.
type slot struct {
	cgroup string // the path in version 2; "" if there is no slot
	limits seat.Limits
	groups []seat.Group // the cgroups of version 1
	memory string       // the one of them that counts memory; "" if none does
}

// slotPrefix begins the name of a slot. No seat has such a name, because a seat's name ends with a fence and a rank.
const slotPrefix = "slot-"

func isSlotName(name string) bool {
	return strings.HasPrefix(name, slotPrefix) && !strings.Contains(name, ".")
}

// The method `removed` removes the cgroups of a slot whose supervisor is gone, and reports whether that worked.
func (s *slot) removed() bool {
	if s.cgroup == "" {
		return true
	}
	if dead, err := killGroup(seat.Cgroup(s.cgroup)); err != nil || !dead {
		return false
	}
	gone, err := removeGroups(s.groups)
	return err == nil && gone
}

// jobRemoved removes the cgroups of the job whose supervisor stays in the slot. It returns false if a process is left in one of them. The
// cgroups of version 1 without counters that matter to a job stay, if they are empty.
func (s *slot) jobRemoved() bool {
	if !seat.Cgroup(s.cgroup).RemoveJob() {
		return false
	}
	for _, g := range s.groups {
		if g.Dir == s.memory {
			if !seat.Cgroup(g.Dir).RemoveJob() {
				return false
			}
		} else if b, err := seat.ReadFile(g.Dir + "/" + seat.JobGroup + "/cgroup.procs"); err != nil || len(b) > 0 {
			return false
		}
	}
	return true
}

// slotOwners says which seat has a slot. The spec file of a seat names its slot even after the seat has left it, and then its processes
// must not be looked for there any more. Only slots with a supervisor are listed. The key is empty if no seat has the slot.
//
// An agent that was restarted lists the slots of the seats whose supervisors are alive. An idle supervisor has ended with the agent.
type slotOwners struct {
	mu  sync.Mutex
	all map[string]Key
}

func (o *slotOwners) set(cgroup string, key Key) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]Key{}
	}
	o.all[cgroup] = key
}

func (o *slotOwners) remove(cgroup string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, cgroup)
}

func (o *slotOwners) has(cgroup string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.all[cgroup]
	return ok
}

// slotOf returns the slot that a seat has.
func (o *slotOwners) slotOf(key Key) (cgroup string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for cgroup, owner := range o.all {
		if owner == key {
			return cgroup, true
		}
	}
	return "", false
}

// hasLeft reports whether a seat was in a slot that is no longer its own.
func (o *slotOwners) hasLeft(order *seat.Order) bool {
	if !order.InSlot {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	owner, ok := o.all[order.Cgroup]
	return ok && owner != order.Key
}

// enterSlot looks for an idle supervisor for a new seat, and puts the seat into its slot. A supervisor that has none yet gets one. The
// order is unchanged if there is no such supervisor.
func (r *Runner) enterSlot(order *seat.Order) (s spare, ok bool) {
	if !order.Contained() || order.SecretCount > 0 || order.Container.Runtime != "" {
		return spare{}, false
	}
	if s, ok = r.spares.take(order.Limits); !ok {
		return spare{}, false
	}
	if s.isNew = s.cgroup == ""; s.isNew {
		s.cgroup = filepath.Join(string(r.cgroup), slotPrefix+strings.ToLower(rand.Text()[:12]))
	}
	order.Cgroup, order.InSlot = s.cgroup, true
	order.Groups, order.CPUGroup, order.MemoryGroup, order.PidsByUser = nil, "", "", false
	r.limits.plan(order)
	s.slot, s.owners = slotOf(order), &r.owners
	r.owners.set(s.cgroup, order.Key)
	return s, true
}

func slotOf(order *seat.Order) slot {
	return slot{cgroup: order.Cgroup, limits: order.Limits, groups: order.Groups, memory: filepath.Dir(order.MemoryGroup)}
}

// keepSlot keeps the supervisor of an ended seat, with its slot, for another seat. It returns false if that is not possible. If it
// returns true, no process of the job is left.
func (p *Proc) keepSlot() bool {
	if !p.order.InSlot {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := slotOf(&p.order)
	if !p.child.isIdle() || !s.jobRemoved() {
		return false
	}
	p.r.owners.set(s.cgroup, Key{})
	if !p.r.spares.keep(spare{child: p.child, slot: s, owners: &p.r.owners}) {
		p.r.owners.set(s.cgroup, p.order.Key)
		return false
	}
	p.child = child{next: -1}
	return true
}

// isIdle reports whether the supervisor has said that it waits for another seat.
func (c *child) isIdle() bool {
	if c.pid == 0 || c.next < 0 {
		return false
	}
	var message [len(seat.Idle) + 1]byte
	n, _, err := syscall.Recvfrom(c.next, message[:], syscall.MSG_DONTWAIT)
	return err == nil && string(message[:n]) == seat.Idle
}

// removeStraySlot removes a slot that no live seat has, with all processes in it. The agent that created it was killed. A failure is
// ignored: the kernel may need a moment, and the next start of the agent tries again.
func (r *Runner) removeStraySlot(name string) {
	s := slot{cgroup: filepath.Join(string(r.cgroup), name)}
	if r.owners.has(s.cgroup) {
		return
	}
	for _, parent := range r.limits.v1 {
		s.groups = append(s.groups, seat.Group{Dir: filepath.Join(parent.Dir, name), Back: parent.Back})
	}
	_ = s.removed()
}

// slotOfSupervisor returns the slot in which a live supervisor is, for a seat whose spec file is damaged.
func (r *Runner) slotOfSupervisor(key Key) (cgroup string, ok bool) {
	list, err := os.ReadFile("/proc/" + strconv.Itoa(r.pidOfSupervisor(key)) + "/cgroup")
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(string(list)) {
		path, isV2 := strings.CutPrefix(strings.TrimSpace(line), "0::")
		above, group := filepath.Split(path)
		if name := filepath.Base(above); isV2 && group == seat.SupervisorGroup && isSlotName(name) {
			return filepath.Join(string(r.cgroup), name), true
		}
	}
	return "", false
}
