package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// This function returns a trace in which two jobs arrive together every six hours. Each job
// has a deadline one hour after its arrival.
func fortnight() *Trace {
	t := &Trace{}
	for i := range 56 {
		for k := range 2 {
			at := time.Duration(i)*6*time.Hour + 1000*time.Hour
			t.Arrivals = append(t.Arrivals, Arrival{At: at, Runs: time.Minute, Line: 2*i + k, Spec: ares.Spec{
				Name: fmt.Sprint(2*i + k), Deadline: time.Unix(0, 0).UTC().Add(at + time.Hour),
			}})
		}
	}
	return t
}

func TestResample(t *testing.T) {
	t.Parallel()
	trace := fortnight()
	before := slices.Clone(trace.Arrivals)
	for _, how := range Resamples() {
		a, err := trace.Resample(how, 1)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := trace.Resample(how, 1)
		other, _ := trace.Resample(how, 2)
		if fmt.Sprint(a) != fmt.Sprint(again) {
			t.Errorf("%s: one seed draws two traces", how)
		}
		if fmt.Sprint(a) == fmt.Sprint(other) {
			t.Errorf("%s: two seeds draw one trace", how)
		}
		if !slices.IsSortedFunc(a.Arrivals, func(x, y Arrival) int { return int(x.At - y.At) }) {
			t.Errorf("%s: not in order", how)
		}
		for i := range a.Arrivals {
			x := &a.Arrivals[i]
			if x.Spec.Deadline.Sub(time.Unix(0, 0)) != x.At+time.Hour {
				t.Errorf("%s: a deadline moved away from its job", how)
			}
			if how != ResampleDays && x.At != trace.Arrivals[i].At {
				t.Errorf("%s: an arrival moved", how)
			}
			if how == ResampleDays && (x.At-trace.Arrivals[x.Line].At)%day != 0 {
				t.Errorf("%s: the hour of an arrival changed", how)
			}
		}
		if how != ResampleDays && len(a.Arrivals) != len(trace.Arrivals) {
			t.Errorf("%s: %d arrivals", how, len(a.Arrivals))
		}
	}
	if fmt.Sprint(before) != fmt.Sprint(trace.Arrivals) {
		t.Error("the trace itself changed")
	}
	if same, _ := trace.Resample(ResampleNone, 0); fmt.Sprint(same) != fmt.Sprint(trace) {
		t.Error("seed 0 does not leave the trace alone")
	}
	if _, err := trace.Resample("dice", 0); err == nil {
		t.Error("dice are thrown")
	}
}

func TestDetectFormat(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		"timestamp,duration,num_gpus,gpu_time,cluster":                   "philly",
		"\ufeffname,cpu_milli,memory_mib,num_gpu,gpu_milli\r":            "openb",
		"job_id,user,num_gpu,submit_time,duration,expect_time_list,mood": "deadlines",
		"JobID|JobName|Submit|ElapsedRaw|AllocTRES|":                     "slurm",
		"JobID,Submit,ElapsedRaw,AllocTRES":                              "",
		"":                                                               "",
		"timestamp,duration,num_gpus,cluster,name,cpu_milli,memory_mib,num_gpu,gpu_milli": "",
	} {
		if got := DetectFormat(head); got != want {
			t.Errorf("%q is guessed to be %q, want %q", head, got, want)
		}
	}
}

func TestFleetFile(t *testing.T) {
	t.Parallel()
	f, err := ReadFleet(strings.NewReader(`
machines:
  - {profile: box, count: 3, leaf_size: 2}
  - {name: odd, gpus: 2, links: NV4}
tenants:
  - name: a
    weight: 2
    quotas: [{gpus: 8, borrow: 4}, {model: h100, gpus: 2, lend: 0}]
    queues: [{name: prod, weight: 3, max_gpus: 4}, {name: dev, parent: prod}]
`))
	if err != nil {
		t.Fatal(err)
	}
	asked := ""
	err = f.Resolve(func(name string) (*ares.Node, error) {
		asked = name
		return &ares.Node{CPUs: 7, MemoryMB: 9, Devices: []ares.Device{{ID: "x", Model: "H100", Healthy: true}}}, nil
	})
	if err != nil || asked != "box" {
		t.Fatal(asked, err)
	}
	var said []string
	for n := range f.Nodes() {
		said = append(said, fmt.Sprint(n.ID, " ", n.CPUs, " ", len(n.Devices), " ", n.Devices[0].ID, " ", n.Labels["leaf"], n.Links))
	}
	want := "box-00000 7 1 box-00000/0 box-leaf-0000[] box-00001 7 1 box-00001/0 box-leaf-0000[] box-00002 7 1 box-00002/0 box-leaf-0001[] " +
		"odd 0 2 odd/0 [[X NV4] [NV4 X]]"
	if got := strings.Join(said, " "); got != want {
		t.Errorf("nodes\n%s, want\n%s", got, want)
	}
	tenants, queues := f.Tenants(), f.Queues()
	if len(tenants) != 2 || tenants[0].ID != "a" || tenants[0].Quotas[0].Lend != ares.Unlimited || tenants[0].Quotas[1].Lend != 0 {
		t.Errorf("tenants %+v", tenants[0])
	}
	if len(queues) != 2 || queues[0].ID() != "a/prod" || queues[0].Limits.GPUs != 4 || queues[1].Parent != "prod" || queues[1].Limits.GPUs != ares.Unlimited {
		t.Errorf("queues %+v", queues)
	}
}

func TestFleetMistakes(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"machines: []":                                                                "there are none",
		"machines: [{name: a, gpu: 8}]":                                               "unknown key gpu",
		"machines: [{name: a/b}]":                                                     "is not a name",
		"machines: [{name: a}, {name: a}]":                                            "given twice",
		"machines: [{name: a, count: -1}]":                                            "a count from 1",
		"machines: [{profile: dgx-h100, gpus: 4}]":                                    "leave out gpus",
		"machines: [{name: a, gpus: 65}]":                                             "at most 64",
		"machines: [{name: a}]\ntenants: [{name: t, weight: -1}]":                     "weight",
		"machines: [{name: a}]\ntenants: [{name: t, quotas: [{gpus: -1}]}]":           "nominal_gpus",
		"machines: [{name: a}]\ntenants: [{name: t, queues: [{name: q, parent: q}]}]": "under itself",
		"machines: [{name: a, count: 150000}, {name: b, count: 150000}]":              "at most 200000",
		"}": "read the fleet",
	} {
		if _, err := ReadFleet(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %s", text, err, why)
		}
	}
	for _, text := range []string{"", "sn,cpu_milli,memory_mib,gpu,model\n", "sn,cpu_milli,memory_mib,gpu,model\na,1,2,x,m\n", "a,b\n1,2\n"} {
		if _, err := ReadOpenbNodes(strings.NewReader(text)); err == nil {
			t.Errorf("%q is a list of nodes", text)
		}
	}
}
