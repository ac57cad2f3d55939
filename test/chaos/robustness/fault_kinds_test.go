package robustness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/test/cluster"
)

// This variable lists all kinds of injected faults, with their relative
// frequencies. The numbers in the comments are row numbers of the fault matrix
// in docs/design/robustness.md.
var faults = []fault{
	{"server-kill", 5, serverKill(syscall.SIGKILL)},           // 3
	{"server-restart", 3, serverKill(syscall.SIGTERM)},        // a rolling restart
	{"leader-kill", 4, leaderKill},                            // 3
	{"server-stop", 4, serverStop},                            // 4
	{"agent-kill-short", 5, agentKill(100, 1500)},             // 5
	{"agent-kill-long", 4, agentKill(7000, 16000)},            // 6
	{"agent-restart", 2, agentRestart},                        // an upgrade
	{"agent-stop", 4, agentStop},                              // 7
	{"job-stop", 2, signalJob(syscall.SIGSTOP)},               // 8
	{"job-kill", 2, signalJob(syscall.SIGKILL)},               //
	{"cut-short", 3, cutWorker(500, 2500, both2)},             // 9
	{"cut-long", 4, cutWorker(7000, 15000, both2)},            // 10
	{"cut-answers", 3, cutWorker(3000, 15000, answers)},       // 11
	{"cut-requests", 2, cutWorker(3000, 15000, requests)},     // 11, the other way
	{"unplug-node", 2, unplugWorker},                          // 10
	{"etcd-kill", 4, etcdKill},                                // 12
	{"etcd-stop", 2, etcdStop},                                // 12
	{"control-cut", 3, controlCut},                            // 12: one machine of the control plane sees no other
	{"control-cut-oneway", 2, controlCutOneWay},               // 12
	{"control-crash", 2, controlCrash},                        // 12: etcd and server at once
	{"etcd-quorum", 2, etcdQuorum},                            // 13
	{"etcd-all", 1, etcdAll},                                  // 13
	{"etcd-space", 1, etcdSpace},                              // 14
	{"agent-disk", 2, agentDisk},                              // 15
	{"control-disk", 1, controlDisk},                          // 15
	{"agent-torn", 3, agentTorn},                              // 16
	{"link-slow", 3, toxic("latency")},                        // 18: late and reordered between connections
	{"link-halfopen", 3, toxic("timeout")},                    // 11
	{"link-reset", 2, toxic("reset_peer")},                    // 18: sent, perhaps done, never answered
	{"supervisor-kill", 2, signalSupervisor(syscall.SIGKILL)}, // 20
	{"supervisor-stop", 2, signalSupervisor(syscall.SIGSTOP)}, // 20
	{"node-crash", 4, nodeCrash},                              // 20, 21
	{"node-pause", 1, nodePause},                              // the documented limit
	{"mass-crash", 1, massCrash},                              // 24
	{"restore", 1, restore},                                   // 25
	{"compaction", 3, compaction},                             // 26
	{"history-kill", 3, historyKill},                          // the database of finished jobs
	{"failpoint-server", 10, failpoint(true)},                 // 3, 22
	{"failpoint-supervisor", 2, failpointSupervisor},          // 20
	{"failpoint-agent", 8, failpoint(false)},                  // 5, 18, 22
}

func serverKill(sig syscall.Signal) func(*tempter) *mishap {
	return func(t *tempter) *mishap {
		i, release, ok := t.control()
		if !ok {
			return nil
		}
		return t.takeDown(t.fleet.servers[i], sig, t.between(0, 4000), release)
	}
}

// takeDown stops a process for a while, and sometimes restarts it with a wrong
// wall clock.
func (t *tempter) takeDown(p *cluster.Process, sig syscall.Signal, d time.Duration, release func()) *mishap {
	env, detail := t.wall()
	p.Stop(sig, 20*time.Second)
	return &mishap{target: p.Name, detail: ms(d) + detail, lasts: d, undo: both(func() { p.Start(env...) }, release)}
}

func leaderKill(t *tempter) *mishap {
	_, release, ok := t.control()
	if !ok {
		return nil
	}
	i := t.fleet.leader(t.ctx)
	if i < 0 {
		release()
		return nil
	}
	return t.takeDown(t.fleet.servers[i], syscall.SIGKILL, t.between(0, 6000), release)
}

func serverStop(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.between(500, 9000)
	return &mishap{target: t.fleet.servers[i].Name, detail: ms(d), lasts: d, undo: both(t.fleet.servers[i].Freeze(), release)}
}

func agentKill(least, most int) func(*tempter) *mishap {
	return func(t *tempter) *mishap {
		i, release, ok := t.worker()
		if !ok {
			return nil
		}
		return t.takeDown(t.fleet.agents[i], syscall.SIGKILL, t.between(least, most), release)
	}
}

// failpointSupervisor restarts an agent with one failpoint set for its
// supervisors. Each supervisor that the agent starts dies or stalls at that
// failpoint. Later the fault restarts the agent normally.
func failpointSupervisor(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	p, d := t.fleet.agents[i], t.between(2000, 8000)
	term := []string{"supervisorBeforeExec=panic", "supervisorBeforeExec=sleep(5000)", "supervisorBeforeKill=panic", "supervisorBeforeKill=sleep(3000)"}[t.IntN(4)]
	p.Kill()
	p.Start("GOFAIL_FAILPOINTS=" + term)
	undo := func() { p.Kill(); p.Start() }
	return &mishap{target: t.fleet.workers[i].name, detail: term + " " + ms(d), lasts: d, undo: both(undo, release)}
}

func agentRestart(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	return t.takeDown(t.fleet.agents[i], syscall.SIGTERM, t.between(0, 1000), release)
}

func agentStop(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.between(500, 16000)
	return &mishap{target: t.fleet.workers[i].name, detail: ms(d), lasts: d, undo: both(t.fleet.agents[i].Freeze(), release)}
}

// signalJob stops or kills one process of a job.
func signalJob(sig syscall.Signal) func(*tempter) *mishap {
	return func(t *tempter) *mishap { return t.signalOne("witness", sig) }
}

func signalSupervisor(sig syscall.Signal) func(*tempter) *mishap {
	return func(t *tempter) *mishap { return t.signalOne("ares-supervisor", sig) }
}

func (t *tempter) signalOne(program string, sig syscall.Signal) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	m := t.fleet.workers[i]
	var found []int
	for _, pid := range m.pids() {
		argv, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty if the process has ended
		name, _, _ := strings.Cut(string(argv), "\x00")
		if filepath.Base(name) == program {
			found = append(found, pid)
		}
	}
	if len(found) == 0 {
		release()
		return nil
	}
	pid := found[t.IntN(len(found))]
	_ = syscall.Kill(pid, sig) // it may have ended already
	h := &mishap{target: m.name, detail: fmt.Sprintf("pid %d", pid), undo: release}
	if sig == syscall.SIGSTOP {
		h.lasts = t.between(500, 12000)
		h.undo = both(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }, release)
	}
	return h
}

// These constants say which direction of a node's network traffic is cut.
const (
	requests = 1 << iota
	answers
	both2 = requests | answers
)

// cutWorker disconnects a node from one of the servers, or from all servers.
func cutWorker(least, most, ways int) func(*tempter) *mishap {
	return func(t *tempter) *mishap {
		i, release, ok := t.reserve(proxied+t.IntN(nodes-proxied), t.fleet.workers)
		if !ok {
			return nil
		}
		worker, d := t.fleet.workers[i], t.between(least, most)
		undo, names := []func(){}, ""
		only := t.IntN(members * 2) // all servers in half of the cases
		for k, c := range t.fleet.controls {
			if only < members && only != k {
				continue
			}
			names += " " + c.name
			if ways&requests != 0 {
				undo = append(undo, cut(t.fleet.t, worker, c))
			}
			if ways&answers != 0 {
				undo = append(undo, cut(t.fleet.t, c, worker))
			}
		}
		return &mishap{target: worker.name, detail: "from" + names + " " + ms(d), lasts: d, undo: both(append(undo, release)...)}
	}
}

func unplugWorker(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.between(1000, 15000)
	return &mishap{target: t.fleet.workers[i].name, detail: ms(d), lasts: d, undo: both(t.fleet.workers[i].unplug(), release)}
}

func etcdKill(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	p, d := t.fleet.etcds[i], t.between(0, 5000)
	p.Kill()
	return &mishap{target: p.Name, detail: ms(d), lasts: d, undo: both(func() { p.Start() }, release)}
}

func etcdStop(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.between(500, 8000)
	return &mishap{target: t.fleet.etcds[i].Name, detail: ms(d), lasts: d, undo: both(t.fleet.etcds[i].Freeze(), release)}
}

func controlCut(t *tempter) *mishap { return t.cutControl(true) }

func controlCutOneWay(t *tempter) *mishap { return t.cutControl(false) }

// cutControl disconnects one control-plane machine from the two others. Nodes
// and clients can still reach the disconnected machine.
func (t *tempter) cutControl(twoWay bool) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.between(1000, 10000), []func(){}
	for k, other := range t.fleet.controls {
		if k == i {
			continue
		}
		undo = append(undo, cut(t.fleet.t, t.fleet.controls[i], other))
		if twoWay {
			undo = append(undo, cut(t.fleet.t, other, t.fleet.controls[i]))
		}
	}
	return &mishap{target: t.fleet.controls[i].name, detail: ms(d), lasts: d, undo: both(append(undo, release)...)}
}

func controlCrash(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.between(0, 6000)
	t.fleet.etcds[i].Kill()
	t.fleet.servers[i].Kill()
	up := func() { t.fleet.etcds[i].Start(); t.fleet.servers[i].Start() }
	return &mishap{target: t.fleet.controls[i].name, detail: ms(d), lasts: d, undo: both(up, release)}
}

// etcdQuorum stops two of the three etcd members.
func etcdQuorum(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.between(2000, 12000), []func(){}
	for k, p := range t.fleet.etcds {
		if k != i {
			p.Kill()
			undo = append(undo, func() { p.Start() })
		}
	}
	return &mishap{target: "all but " + t.fleet.etcds[i].Name, detail: ms(d), lasts: d, undo: both(append(undo, release)...)}
}

func etcdAll(t *tempter) *mishap {
	_, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.between(0, 5000), []func(){}
	for _, p := range t.fleet.etcds {
		p.Kill()
		undo = append(undo, func() { p.Start() })
	}
	return &mishap{target: "etcd", detail: ms(d), lasts: d, undo: both(append(undo, release)...)}
}

func agentDisk(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.between(2000, 8000)
	return &mishap{target: t.fleet.workers[i].name, detail: ms(d), lasts: d, undo: both(t.fleet.workers[i].fill(), release)}
}

func controlDisk(t *tempter) *mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.between(1000, 6000)
	return &mishap{target: t.fleet.controls[i].name, detail: ms(d), lasts: d, undo: both(t.fleet.controls[i].fill(), release)}
}

// agentTorn kills an agent and damages one of its files, as a crash of the whole
// machine might.
func agentTorn(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	p := t.fleet.agents[i]
	p.Kill()
	var files []string
	_ = filepath.WalkDir(filepath.Join(t.fleet.workers[i].disk, "agent"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "/bin/") && filepath.Base(path) != "log" {
			files = append(files, path)
		}
		return nil
	})
	undo := both(func() { p.Start() }, release)
	if len(files) == 0 {
		undo()
		return nil
	}
	file := files[t.IntN(len(files))]
	how := spoil(file, t.IntN(3))
	return &mishap{target: t.fleet.workers[i].name, detail: filepath.Base(file) + " " + how, lasts: t.between(0, 1500), undo: undo}
}

func spoil(file string, how int) string {
	info, err := os.Stat(file)
	if err != nil {
		return "is gone"
	}
	switch how {
	case 0:
		_ = os.Truncate(file, 0)
		return "is empty"
	case 1:
		_ = os.Truncate(file, info.Size()/2)
		return "is cut in half"
	default:
		if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteAt(make([]byte, 8), info.Size()/2)
			_ = f.Close()
		}
		return "has zeros in its middle"
	}
}

// This function disturbs the connections of a node that is connected through
// toxiproxy.
func toxic(kind string) func(*tempter) *mishap {
	attributes := map[string]map[string]any{
		"latency": {"latency": 400, "jitter": 400}, "timeout": {"timeout": 0}, "reset_peer": {"timeout": 200},
	}[kind]
	return func(t *tempter) *mishap {
		i, release, ok := t.reserve(t.IntN(proxied), t.fleet.workers)
		if !ok {
			return nil
		}
		streams := [][]string{{"upstream"}, {"downstream"}, {"upstream", "downstream"}}[t.IntN(3)]
		d, undo := t.between(1000, 12000), []func(){}
		for _, c := range t.fleet.controls {
			undo = append(undo, t.fleet.toxics.spoil(t.fleet.workers[i].name+"-"+c.name, kind, attributes, streams...))
		}
		return &mishap{target: t.fleet.workers[i].name, detail: strings.Join(streams, "+") + " " + ms(d), lasts: d, undo: both(append(undo, release)...)}
	}
}

// nodeCrash kills everything on a node at the same time, as a power failure
// does.
func nodeCrash(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.between(0, 14000)
	t.fleet.crash(i)
	return &mishap{target: t.fleet.workers[i].name, detail: ms(d), lasts: d, undo: both(func() { t.fleet.agents[i].Start() }, release)}
}

func (f *fleet) crash(i int) {
	f.agents[i].Kill()
	for pids := f.workers[i].pids(); len(pids) > 0; pids = f.workers[i].pids() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
}

// nodePause stops everything on a node, including supervisors and jobs, for
// longer than every deadline. When the processes resume, attempts on the node
// may briefly overlap with later attempts. The documentation permits this.
func nodePause(t *tempter) *mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	stopped := map[int]bool{}
	for range 3 { // repeat, because a process may start others before it is stopped
		for _, pid := range t.fleet.workers[i].pids() {
			stopped[pid] = true
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended already
		}
	}
	d := t.between(8000, 18000)
	resume := func() {
		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return &mishap{target: t.fleet.workers[i].name, detail: ms(d), lasts: d, undo: both(resume, release), excuses: true}
}

// massCrash crashes most of the nodes at the same time. No job may be
// reassigned while the protection against mass node loss is active.
func massCrash(t *tempter) *mishap {
	var undo []func()
	for i := range t.fleet.workers[:nodes-1] {
		_, release, ok := t.reserve(i, t.fleet.workers)
		for !ok && rest(t.ctx, 50*time.Millisecond) { // other faults end in their own time
			_, release, ok = t.reserve(i, t.fleet.workers)
		}
		if !ok {
			both(undo...)()
			return nil
		}
		undo = append(undo, release)
	}
	for i := range t.fleet.workers[:nodes-1] {
		t.fleet.crash(i)
		undo = append(undo, func() { t.fleet.agents[i].Start() })
	}
	d := t.between(2000, 14000)
	return &mishap{target: fmt.Sprint(nodes-1, " nodes"), detail: ms(d), lasts: d, undo: both(undo...)}
}

// `pids` returns all processes of a machine, found by its network namespace.
func (m *machine) pids() []int {
	own, err := os.Stat("/run/netns/" + m.name)
	if err != nil {
		return nil
	}
	entries, _ := os.ReadDir("/proc")
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		info, err := os.Stat(filepath.Join("/proc", e.Name(), "ns/net"))
		if err == nil && os.SameFile(own, info) {
			out = append(out, pid)
		}
	}
	return out
}
