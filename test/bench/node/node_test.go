package node

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
)

// otherBinary is the environment variable that names a second `ares` binary, such as that of the version before. The benchmark then
// measures both binaries in turns.
const otherBinary = "ARES_BENCH_OTHER"

// A `cost` is what one piece of work took: its duration, and the processor time of each part.
type cost struct {
	wall                       time.Duration
	server, agent, supervisors time.Duration // supervisors include the job's own processes
}

func (c cost) node() time.Duration { return c.agent + c.supervisors }

// The type `node` is a server with an embedded store, and one agent.
type node struct {
	*cluster.Cluster
	jobs *client.Client
}

// startNode starts a server and an agent with the given isolation of jobs. The isolation "auto" is the default: for root, each job
// has another user, a sandbox and a filter of system calls.
func startNode(t testing.TB, isolation string, opts ...cluster.Option) *node {
	c := cluster.Start(t, append(opts, cluster.Servers(1))...)
	// The last value of a flag counts.
	c.StartAgentWith("node-1", []string{
		"--token-file", filepath.Join(c.Servers[0].Dir, server.NodeTokenFile), "--isolation", isolation, "--mock", "dgx-h100",
	}, c.Servers...)
	c.AwaitOnline("node-1")
	return &node{Cluster: c, jobs: c.Client()}
}

// The method `cost` measures the work `do`. The kernel counts the processor time of a child once it has ended, so the method waits until
// the agent has ended the supervisors that wait for another job.
func (n *node) cost(t testing.TB, do func()) cost {
	begin, s, a, j := time.Now(), n.Servers[0].CPU(), n.Agents[0].CPU(), n.Agents[0].ChildrenCPU()
	do()
	c := cost{wall: time.Since(begin), server: n.Servers[0].CPU() - s, agent: n.Agents[0].CPU() - a}
	await(t, "end of the supervisors", func() (bool, string) {
		children := n.Agents[0].Children()
		return len(children) == 0, fmt.Sprint(children)
	})
	c.supervisors = n.Agents[0].ChildrenCPU() - j
	return c
}

// The method `array` runs an array of `true`, and returns when all of its elements have succeeded.
func (n *node) array(t testing.TB, count int) {
	resp, err := n.jobs.Submit(t.Context(), &apipb.JobSpec{Name: "short", Command: []string{"true"}, Array: &apipb.Array{Count: int32(count)}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "end of the array", func() (bool, string) {
		job, err := n.jobs.Job(t.Context(), resp.GetJobId())
		e := job.GetElements()
		if bad := e.GetFailed() + e.GetCancelled() + e.GetLost(); bad > 0 {
			t.Fatalf("%d elements did not succeed: %v", bad, e)
		}
		return int(e.GetSucceeded()) == count, fmt.Sprint(e, err)
	})
}

// The method `flood` submits single jobs, and returns when all of them have succeeded.
func (n *node) flood(t testing.TB, count int) {
	specs := make([]*apipb.JobSpec, count)
	for i := range specs {
		specs[i] = &apipb.JobSpec{Name: "short", Command: []string{"true"}}
	}
	ids := map[string]bool{}
	for len(specs) > 0 {
		batch := specs[:min(len(specs), 100)]
		specs = specs[len(batch):]
		resp, err := n.jobs.SubmitBatch(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range resp.GetResults() {
			if r.GetJobId() == "" {
				t.Fatal("rejected: ", r)
			}
			ids[r.GetJobId()] = true
		}
	}
	await(t, "end of the flood", func() (bool, string) {
		left, err := n.jobs.Jobs(t.Context(), &apipb.ListJobsRequest{State: []string{"pending", "scheduled", "running", "retrying"}, PageSize: 1})
		return err == nil && len(left.GetJobs()) == 0, fmt.Sprint(len(left.GetJobs()), err)
	})
	done := 0
	for job, err := range n.jobs.AllJobs(t.Context(), &apipb.ListJobsRequest{State: []string{"succeeded"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if ids[job.GetJobId()] {
			done++
		}
	}
	if done != count {
		t.Fatalf("%d of %d jobs succeeded", done, count)
	}
}

// The function `await` waits for a condition. It asks less often than live.Await, because the answers cost the server processor time
// that is measured.
func await(t testing.TB, what string, ok func() (bool, string)) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	begin, seen := time.Now(), ""
	for done := false; !done; {
		<-tick.C
		if done, seen = ok(); !done && time.Since(begin) > 5*time.Minute {
			t.Fatalf("waited 5 minutes for %s: %s", what, seen)
		}
	}
}

// plainGroup is the directory of the plain program's cgroups. The function fails if this process may not make cgroups.
func plainGroup(t testing.TB) string {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		before, after, _ := strings.Cut(line, " - ")
		if f := strings.Fields(before); len(f) > 4 && strings.HasPrefix(after, "cgroup2 ") {
			dir := filepath.Join(f[4], "ares-bench-"+strconv.Itoa(os.Getpid()))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Skip("this user may not make cgroups: ", err)
			}
			t.Cleanup(func() { _ = os.Remove(dir) })
			return dir
		}
	}
	t.Skip("this machine has no cgroup2")
	return ""
}

// The function `plain` starts `true` in a new cgroup and removes the cgroup, so many times. It is the cheapest way to run a
// process whose descendants can all be killed and counted.
func plain(t testing.TB, parent string, count int) cost {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	before, begin := plainCPU(t), time.Now()
	for i := range count {
		if err := plainOne(path, filepath.Join(parent, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
	return cost{wall: time.Since(begin), agent: plainCPU(t) - before}
}

func plainOne(path, group string) error {
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	pid, err := syscall.ForkExec(path, []string{"true"}, &syscall.ProcAttr{
		Sys: &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())},
	})
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 {
		return fmt.Errorf("true ended with status %d: %w", ws.ExitStatus(), err)
	}
	return os.Remove(group)
}

// plainCPU returns the processor time of this process and of its children that have ended.
func plainCPU(t testing.TB) (sum time.Duration) {
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// Figures of one binary and one kind of work, one value for each round.
type figures struct{ rate, server, agent, supervisors, node, all rounds.Figures }

func (f *figures) add(c cost, count int) {
	f.rate.Rate(count, c.wall)
	f.server.Each(count, c.server)
	f.agent.Each(count, c.agent)
	f.supervisors.Each(count, c.supervisors)
	f.node.Each(count, c.node())
	f.all.Each(count, c.node()+c.server)
}

func (f *figures) row(name string, plain *figures) []string {
	const us = 1000
	return []string{
		name, f.rate.String(), f.server.Text(us, 0), f.agent.Text(us, 0), f.supervisors.Text(us, 0),
		f.node.Over(plain.all).Text(1, 1), f.all.Over(plain.all).Text(1, 1),
	}
}

// BenchmarkNode runs arrays and floods of 1,000 short processes on one node.
func BenchmarkNode(b *testing.B) {
	compare(b, rounds.Sized(1000, 20), rounds.Count)
}

// TestNode runs the benchmark in a small form, so that it keeps working.
func TestNode(t *testing.T) {
	compare(t, 20, 1)
}

// compare measures the plain program, a node as it is by default, a node without isolation of jobs, and the other binary if there is one.
func compare(t testing.TB, count, times int) {
	group := plainGroup(t)
	names, nodes := []string{"", ", isolation none"}, map[string]*node{"": startNode(t, "auto"), ", isolation none": startNode(t, "none")}
	if other := os.Getenv(otherBinary); other != "" {
		name := ", " + filepath.Base(other)
		names, nodes[name] = append(names, name), startNode(t, "auto", cluster.Binary(other))
	}
	plainly, all := &figures{}, map[string]*figures{}
	record := func(name string, c cost) {
		if all[name] == nil {
			all[name] = &figures{}
		}
		all[name].add(c, count)
	}
	for range times {
		plainly.add(plain(t, group, count), count)
		for _, name := range names {
			n := nodes[name]
			record("array"+name, n.cost(t, func() { n.array(t, count) }))
			record("single jobs"+name, n.cost(t, func() { n.flood(t, count) }))
		}
	}
	rows := [][]string{{"program", "processes/s", "server µs", "agent µs", "supervisors and jobs µs", "node ÷ plain", "all ÷ plain"}}
	rows = append(rows, plainly.row("fork, exec, cgroup", plainly))
	for _, name := range names {
		for _, kind := range []string{"array", "single jobs"} {
			rows = append(rows, all[kind+name].row(kind+name, plainly))
		}
	}
	if err := rounds.Table(os.Stdout, fmt.Sprintf("%d × true on one node; processor time of one process", count), rows); err != nil {
		t.Fatal(err)
	}
}
