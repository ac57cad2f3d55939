package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// The function `nodes` returns an answer with a number of nodes.
func nodes(n int) answer {
	s := Snapshot{Status: &apipb.GetClusterStatusResponse{TotalNodes: int32(n), OnlineNodes: int32(n), TotalGpus: int32(2 * n), AvailableGpus: int32(n), Version: "v1"}}
	for i := range n {
		s.Nodes = append(s.Nodes, &apipb.Node{
			NodeId: fmt.Sprintf("gpu-%04d", i), State: "online", StateSince: timestamppb.New(noon.Add(-time.Hour)), GpusTotal: 2, GpusFree: 1,
			CpuCores: 64, CpuCoresFree: 8, MemoryMb: 512000, MemoryMbFree: 64000,
			Devices: []*apipb.Device{{Index: 0, Model: "H100", MemoryMb: 80000, Healthy: true, Taken: true}, {Index: 1, Model: "H100", MemoryMb: 80000, Healthy: true}},
		})
	}
	return answer{view: Nodes, snapshot: s, at: noon}
}

// The function `text` returns the screen without colors.
func text(m Model) string { return ansi.Strip(strings.Join(m.Lines(), "\n")) }

func started(first answer) Model {
	m := newModel(first.view, 2*time.Second, true, first)
	m, _ = m.update(size{80, 24})
	return m
}

// press sends keys and returns the last action.
func press(m Model, keys ...string) (Model, action) {
	do := nothing
	for _, k := range keys {
		m, do = m.update(key(k))
	}
	return m, do
}

func expect(t *testing.T, m Model, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text(m), w) {
			t.Errorf("the screen does not contain %q:\n%s", w, text(m))
		}
	}
}

func TestEveryLineFits(t *testing.T) {
	odd := nodes(40)
	odd.snapshot.Nodes[3].NodeId = strings.Repeat("long", 30)
	odd.snapshot.Nodes[4].NodeId = "🚀🚀🚀\x1b[31mred\nnew line"
	odd.snapshot.Status.Alert = strings.Repeat("alert ", 40)
	jobs := answer{view: Queue, at: noon}
	for i := range 60 {
		jobs.snapshot.Jobs = append(jobs.snapshot.Jobs, &apipb.Job{
			JobId: "job-abcdefghijklmnopqrstuvwx", Name: strings.Repeat("n", i), State: "pending", Priority: int32(i), WaitingFor: []string{strings.Repeat("because ", i)},
			CreatedAt: timestamppb.New(noon), TenantId: "vision", Queue: "training",
		})
	}
	for _, first := range []answer{odd, jobs, {view: Nodes, err: errors.New(strings.Repeat("wrong ", 50)), at: noon}} {
		m := newModel(first.view, time.Second, true, first)
		for width := range 220 {
			for _, height := range []int{1, 2, 5, 24} {
				m, _ = m.update(size{width, height})
				lines := m.Lines()
				if width > 0 && len(lines) > height {
					t.Fatalf("%d lines on a terminal of %d", len(lines), height)
				}
				for _, line := range lines {
					if n := ansi.StringWidth(line); width > 0 && n > width {
						t.Fatalf("a line has %d of %d columns: %q", n, width, line)
					}
					if strings.Contains(ansi.Strip(line), "\x1b") {
						t.Fatalf("the text of a node or job has an escape sequence: %q", line)
					}
				}
			}
		}
	}
}

func TestScrolling(t *testing.T) {
	m := started(nodes(100))
	expect(t, m, "gpu-0000", "gpu-0018", "1-19 of 100", "100 of 100 nodes online", "every 2s")
	m, _ = press(m, "down", "j", "up")
	expect(t, m, "2-20 of 100")
	m, _ = press(m, "pgdown")
	expect(t, m, "20-38 of 100")
	m, _ = press(m, "end")
	expect(t, m, "gpu-0099", "82-100 of 100")
	m, _ = press(m, "down", "pgdown")
	expect(t, m, "82-100 of 100")
	m, _ = m.update(size{80, 54}) // more rows fit, so that the first row moves up
	expect(t, m, "52-100 of 100")
	m, _ = press(m, "home", "up", "pgup")
	expect(t, m, "1-49 of 100")
	few := nodes(3) // the list became shorter than the screen
	m, _ = press(m, "end")
	m, do := m.update(few)
	expect(t, m, "gpu-0000", "1-3 of 3")
	if do != rest {
		t.Errorf("after an answer the model wants %d, not to rest", do)
	}
}

func TestViews(t *testing.T) {
	m := started(nodes(2))
	m, do := press(m, "2")
	if do != request {
		t.Errorf("a new view is not requested")
	}
	expect(t, m, "[2 devices]", "gpu-0000", "allocated", "another tenant's", "free")
	m, _ = press(m, "tab")
	expect(t, m, "[3 my jobs]", "Reading …")
	if m, do = m.update(nodes(5)); do != nothing || m.known[Jobs] {
		t.Errorf("the answer to an earlier request was not ignored")
	}
	m, _ = m.update(answer{sequence: m.sequence, view: Jobs, at: noon})
	expect(t, m, "No jobs of yours. Submit one with: ares submit")
	m, _ = press(m, "tab", "tab")
	expect(t, m, "[1 nodes]")
	m, _ = press(m, "shift+tab")
	expect(t, m, "[4 queue]")
	for _, k := range []string{"q", "esc", "ctrl+c"} {
		if _, do := press(m, k); do != quit {
			t.Errorf("%s does not quit", k)
		}
	}
}

// What is not measured has no column, and what one device does not report is not 0.
func TestWhatIsNotMeasuredIsAbsent(t *testing.T) {
	first := nodes(1)
	m, _ := press(started(first), "2")
	m, _ = m.update(size{200, 24})
	for _, absent := range []string{"CELSIUS", "UTIL", "POWER", "WATT", "USED"} {
		if strings.Contains(strings.ToUpper(text(m)), absent) {
			t.Errorf("the screen has %s:\n%s", absent, text(m))
		}
	}
	first.snapshot.Nodes[0].Devices[1].Celsius = 61
	first.sequence = m.sequence
	m, _ = m.update(first)
	expect(t, m, "CELSIUS", "     61")
	if line := strings.Split(text(m), "\n")[4]; !strings.Contains(line, "      -") {
		t.Errorf("an unknown temperature is not shown as absent: %q", line)
	}
}

func TestNoAnswer(t *testing.T) {
	m := started(nodes(2))
	gone := answer{view: Nodes, err: ares.Errorf(ares.Unavailable, "connection\nrefused"), at: noon.Add(time.Second)}
	m, do := m.update(gone)
	if do != rest {
		t.Errorf("after a failure the model does not try again")
	}
	since := gone.at.Local().Format("15:04:05")
	expect(t, m, "No answer since "+since+", trying again: connection; refused", "gpu-0001")
	gone.at = noon.Add(5 * time.Second)
	m, _ = m.update(gone)
	expect(t, m, "No answer since "+since)
	back := nodes(3)
	back.at = noon.Add(11 * time.Second)
	m, _ = m.update(back)
	expect(t, m, "The server answers again, after 10s.", "gpu-0002")
	back.at = back.at.Add(showAgain + time.Second)
	m, _ = m.update(back)
	if strings.Contains(text(m), "again") {
		t.Errorf("the message stays:\n%s", text(m))
	}
	m, _ = m.update(answer{view: Nodes, err: ares.Errorf(ares.Forbidden, "you may not list nodes"), at: noon})
	expect(t, m, "The server refuses: you may not list nodes")
}

func TestPauseAndSuspend(t *testing.T) {
	m := started(nodes(2))
	if _, do := m.update(due{m.sequence}); do != request {
		t.Errorf("nothing is requested after the interval")
	}
	m, do := press(m, "p")
	if do != nothing {
		t.Errorf("pausing wants %d", do)
	}
	expect(t, m, "paused", "p continue")
	if _, do := m.update(due{m.sequence}); do != nothing {
		t.Errorf("a paused screen requests")
	}
	if m, do = press(m, "p"); do != request {
		t.Errorf("continuing does not request")
	}
	if _, do := press(m, "ctrl+z"); do != suspend {
		t.Errorf("Ctrl-Z does not suspend")
	}
	if _, do := m.update(resumed{}); do != request {
		t.Errorf("after being suspended, nothing is requested")
	}
	alone := newModel(Nodes, time.Second, false, nodes(1))
	alone, do = press(alone, "ctrl+z")
	if do != nothing {
		t.Errorf("Ctrl-Z suspends without a shell")
	}
	expect(t, alone, "no shell with job control")
}

func TestOrderOfJobs(t *testing.T) {
	job := func(name, state string, priority int32, minutes int) *apipb.Job {
		return &apipb.Job{Name: name, State: state, Priority: priority, CreatedAt: timestamppb.New(noon.Add(-time.Duration(minutes) * time.Minute))}
	}
	all := []*apipb.Job{job("done", "succeeded", 0, 1), job("old", "running", 0, 9), job("waits", "pending", 5, 2), job("new", "running", 0, 3), job("urgent", "pending", 9, 1), job("first", "pending", 5, 8)}
	for v, want := range map[View]string{Jobs: "new old urgent waits first done", Queue: "urgent first waits old new done"} {
		jobs := append([]*apipb.Job(nil), all...)
		order(v, jobs)
		var names []string
		for _, j := range jobs {
			names = append(names, j.GetName())
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("view %d: %s, want %s", v, got, want)
		}
	}
}

func TestText(t *testing.T) {
	var b strings.Builder
	first := nodes(2)
	first.snapshot.At = noon
	writeText(&b, Nodes, first.snapshot, false)
	for _, want := range []string{"2 of 2 nodes online", "NODE      STATE   FREE GPUS  JOBS  FREE CPUS  FREE GB", "gpu-0001  online  1/2"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text does not contain %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	writeText(&b, Queue, Snapshot{Jobs: make([]*apipb.Job, 1), Total: 7}, false)
	if want := "The newest 1 of 7 waiting jobs."; !strings.Contains(b.String(), want) {
		t.Errorf("the text does not contain %q:\n%s", want, b.String())
	}
}
