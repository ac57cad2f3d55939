package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/bench/rounds"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// jobs is the number of waiting jobs, and runs is how often each command is measured.
var (
	jobs = rounds.Sized(100_000, 200)
	runs = rounds.Sized(50, 2)
)

// BenchmarkStart measures a command that needs no server. On an idle machine it takes at most 25 ms.
func BenchmarkStart(b *testing.B) {
	ares := func(args ...string) *exec.Cmd { return exec.CommandContext(b.Context(), live.Ares.Path(b), args...) }
	for b.Loop() {
		report(b, "Start of the program", ares, [][]string{{"version"}, {"help"}, {"job", "list", "--help"}})
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkReadOnly measures commands that only read, while 100,000 jobs wait in one server. On an idle machine each of them has
// a p50 of at most 80 ms and a p99 of at most 300 ms.
func BenchmarkReadOnly(b *testing.B) {
	c := cluster.Start(b, cluster.Servers(1)) // without nodes, so that all jobs wait
	one := submit(b, c)
	name, label := fmt.Sprint("bench-", jobs/2), fmt.Sprint("index=", jobs/2)
	ares := func(args ...string) *exec.Cmd {
		return exec.CommandContext(b.Context(), live.Ares.Path(b), append([]string{"--data-dir", c.Servers[0].Dir}, args...)...)
	}
	for b.Loop() {
		report(b, fmt.Sprintf("Commands that only read, with %d waiting jobs", jobs), ares, [][]string{
			{"ps"}, {"ps", "--mine"}, {"ps", "--state", "running"}, {"ps", "--name", name}, {"ps", "--label", label}, {"ps", "-o", "json"},
			{"job", "get", one}, {"job", "get", name}, {"job", "explain", one}, {"job", "events", one},
			{"node", "list"}, {"queue", "list"}, {"tenant", "list"}, {"fairness"}, {"cluster", "status"},
		})
	}
	b.ReportMetric(0, "ns/op")
}

// submit submits jobs that no node can run, and returns the ID of one of them.
func submit(b *testing.B, c *cluster.Cluster) string {
	b.Helper()
	cl, id := c.Client(), ""
	for first := 0; first < jobs; first += 1000 {
		var specs []*apipb.JobSpec
		for i := first; i < min(first+1000, jobs); i++ {
			specs = append(specs, &apipb.JobSpec{
				RequestId: fmt.Sprint("bench-", i), Name: fmt.Sprint("bench-", i), Command: []string{"true"}, GpuCount: 64,
				Labels: map[string]string{"index": fmt.Sprint(i)},
			})
		}
		answer, err := cl.SubmitBatch(b.Context(), specs)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range answer.GetResults() {
			if r.GetJobId() == "" {
				b.Fatalf("a job was refused: %s", r)
			}
			id = r.GetJobId()
		}
	}
	return id
}

// report runs the commands in turns and prints the quantiles of their times, and the median of their processor times, which depends
// less on what else the machine does.
func report(b *testing.B, title string, ares func(args ...string) *exec.Cmd, commands [][]string) {
	b.Helper()
	times, cpu := make([][]time.Duration, len(commands)), make([][]time.Duration, len(commands))
	for range runs {
		for i, args := range commands {
			cmd := ares(args...)
			begin := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("ares %s: %v: %s", strings.Join(args, " "), err, out)
			}
			times[i] = append(times[i], time.Since(begin))
			cpu[i] = append(cpu[i], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
	}
	rows := [][]string{{"command", "p50 ms", "p99 ms", "CPU ms"}}
	var all, allCPU []time.Duration
	for i, args := range commands {
		p50, p99 := quantiles(times[i])
		used, _ := quantiles(cpu[i])
		rows = append(rows, []string{"ares " + strings.Join(args, " "), milliseconds(p50), milliseconds(p99), milliseconds(used)})
		all, allCPU = append(all, times[i]...), append(allCPU, cpu[i]...)
	}
	p50, p99 := quantiles(all)
	used, _ := quantiles(allCPU)
	if err := rounds.Table(os.Stdout, title, append(rows, []string{"all", milliseconds(p50), milliseconds(p99), milliseconds(used)})); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(p50.Seconds()*1000, "p50-ms")
	b.ReportMetric(p99.Seconds()*1000, "p99-ms")
}

func quantiles(times []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(times)
	return times[len(times)/2], times[len(times)*99/100]
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f", d.Seconds()*1000) }
