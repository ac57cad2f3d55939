package robustness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/ares-scheduler/ares/pause"
	"github.com/ares-scheduler/ares/test/chaos/inject"
	"github.com/ares-scheduler/ares/test/chaos/machines"
	"github.com/ares-scheduler/ares/test/cluster"
)

// This variable lists all kinds of injected faults, with their relative
// frequencies. The numbers in the comments are row numbers of the fault matrix
// in docs/design/robustness.md.
var faults = []inject.Fault[*tempter]{
	{Kind: "server-kill", Weight: 5, Do: serverKill(syscall.SIGKILL)},           // 3
	{Kind: "server-restart", Weight: 3, Do: serverKill(syscall.SIGTERM)},        // a rolling restart
	{Kind: "leader-kill", Weight: 4, Do: leaderKill},                            // 3
	{Kind: "server-stop", Weight: 4, Do: serverStop},                            // 4
	{Kind: "agent-kill-short", Weight: 5, Do: agentKill(100, 1500)},             // 5
	{Kind: "agent-kill-long", Weight: 4, Do: agentKill(7000, 16000)},            // 6
	{Kind: "agent-restart", Weight: 2, Do: agentRestart},                        // an upgrade
	{Kind: "agent-stop", Weight: 4, Do: agentStop},                              // 7
	{Kind: "job-stop", Weight: 2, Do: signalJob(syscall.SIGSTOP)},               // 8
	{Kind: "job-kill", Weight: 2, Do: signalJob(syscall.SIGKILL)},               //
	{Kind: "cut-short", Weight: 3, Do: cutWorker(500, 2500, both2)},             // 9
	{Kind: "cut-long", Weight: 4, Do: cutWorker(7000, 15000, both2)},            // 10
	{Kind: "cut-answers", Weight: 3, Do: cutWorker(3000, 15000, answers)},       // 11
	{Kind: "cut-requests", Weight: 2, Do: cutWorker(3000, 15000, requests)},     // 11, the other way
	{Kind: "unplug-node", Weight: 2, Do: unplugWorker},                          // 10
	{Kind: "etcd-kill", Weight: 4, Do: etcdKill},                                // 12
	{Kind: "etcd-stop", Weight: 2, Do: etcdStop},                                // 12
	{Kind: "control-cut", Weight: 3, Do: controlCut},                            // 12: one machine of the control plane sees no other
	{Kind: "control-cut-oneway", Weight: 2, Do: controlCutOneWay},               // 12
	{Kind: "control-crash", Weight: 2, Do: controlCrash},                        // 12: etcd and server at once
	{Kind: "etcd-quorum", Weight: 2, Do: etcdQuorum},                            // 13
	{Kind: "etcd-all", Weight: 1, Do: etcdAll},                                  // 13
	{Kind: "etcd-space", Weight: 1, Do: etcdSpace},                              // 14
	{Kind: "agent-disk", Weight: 2, Do: agentDisk},                              // 15
	{Kind: "control-disk", Weight: 1, Do: controlDisk},                          // 15
	{Kind: "agent-torn", Weight: 3, Do: agentTorn},                              // 16
	{Kind: "link-slow", Weight: 3, Do: toxic("latency")},                        // 18: late and reordered between connections
	{Kind: "link-halfopen", Weight: 3, Do: toxic("timeout")},                    // 11
	{Kind: "link-reset", Weight: 2, Do: toxic("reset_peer")},                    // 18: sent, perhaps done, never answered
	{Kind: "supervisor-kill", Weight: 2, Do: signalSupervisor(syscall.SIGKILL)}, // 20
	{Kind: "supervisor-stop", Weight: 2, Do: signalSupervisor(syscall.SIGSTOP)}, // 20
	{Kind: "node-crash", Weight: 4, Do: nodeCrash},                              // 20, 21
	{Kind: "node-pause", Weight: 1, Do: nodePause},                              // the documented limit
	{Kind: "mass-crash", Weight: 1, Do: massCrash},                              // 24
	{Kind: "restore", Weight: 1, Do: restore},                                   // 25
	{Kind: "compaction", Weight: 3, Do: compaction},                             // 26
	{Kind: "history-kill", Weight: 3, Do: historyKill},                          // the database of finished jobs
	{Kind: "failpoint-server", Weight: 10, Do: failpoint(true)},                 // 3, 22
	{Kind: "failpoint-supervisor", Weight: 2, Do: failpointSupervisor},          // 20
	{Kind: "failpoint-agent", Weight: 8, Do: failpoint(false)},                  // 5, 18, 22
}

func serverKill(sig syscall.Signal) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		i, release, ok := t.control()
		if !ok {
			return nil
		}
		return t.takeDown(t.fleet.servers[i], sig, t.Between(0, 4000), release)
	}
}

// takeDown stops a process for a while, and sometimes restarts it with a wrong
// wall clock.
func (t *tempter) takeDown(p *cluster.Process, sig syscall.Signal, d time.Duration, release func()) *inject.Mishap {
	env, detail := t.Wall()
	p.Stop(sig, 20*time.Second)
	return &inject.Mishap{Target: p.Name, Detail: inject.For(d) + detail, Lasts: d, Undo: inject.Both(func() { p.Start(env...) }, release)}
}

func leaderKill(t *tempter) *inject.Mishap {
	_, release, ok := t.control()
	if !ok {
		return nil
	}
	i := t.fleet.leader(t.Ctx)
	if i < 0 {
		release()
		return nil
	}
	return t.takeDown(t.fleet.servers[i], syscall.SIGKILL, t.Between(0, 6000), release)
}

func serverStop(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.Between(500, 9000)
	return &inject.Mishap{Target: t.fleet.servers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.servers[i].Freeze(), release)}
}

func agentKill(least, most int) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		i, release, ok := t.worker()
		if !ok {
			return nil
		}
		return t.takeDown(t.fleet.agents[i], syscall.SIGKILL, t.Between(least, most), release)
	}
}

// failpointSupervisor restarts an agent with one failpoint set for its
// supervisors. Each supervisor that the agent starts dies or stalls at that
// failpoint. Later the fault restarts the agent normally.
func failpointSupervisor(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	p, d := t.fleet.agents[i], t.Between(2000, 8000)
	term := []string{"supervisorBeforeExec=panic", "supervisorBeforeExec=sleep(5000)", "supervisorBeforeKill=panic", "supervisorBeforeKill=sleep(3000)"}[t.IntN(4)]
	p.Kill()
	p.Start("GOFAIL_FAILPOINTS=" + term)
	undo := func() { p.Kill(); p.Start() }
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: term + " " + inject.For(d), Lasts: d, Undo: inject.Both(undo, release)}
}

func agentRestart(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	return t.takeDown(t.fleet.agents[i], syscall.SIGTERM, t.Between(0, 1000), release)
}

func agentStop(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.Between(500, 16000)
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.agents[i].Freeze(), release)}
}

// signalJob stops or kills one process of a job.
func signalJob(sig syscall.Signal) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap { return t.signalOne("witness", sig) }
}

func signalSupervisor(sig syscall.Signal) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap { return t.signalOne("ares-supervisor", sig) }
}

func (t *tempter) signalOne(program string, sig syscall.Signal) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	m := t.fleet.workers[i]
	var found []int
	for _, pid := range m.Pids() {
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
	h := &inject.Mishap{Target: m.Name, Detail: fmt.Sprintf("pid %d", pid), Undo: release}
	if sig == syscall.SIGSTOP {
		h.Lasts = t.Between(500, 12000)
		h.Undo = inject.Both(func() { _ = syscall.Kill(pid, syscall.SIGCONT) }, release)
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
func cutWorker(least, most, ways int) func(*tempter) *inject.Mishap {
	return func(t *tempter) *inject.Mishap {
		i, release, ok := t.reserve(proxied+t.IntN(nodes-proxied), t.fleet.workers)
		if !ok {
			return nil
		}
		worker, d := t.fleet.workers[i], t.Between(least, most)
		undo, names := []func(){}, ""
		only := t.IntN(members * 2) // all servers in half of the cases
		for k, c := range t.fleet.controls {
			if only < members && only != k {
				continue
			}
			names += " " + c.Name
			if ways&requests != 0 {
				undo = append(undo, machines.Cut(t.fleet.t, worker, c))
			}
			if ways&answers != 0 {
				undo = append(undo, machines.Cut(t.fleet.t, c, worker))
			}
		}
		return &inject.Mishap{Target: worker.Name, Detail: "from" + names + " " + inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
	}
}

func unplugWorker(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.Between(1000, 15000)
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.workers[i].Unplug(), release)}
}

func etcdKill(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	p, d := t.fleet.etcds[i], t.Between(0, 5000)
	p.Kill()
	return &inject.Mishap{Target: p.Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(func() { p.Start() }, release)}
}

func etcdStop(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.Between(500, 8000)
	return &inject.Mishap{Target: t.fleet.etcds[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.etcds[i].Freeze(), release)}
}

func controlCut(t *tempter) *inject.Mishap { return t.cutControl(true) }

func controlCutOneWay(t *tempter) *inject.Mishap { return t.cutControl(false) }

// cutControl disconnects one control-plane machine from the two others. Nodes
// and clients can still reach the disconnected machine.
func (t *tempter) cutControl(twoWay bool) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.Between(1000, 10000), []func(){}
	for k, other := range t.fleet.controls {
		if k == i {
			continue
		}
		undo = append(undo, machines.Cut(t.fleet.t, t.fleet.controls[i], other))
		if twoWay {
			undo = append(undo, machines.Cut(t.fleet.t, other, t.fleet.controls[i]))
		}
	}
	return &inject.Mishap{Target: t.fleet.controls[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

func controlCrash(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.Between(0, 6000)
	t.fleet.etcds[i].Kill()
	t.fleet.servers[i].Kill()
	up := func() { t.fleet.etcds[i].Start(); t.fleet.servers[i].Start() }
	return &inject.Mishap{Target: t.fleet.controls[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(up, release)}
}

// etcdQuorum stops two of the three etcd members.
func etcdQuorum(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.Between(2000, 12000), []func(){}
	for k, p := range t.fleet.etcds {
		if k != i {
			p.Kill()
			undo = append(undo, func() { p.Start() })
		}
	}
	return &inject.Mishap{Target: "all but " + t.fleet.etcds[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

func etcdAll(t *tempter) *inject.Mishap {
	_, release, ok := t.control()
	if !ok {
		return nil
	}
	d, undo := t.Between(0, 5000), []func(){}
	for _, p := range t.fleet.etcds {
		p.Kill()
		undo = append(undo, func() { p.Start() })
	}
	return &inject.Mishap{Target: "etcd", Detail: inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
}

func agentDisk(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.Between(2000, 8000)
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.workers[i].Fill(), release)}
}

func controlDisk(t *tempter) *inject.Mishap {
	i, release, ok := t.control()
	if !ok {
		return nil
	}
	d := t.Between(1000, 6000)
	return &inject.Mishap{Target: t.fleet.controls[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(t.fleet.controls[i].Fill(), release)}
}

// agentTorn kills an agent and damages one of its files, as a crash of the whole
// machine might.
func agentTorn(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	p := t.fleet.agents[i]
	p.Kill()
	var files []string
	_ = filepath.WalkDir(filepath.Join(t.fleet.workers[i].Disk, "agent"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "/bin/") && filepath.Base(path) != "log" {
			files = append(files, path)
		}
		return nil
	})
	undo := inject.Both(func() { p.Start() }, release)
	if len(files) == 0 {
		undo()
		return nil
	}
	file := files[t.IntN(len(files))]
	how := spoil(file, t.IntN(3))
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: filepath.Base(file) + " " + how, Lasts: t.Between(0, 1500), Undo: undo}
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
func toxic(kind string) func(*tempter) *inject.Mishap {
	attributes := map[string]map[string]any{
		"latency": {"latency": 400, "jitter": 400}, "timeout": {"timeout": 0}, "reset_peer": {"timeout": 200},
	}[kind]
	return func(t *tempter) *inject.Mishap {
		i, release, ok := t.reserve(t.IntN(proxied), t.fleet.workers)
		if !ok {
			return nil
		}
		streams := [][]string{{"upstream"}, {"downstream"}, {"upstream", "downstream"}}[t.IntN(3)]
		d, undo := t.Between(1000, 12000), []func(){}
		for _, c := range t.fleet.controls {
			undo = append(undo, t.fleet.toxics.Spoil(t.fleet.workers[i].Name+"-"+c.Name, kind, attributes, streams...))
		}
		return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: strings.Join(streams, "+") + " " + inject.For(d), Lasts: d, Undo: inject.Both(append(undo, release)...)}
	}
}

// nodeCrash kills everything on a node at the same time, as a power failure
// does.
func nodeCrash(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	d := t.Between(0, 14000)
	t.fleet.crash(i)
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(func() { t.fleet.agents[i].Start() }, release)}
}

func (f *fleet) crash(i int) {
	f.agents[i].Kill()
	for pids := f.workers[i].Pids(); len(pids) > 0; pids = f.workers[i].Pids() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
		}
	}
}

// nodePause stops everything on a node, including supervisors and jobs, for
// longer than every deadline. When the processes resume, attempts on the node
// may briefly overlap with later attempts. The documentation permits this.
func nodePause(t *tempter) *inject.Mishap {
	i, release, ok := t.worker()
	if !ok {
		return nil
	}
	stopped := map[int]bool{}
	for range 3 { // repeat, because a process may start others before it is stopped
		for _, pid := range t.fleet.workers[i].Pids() {
			stopped[pid] = true
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended already
		}
	}
	d := t.Between(8000, 18000)
	resume := func() {
		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
	return &inject.Mishap{Target: t.fleet.workers[i].Name, Detail: inject.For(d), Lasts: d, Undo: inject.Both(resume, release), Excuses: true}
}

// massCrash crashes most of the nodes at the same time. No job may be
// reassigned while the protection against mass node loss is active.
func massCrash(t *tempter) *inject.Mishap {
	var undo []func()
	for i := range t.fleet.workers[:nodes-1] {
		_, release, ok := t.reserve(i, t.fleet.workers)
		for !ok && pause.For(t.Ctx, 50*time.Millisecond) { // other faults end in their own time
			_, release, ok = t.reserve(i, t.fleet.workers)
		}
		if !ok {
			inject.Both(undo...)()
			return nil
		}
		undo = append(undo, release)
	}
	for i := range t.fleet.workers[:nodes-1] {
		t.fleet.crash(i)
		undo = append(undo, func() { t.fleet.agents[i].Start() })
	}
	d := t.Between(2000, 14000)
	return &inject.Mishap{Target: fmt.Sprint(nodes-1, " nodes"), Detail: inject.For(d), Lasts: d, Undo: inject.Both(undo...)}
}
