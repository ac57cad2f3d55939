package sim

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

// FuzzRead checks that every row of a trace file either becomes a valid job or is reported as a
// problem.
func FuzzRead(f *testing.F) {
	f.Add("deadlines", smallTrace)
	f.Add("slurm", "JobID|Submit|ElapsedRaw|AllocTRES|NNodes|TimelimitRaw|\n7|2026-01-01T00:00:00|60|cpu=16,gres/gpu:a=8,mem=1.5G|2|120|\n8|x|\"|\n")
	f.Add("philly", "\ufefftimestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,66.0,1,a\n,NaN,-1,\n\"\n")
	f.Add("openb", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np,1,1,1,500,9,3\np,1,1,99999,1001,1e99,\n")
	f.Add("ares", "{\"job\":{}}\n\x1f\x8b")
	f.Fuzz(func(t *testing.T, kind, text string) {
		trace, err := Read(kind, strings.NewReader(text))
		if err != nil {
			return
		}
		if !slices.IsSortedFunc(trace.Arrivals, func(a, b Arrival) int { return int(a.At.Seconds() - b.At.Seconds()) }) {
			t.Error("not in order")
		}
		for _, a := range trace.Arrivals {
			s := &a.Spec
			if a.At < 0 || a.Runs < 0 || min(s.GPUs, s.GPUMilli, s.CPUs, s.MemoryMB, s.Members) < 0 || max(s.Members, 1)*s.GPUs > ares.MaxJobGPUs {
				t.Errorf("%+v", a)
			}
		}
		if len(trace.Problems) > min(trace.Bad, maxProblems) {
			t.Errorf("%d problems of %d bad rows", len(trace.Problems), trace.Bad)
		}
	})
}

// FuzzFleet checks that every fleet file that is read without an error can also be built.
func FuzzFleet(f *testing.F) {
	f.Add(smallFleet)
	f.Add("machines: [{profile: dgx-h100, count: 2, leaf_size: 1}]\ntenants: [{name: a, quotas: [{gpus: 1, lend: 0}], queues: [{name: q, parent: p}]}]")
	f.Add("sn,cpu_milli,memory_mib,gpu,model\nn-1,8000,1000,2,T4\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func([]byte) (*Fleet, error){
			func(b []byte) (*Fleet, error) { return ReadFleet(bytes.NewReader(b)) },
			func(b []byte) (*Fleet, error) { return ReadOpenbNodes(bytes.NewReader(b)) },
		} {
			fleet, err := read([]byte(text))
			if err != nil {
				continue
			}
			nodes := 0
			for n := range fleet.Nodes() {
				if n.ID == "" || min(n.CPUs, n.MemoryMB) < 0 {
					t.Errorf("%+v", n)
				}
				if nodes++; nodes == 100 {
					break
				}
			}
			if len(fleet.Tenants()) == 0 || nodes == 0 {
				t.Error("nothing in the fleet")
			}
			fleet.Queues()
		}
	})
}
