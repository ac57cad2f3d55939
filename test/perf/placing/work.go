package placing

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Now is when every decision is made.
var Now = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)

// ask is a kind of job and how often it occurs.
type ask struct{ cores, memory, gpus, milli, count int }

// mix is the requests that are most frequent in the openb trace of a production
// GPU cluster (alibaba/clusterdata v2023, pod list "default"), cores rounded up:
// 7,600 of its 8,152 pods, and those of 2, 4 and 8 GPUs.
var mix = []ask{
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

// Work is a stream of jobs: the spec of the one at a position.
type Work func(i int) ares.Spec

// Openb is a shuffled stream of the openb mix: jobs of one member.
func Openb(i int) ares.Spec {
	total := 0
	for _, a := range mix {
		total += a.count
	}
	at := int(uint32(i)*2654435761) % total
	for _, a := range mix {
		if at -= a.count; at < 0 {
			return ares.Spec{CPUs: a.cores, MemoryMB: a.memory, GPUs: a.gpus, GPUMilli: a.milli, Tenant: tenant(i), Priority: new(priority(i))}
		}
	}
	panic("unreachable")
}

// Gangs asks for 8 to 64 GPUs on nodes of 8.
func Gangs(i int) ares.Spec {
	return ares.Spec{Members: 1 + i%8, GPUs: 8, CPUs: 64, Tenant: tenant(i), Priority: new(priority(i))}
}

// tenants is how many share the fleet.
const tenants = 10

func tenant(i int) string { return fmt.Sprintf("team-%d", i%tenants) }

// priority is that of most jobs, or a little more or less.
func priority(i int) int { return [...]int{500, 500, 500, 700, 300}[i/tenants%5] }

// Job is the waiting job at a position of the work, one of so many that came
// over the last six hours.
func Job(w Work, i, of int) *ares.Job {
	return &ares.Job{
		Spec: w(i).WithDefaults(), ID: ares.JobID(fmt.Sprintf("job-%06d", i)), Revision: int64(i),
		AcceptedAt: Now.Add(-6 * time.Hour * time.Duration(of-i) / time.Duration(of)),
	}
}

// Of one node.
const (
	GPUs     = 8
	CPUs     = 96
	MemoryMB = 393_216
)

// Node is the node at a position: 32 nodes a leaf, 16 leaves a spine, and the
// same link between any two of its GPUs.
func Node(i int) *ares.Node {
	n := &ares.Node{
		ID: fmt.Sprintf("n%05d", i), CPUs: CPUs, MemoryMB: MemoryMB,
		Labels: map[string]string{"leaf": fmt.Sprintf("leaf-%03d", i/32), "spine": fmt.Sprintf("spine-%02d", i/512), "zone": "a", "region": "r"},
		Links:  make([][]string, GPUs),
	}
	for g := range GPUs {
		n.Devices = append(n.Devices, ares.Device{
			ID: fmt.Sprintf("%s-%d", n.ID, g), Index: g, Type: "gpu", Model: "G2", MemoryMB: 32_768, NUMA: g / 4, Healthy: true,
		})
		for k := range GPUs {
			link := "NV12"
			if g == k {
				link = "X"
			}
			n.Links[g] = append(n.Links[g], link)
		}
	}
	return n
}
