//go:build linux

package seat

import "errors"

// Contained reports whether the seat has its own cgroup of version 2. If it has none, KillUncontained is the only way to end its job.
func (o *Order) Contained() bool { return o.Cgroup != "" }

// KillUncontained sends SIGKILL to the processes of a job without a cgroup of version 2, and returns how many were alive. It says in one
// place what Ares does on a machine without such cgroups. It finds a process of the job if at least one of these is true:
//
//   - The process descends from the supervisor. The supervisor is a subreaper, so orphans become its children. Only the supervisor
//     itself passes its PID; the agent passes 0.
//   - The process has the seat's mark in its environment, and the seat's user.
//   - The process is in a v1 cgroup that limits the job. Processes cannot leave it without being root.
//
// The call has to be repeated until it returns 0, because processes can fork while it runs. A process that cleared its environment
// and whose supervisor was killed is missed if the machine has no v1 cgroups either. The result of such a seat therefore says that it was
// not contained, and nothing else depends on the verified end of its processes.
func (o *Order) KillUncontained(supervisor int) (alive int, err error) {
	var errs []error
	count := func(n int, err error) {
		alive += n
		errs = append(errs, err)
	}
	if supervisor > 0 {
		count(KillDescendants(supervisor))
	}
	for _, g := range o.Groups {
		count(g.KillJob())
	}
	count(KillMarked(o.Mark, o.User)) // last, because reading the environment of a process may hang
	return alive, errors.Join(errs...)
}
