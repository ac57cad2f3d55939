package engine_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine"
	"github.com/ares-scheduler/ares/engine/enginetest"
)

// ask is a kind of job and how often it occurs.
type ask struct{ cores, memory, gpus, milli, count int }

// openbMix is the requests that are most frequent in the openb trace of a
// production GPU cluster (alibaba/clusterdata v2023, pod list "default"), cores
// rounded up: 7,600 of its 8,152 pods, and those of 2, 4 and 8 GPUs.
var openbMix = []ask{
	{4, 5600, 0, 810, 1047},
	{12, 49152, 1, 0, 857},
	{12, 48128, 1, 0, 534},
	{4, 5600, 1, 0, 470},
	{12, 47104, 0, 470, 388},
	{13, 57344, 0, 0, 364},
	{8, 30517, 0, 470, 360},
	{32, 49152, 0, 0, 284},
	{19, 64512, 1, 0, 255},
	{12, 47104, 0, 650, 237},
	{10, 41560, 1, 0, 195},
	{8, 30517, 0, 0, 163},
	{12, 24576, 1, 0, 158},
	{16, 58368, 1, 0, 158},
	{12, 47104, 1, 0, 153},
	{16, 51200, 0, 0, 120},
	{4, 22888, 0, 320, 111},
	{16, 32768, 1, 0, 108},
	{8, 16384, 1, 0, 104},
	{4, 24576, 1, 0, 104},
	{12, 16384, 1, 0, 99},
	{17, 51200, 0, 0, 95},
	{15, 58368, 1, 0, 93},
	{4, 30517, 0, 230, 84},
	{25, 93184, 1, 0, 84},
	{4, 15258, 0, 320, 78},
	{4, 5600, 0, 590, 75},
	{8, 30517, 0, 320, 72},
	{5, 10600, 0, 550, 72},
	{12, 77824, 1, 0, 65},
	{8, 32768, 1, 0, 55},
	{4, 15258, 0, 160, 53},
	{6, 6144, 0, 460, 51},
	{12, 79872, 1, 0, 51},
	{5, 10600, 0, 370, 45},
	{12, 15360, 1, 0, 44},
	{4, 30517, 0, 320, 43},
	{9, 33792, 1, 0, 41},
	{4, 31250, 1, 0, 40},
	{16, 80896, 1, 0, 36},
	{16, 65536, 1, 0, 33},
	{5, 10600, 0, 810, 31},
	{6, 12288, 0, 460, 29},
	{17, 125952, 1, 0, 27},
	{4, 22888, 0, 230, 26},
	{64, 262144, 8, 0, 44},
	{16, 65536, 2, 0, 16},
	{32, 131072, 4, 0, 15},
}

// openb gives job i of a shuffled stream of the mix.
func openb(i int) ares.Spec {
	total := 0
	for _, a := range openbMix {
		total += a.count
	}
	at := int(uint32(i)*2654435761) % total
	for _, a := range openbMix {
		if at -= a.count; at < 0 {
			return ares.Spec{CPUs: a.cores, MemoryMB: a.memory, GPUs: a.gpus, GPUMilli: a.milli, Tenant: fmt.Sprintf("team-%d", i%10)}
		}
	}
	panic("unreachable")
}

// wideGangs asks for 8 to 64 GPUs on nodes of 8.
func wideGangs(i int) ares.Spec {
	return ares.Spec{Members: 1 + i%8, GPUs: 8, CPUs: 64, Tenant: fmt.Sprintf("team-%d", i%10)}
}

// dgx is a node of the fleets that placements are measured on: 8 GPUs, 32
// nodes a leaf, 16 leaves a spine.
func dgx(i int) *ares.Node {
	n := &ares.Node{
		ID: fmt.Sprintf("n%05d", i), CPUs: 96, MemoryMB: 393_216,
		Labels: map[string]string{"leaf": fmt.Sprintf("leaf-%03d", i/32), "spine": fmt.Sprintf("spine-%02d", i/512), "zone": "a", "region": "r"},
	}
	n.Links = make([][]string, 8)
	for g := range 8 {
		n.Devices = append(n.Devices, ares.Device{ID: fmt.Sprintf("%s-%d", n.ID, g), Index: g, Type: "gpu", Model: "G2", MemoryMB: 32_768, NUMA: g / 4, Healthy: true})
		for k := range 8 {
			n.Links[g] = append(n.Links[g], map[bool]string{true: "X", false: "NV12"}[g == k])
		}
	}
	return n
}

// waitingFleet is a fleet of so many nodes with jobs that wait.
func waitingFleet(nodes, jobs int, spec func(int) ares.Spec) *engine.State {
	var events []ares.Event
	for i := range 10 {
		events = append(events, ares.Event{Tenant: &ares.Tenant{ID: fmt.Sprintf("team-%d", i), Limits: ares.NoLimits(), Weight: float64(1 + i%3)}})
	}
	for i := range nodes {
		n := dgx(i)
		events = append(events, ares.Event{Node: n}, ares.Event{Session: &ares.Session{Node: n.ID, Instance: "i"}})
	}
	for i := range jobs {
		events = append(events, ares.Event{Job: job(ares.JobID(fmt.Sprintf("job-%06d", i)), int64(i), spec(i))})
	}
	s := engine.New()
	s.Apply(ares.Batch{Revision: 1, Reset: true, Events: events})
	return s
}

// fill decides and commits until nothing more is placed, and tells how long
// each took.
func fill(tb testing.TB, s *engine.State, most int) (placed int, deciding, applying time.Duration) {
	tb.Helper()
	revision := s.Revision()
	// CPU time of this thread: the wall clock of a shared machine says little.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for placed < most {
		begin := threadTime(tb)
		plan := engine.Decide(s, enginetest.Epoch)
		deciding += threadTime(tb) - begin
		if len(plan.Place) == 0 {
			break
		}
		placed += len(plan.Place)
		revision++
		events := make([]ares.Event, 0, len(plan.Place))
		for i := range plan.Place {
			run := ares.NewRun(enginetest.Epoch)
			if err := plan.Place[i].Apply(&run, enginetest.Epoch); err != nil {
				tb.Fatal(err)
			}
			events = append(events, ares.Event{Run: &ares.RunEvent{Job: plan.Place[i].Job, Run: run}})
		}
		begin = threadTime(tb)
		s.Apply(ares.Batch{Revision: revision, Events: events})
		applying += threadTime(tb) - begin
	}
	return placed, deciding, applying
}

// threadTime is the CPU time this thread has used.
func threadTime(tb testing.TB) time.Duration {
	tb.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkGrowth fills fleets of three sizes from 100,000 waiting jobs: what
// one placement costs must hardly depend on the size. Run it with -benchtime 1x.
func BenchmarkGrowth(b *testing.B) {
	for _, work := range []struct {
		name string
		spec func(int) ares.Spec
	}{{"openb", openb}, {"gangs", wideGangs}} {
		for _, nodes := range []int{100, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/nodes=%d", work.name, nodes), func(b *testing.B) {
				var placed int
				var deciding, applying time.Duration
				for b.Loop() {
					b.StopTimer()
					s := waitingFleet(nodes, 100_000, work.spec)
					engine.Decide(s, enginetest.Epoch) // lay out the fleet
					b.StartTimer()
					n, d, a := fill(b, s, 90_000)
					placed, deciding, applying = placed+n, deciding+d, applying+a
				}
				b.ReportMetric(float64(deciding.Nanoseconds())/float64(placed), "ns/placement")
				b.ReportMetric(float64(placed)/deciding.Seconds(), "placements/s")
				b.ReportMetric(float64(placed)/(deciding+applying).Seconds(), "with-apply/s")
				b.ReportMetric(float64(placed)/float64(b.N), "placed")
			})
		}
	}
}

// BenchmarkIdle is a cycle with nothing to place: 100,000 jobs wait before a
// full fleet.
func BenchmarkIdle(b *testing.B) {
	s := waitingFleet(10_000, 200_000, openb)
	fill(b, s, 200_000)
	b.ReportAllocs()
	for b.Loop() {
		if plan := engine.Decide(s, enginetest.Epoch); len(plan.Place) > 0 {
			b.Fatal("something was placed")
		}
	}
}
