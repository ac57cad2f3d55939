package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ares-scheduler/ares"
)

func describe(p place) string {
	d := p.device
	id := d.ID
	if !strings.HasPrefix(id, "PCI") {
		id = id[:12]
	}
	if d.Parent == "" {
		return fmt.Sprintf("%d %s %s", d.Index, id, d.Reason)
	}
	return fmt.Sprintf("%d %s %s %d MB of %s %s", d.Index, id, d.Profile, d.MemoryMB, d.Parent[:12], d.Reason)
}

// The function `tool` creates a fake nvidia-smi that runs a shell script.
func tool(t *testing.T, script string) string {
	t.Helper()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	text := "#!/bin/sh\nD='" + data + "'\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func smiWithin(path string, limit time.Duration) Source {
	return smi{command{path: path, limit: limit, gate: newGate()}}
}

func TestSMI(t *testing.T) {
	s := SMI(tool(t, `case "$1" in -q) cat "$D/h200x1.q.xml";; topo) cat "$D/h200x1.topo-m.txt";; *) exit 2;; esac`))
	m, err := s.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ares.Device{ID: "GPU-00000000-0000-0000-0000-000000000000", Type: "gpu", Model: "NVIDIA H200", MemoryMB: 143771, Healthy: true, Celsius: 34}
	if len(m.Devices) != 1 || m.Devices[0] != want || m.Driver != "580.159.04" || m.Mock || m.CPUs < 1 || m.MemoryMB < 1 ||
		!reflect.DeepEqual(m.Links, [][]string{{"X"}}) || len(m.Warnings) != 0 {
		t.Errorf("%+v", m)
	}
	if p, err := s.Busy(t.Context(), []string{want.ID}); err != nil || len(p) != 0 {
		t.Error(p, err)
	}
	if _, err := s.Busy(t.Context(), []string{"GPU-other"}); ares.CodeOf(err) != ares.NotFound {
		t.Error(err)
	}
}

func TestSMIOfBrokenMachine(t *testing.T) {
	s := SMI(tool(t, `case "$1" in -q) cat "$D/odd.q.xml"; exit 15;; -L) cat "$D/odd.list.txt";; *) echo no topology >&2; exit 3;; esac`))
	m, err := s.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Devices) != 10 || len(m.Warnings) != 3 || m.Devices[8].Celsius != 0 || m.Links[1][2] != "PHB" || m.Links[0][1] != "SYS" {
		t.Errorf("%+v", m)
	}
	whole, slice, other := m.Devices[0].ID, m.Devices[2].ID, m.Devices[3].ID
	p, err := s.Busy(t.Context(), []string{whole, slice, other})
	if err != nil {
		t.Fatal(err)
	}
	want := []Process{
		{PID: 4242, Device: whole, Name: "python train.py --a & --b", MemoryMB: 1024},
		{PID: 4243, Device: whole, Name: "nvidia-cuda-mps-server"},
		{PID: 900, Device: slice, Name: "python", MemoryMB: 512},
	}
	if !slices.Equal(p, want) {
		t.Errorf("%+v", p)
	}
	if _, err := s.Busy(t.Context(), []string{m.Devices[9].ID}); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("who is on a lost card: %v", err)
	}
}

func TestSMIThatFails(t *testing.T) {
	for name, script := range map[string]string{
		"no driver":       `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`,
		"nothing":         `exit 0`,
		"half a document": `head -c 9000 "$D/h200x1.q.xml"`,
		"too much":        `echo '<nvidia_smi_log>'; exec yes`,
	} {
		if m, err := SMI(tool(t, script)).Detect(t.Context()); ares.CodeOf(err) != ares.Unavailable {
			t.Errorf("%s: %v %+v", name, err, m)
		}
	}
	if _, err := SMI("/nowhere/nvidia-smi").Detect(t.Context()); ares.CodeOf(err) != ares.Unavailable {
		t.Error(err)
	}
	m, err := SMI(tool(t, `echo "No devices were found"; exit 6`)).Detect(t.Context())
	if err != nil || len(m.Devices) != 0 || m.CPUs == 0 {
		t.Errorf("a machine without cards: %v %+v", err, m)
	}
}

func TestSMIThatHangs(t *testing.T) {
	s := smiWithin(tool(t, `exec sleep 600`), 100*time.Millisecond)
	start := time.Now()
	for range 2 { // the first call must not block the second
		if _, err := s.Detect(t.Context()); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "no answer") {
			t.Error(err)
		}
	}
	if d := time.Since(start); d > 2*commandGrace { // neither killed command was waited for
		t.Errorf("it took %v", d)
	}
}

func TestGateLeavesAStuckCallBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, free := newGate(), make(chan struct{})
		call := func(f func(context.Context) (int, error)) (int, error) {
			return pass(t.Context(), g, commandTimeout, "the driver", f)
		}
		stuck := func(context.Context) (int, error) { <-free; return 1, nil }
		if _, err := call(stuck); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "cannot be stopped") {
			t.Error(err)
		}
		if _, err := call(stuck); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "earlier call") {
			t.Error(err)
		}
		close(free)
		n, err := call(func(context.Context) (int, error) { return 2, errors.New("said") })
		if n != 2 || err == nil || err.Error() != "said" {
			t.Error(n, err)
		}
	})
}

func TestMock(t *testing.T) {
	for _, name := range Profiles() {
		a, err := Mock(name, "a")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := Mock(name, "b")
		m, err := a.Detect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again, _ := a.Detect(t.Context())
		other, _ := b.Detect(t.Context())
		if !reflect.DeepEqual(m, again) || !m.Mock || m.Profile != name || m.CPUs == 0 || m.MemoryMB == 0 {
			t.Errorf("%s: %+v", name, m)
		}
		seen := map[string]bool{}
		for i, d := range slices.Concat(m.Devices, other.Devices) {
			if seen[d.ID] || !d.Healthy || d.Index != i%len(m.Devices) || d.MemoryMB == 0 {
				t.Errorf("%s: %+v", name, d)
			}
			seen[d.ID] = true
		}
		checkMatrix(t, name, m)
	}
	if _, err := Mock("dgx-9000", "a"); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "dgx-h100, dgx-a100") {
		t.Error(err)
	}
	if _, err := Mock("t4-4", ""); ares.CodeOf(err) != ares.Invalid {
		t.Error(err)
	}
}

func checkMatrix(t *testing.T, name string, m Machine) {
	t.Helper()
	if len(m.Links) != len(m.Devices) {
		t.Fatalf("%s: %d links of %d devices", name, len(m.Links), len(m.Devices))
	}
	for i, row := range m.Links {
		if len(row) != len(m.Devices) {
			t.Fatalf("%s: row %d has %d links", name, i, len(row))
		}
		for j, l := range row {
			if l != m.Links[j][i] || (i == j) != (l == "X") || i != j && linkNamed(l) != l {
				t.Errorf("%s: %d to %d by %s, back by %s", name, i, j, l, m.Links[j][i])
			}
		}
	}
}

// TestV100Mock checks the mock machine with four V100 GPUs.
func TestV100Mock(t *testing.T) {
	s, _ := Mock("v100-4", "worker-1")
	m, err := s.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nvlinked := 0
	for i, row := range m.Links {
		for j, l := range row {
			if strings.HasPrefix(l, "NV") {
				nvlinked++
				if i/2 != j/2 {
					t.Errorf("%d and %d are linked", i, j)
				}
			}
		}
	}
	if len(m.Devices) != 4 || nvlinked != 4 || m.Devices[3].Model != "Tesla V100" || m.Devices[3].MemoryMB != 32510 {
		t.Errorf("%d links in %+v", nvlinked, m)
	}
}

func TestMockFaults(t *testing.T) {
	s, err := Mock("t4-4", "a")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(FaultsEnv, "2=ecc, 3=hot,9=lost")
	m, err := s.Detect(t.Context())
	if err != nil || m.Devices[2].Healthy || m.Devices[2].Reason != "ecc (simulated)" || !m.Devices[3].Healthy || m.Devices[3].Celsius != mockHotCelsius || m.Devices[0].Celsius != mockCelsius {
		t.Errorf("%v %+v", err, m)
	}
	if p, err := s.Busy(t.Context(), []string{m.Devices[2].ID}); err != nil || len(p) != 0 {
		t.Error(p, err)
	}
	if _, err := s.Busy(t.Context(), []string{"MOCK-other"}); ares.CodeOf(err) != ares.NotFound {
		t.Error(err)
	}
	t.Setenv(FaultsEnv, "ecc")
	if _, err := s.Detect(t.Context()); ares.CodeOf(err) != ares.Invalid {
		t.Error(err)
	}
}

func TestFind(t *testing.T) {
	if library(t.Context(), slog.New(slog.DiscardHandler)) != nil {
		t.Skip("the vendor's library is here and comes first")
	}
	real := filepath.Dir(tool(t, `case "$1" in -q) cat "$D/h200x1.q.xml";; *) cat "$D/h200x1.topo-m.txt";; esac`))
	bare := t.TempDir()
	for _, c := range []struct{ path, mock, env, want string }{
		{real, "", "", "1 NVIDIA H200"},
		{real, "dgx-h100", "", "8 NVIDIA H100 80GB HBM3"},
		{real, "dgx-h100", "false", "8 NVIDIA H100 80GB HBM3"},
		{real, "", "true", "8 NVIDIA H100 80GB HBM3"},
		{real, "", "t4-4", "4 Tesla T4"},
		{real, Off, "true", "1 NVIDIA H200"},
		{real, "", "false", "1 NVIDIA H200"},
		{bare, "", "", "8 NVIDIA H100 80GB HBM3"},
		{bare, Off, "", "0"},
		{bare, "", "0", "0"},
	} {
		t.Setenv("PATH", c.path)
		t.Setenv(MockEnv, c.env)
		s, err := Find(t.Context(), c.mock, "a", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		t.Setenv("PATH", "/usr/bin:/bin") // the script above needs cat
		m, err := s.Detect(t.Context())
		got := fmt.Sprint(len(m.Devices))
		if len(m.Devices) > 0 {
			got += " " + m.Devices[0].Model
		}
		if err != nil || got != c.want {
			t.Errorf("%+v: %s %v", c, got, err)
		}
	}
	t.Setenv(MockEnv, "maybe")
	if _, err := Find(t.Context(), "", "a", slog.New(slog.DiscardHandler)); ares.CodeOf(err) != ares.Invalid {
		t.Error(err)
	}
}

func TestMeminfo(t *testing.T) {
	for in, want := range map[string]int{"MemTotal:       131885776 kB\nMemFree: 1 kB\n": 128794, "MemFree: 1 kB\n": 0, "MemTotal: x kB\n": 0, "": 0} {
		if mb, ok := parseMeminfo(strings.NewReader(in)); mb != want || ok != (want > 0) {
			t.Errorf("%q: %d %v", in, mb, ok)
		}
	}
}

// TestHere detects the devices of the machine on which the test runs. ARES_TEST_GPU=1 means that the machine has an
// accelerator. ARES_TEST_GPU_PID is the PID of a process that computes on the first accelerator.
func TestHere(t *testing.T) {
	if os.Getenv("ARES_TEST_GPU") == "" {
		t.Skip("ARES_TEST_GPU is not set")
	}
	s, err := Find(t.Context(), Off, "here", slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m, err := s.Detect(t.Context())
	if err != nil || len(m.Devices) == 0 {
		t.Fatalf("%v %+v", err, m)
	}
	text, _ := json.Marshal(m)
	t.Logf("%T in %v: %s", s, time.Since(start), text)
	checkMatrix(t, "here", m)
	p, err := s.Busy(t.Context(), []string{m.Devices[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("processes: %+v", p)
	if pid := os.Getenv("ARES_TEST_GPU_PID"); pid != "" && !slices.ContainsFunc(p, func(p Process) bool { return fmt.Sprint(p.PID) == pid }) {
		t.Errorf("process %s is not among %+v", pid, p)
	}
}
