package sim

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/engine/config"
)

const pods = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time
late,1000,100,1,1000,,90
half,1000,100,1,500,,10
none,1000,100,0,0,,20
four,1000,100,4,1000,,30
half,1000,100,1,500,A10|T4,40
`

func openbPods(t *testing.T) *Trace {
	t.Helper()
	trace, err := Read("openb", strings.NewReader(pods))
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// TestLoad checks that jobs arrive in the given order, whatever their arrival times in the trace are.
// A job that does not fit must be dropped and not tried again. No job may end.
func TestLoad(t *testing.T) {
	t.Parallel()
	f, err := ReadOpenbNodes(strings.NewReader("sn,cpu_milli,memory_mib,gpu,model\nn,32000,1000,2,T4\n"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := ReadOrder(strings.NewReader("0\n3\n1\n2\n1\n1\n"))
	if err != nil {
		t.Fatal(err)
	}
	w := NewWorld(f, Policy{Engine: config.Default()})
	var seen []Moment
	if err := w.Load(openbPods(t), rows, func(m Moment) { seen = append(seen, m) }); err != nil {
		t.Fatal(err)
	}
	want := []Moment{{1000, 1000}, {5000, 1000}, {5500, 1500}, {5500, 1500}, {6000, 2000}, {6500, 2000}}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("it went %v, want %v", seen, want)
	}
	live := 0
	for range w.state.Jobs() {
		live++
	}
	if live != 4 {
		t.Errorf("%d jobs live, 4 were placed", live)
	}
	if err := w.state.Check(); err != nil {
		t.Error(err)
	}
}

func TestLoadRejectsUnknownRows(t *testing.T) {
	t.Parallel()
	if _, err := ReadOrder(strings.NewReader("3\nx\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("x as a row: %v", err)
	}
	w := NewWorld(&Fleet{}, Policy{Engine: config.Default()})
	if err := w.Load(openbPods(t), []int{5}, func(Moment) {}); err == nil || !strings.Contains(err.Error(), "row 5") {
		t.Errorf("row 5 of 5: %v", err)
	}
}

// TestTypical checks that Typical returns the most frequent kinds of jobs. Together these kinds
// must make up at least the given percentage of all jobs.
func TestTypical(t *testing.T) {
	t.Parallel()
	trace := openbPods(t)
	for range 3 {
		trace.Arrivals = append(trace.Arrivals, trace.Arrivals[1])
	}
	want := []config.TypicalJob{
		{CPUs: 1000, Count: 4},
		{CPUs: 1000, Milli: 500, Model: "A10|T4", Count: 1},
		{CPUs: 1000, Milli: 500, Count: 1},
		{CPUs: 1000, GPUs: 4, Count: 1},
		{CPUs: 1000, GPUs: 1, Count: 1},
	}
	for percent, n := range map[int]int{50: 1, 51: 2, 95: 5, 100: 5} {
		if got := trace.Typical(percent); !reflect.DeepEqual(got, want[:n]) {
			t.Errorf("%d %%: %v, want %v", percent, got, want[:n])
		}
	}
}

// TestPoliciesAreValid checks that the engine accepts every built-in policy. No two policies may be
// equal.
func TestPoliciesAreValid(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name := range policies {
		p, err := PolicyNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		p = p.For(openbPods(t), 7)
		if err := p.Engine.Check(); err != nil || p.Name != name {
			t.Errorf("%s is %s: %v", name, p.Name, err)
		}
		what := fmt.Sprint(p.Estimate, p.Preemptible, p.Engine.Digest())
		if other, twice := seen[what]; twice {
			t.Errorf("%s is %s", name, other)
		}
		seen[what] = name
	}
}
