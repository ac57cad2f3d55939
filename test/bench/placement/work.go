package placement

import (
	"fmt"
	"time"

	ares "github.com/ares-scheduler/ares"
)

// Now is the time at which every decision is made.
var Now = time.Date(2026, 1, 1, 6, 0, 0, 0, time.UTC)

// An `ask` is a kind of job, with its request and its frequency.
type ask struct{ cores, memory, gpus, milli, count int }

// The variable `mix` holds the most frequent requests of the openb trace, with
// cores rounded up. The trace is from a production GPU cluster
// (alibaba/clusterdata v2023, pod list "default"). The mix covers 7,600 of the
// trace's 8,152 pods, including those with 2, 4 and 8 GPUs.
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

// Work is a stream of jobs. A Work is a function that returns the spec of the
// job at a given position in the stream.
type Work func(i int) ares.Spec

// Openb is a shuffled stream of single-member jobs from the openb mix.
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

// Gangs is a stream of gangs that ask for 8 to 64 GPUs on nodes with 8 GPUs.
func Gangs(i int) ares.Spec {
	return ares.Spec{Members: 1 + i%8, GPUs: 8, CPUs: 64, Tenant: tenant(i), Priority: new(priority(i))}
}

// The constant `tenants` is the number of tenants that share the cluster.
const tenants = 10

func tenant(i int) string { return fmt.Sprintf("team-%d", i%tenants) }

// This function returns the priority of job number i. Most jobs have priority
// 500, and the others have 700 or 300.
func priority(i int) int { return [...]int{500, 500, 500, 700, 300}[i/tenants%5] }

// Job returns the waiting job at position i of the work. The parameter named
// "of" is the number of all jobs. The jobs arrived during the last six hours,
// evenly spread.
func Job(w Work, i, of int) *ares.Job {
	return &ares.Job{
		Spec: w(i).WithDefaults(), ID: ares.JobID(fmt.Sprintf("job-%06d", i)), Revision: int64(i),
		AcceptedAt: Now.Add(-6 * time.Hour * time.Duration(of-i) / time.Duration(of)),
	}
}

// Each node has these resources.
const (
	GPUs     = 8
	CPUs     = 96
	MemoryMB = 393_216
)

// Node returns the node with index i. Each leaf switch has 32 nodes, and each
// spine switch has 16 leaf switches. All pairs of GPUs in a node have the same
// kind of link.
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
