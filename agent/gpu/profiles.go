package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ares-scheduler/ares"
)

// DefaultProfile is the profile of the mock machine that ARES_MOCK_GPU=true selects.
const DefaultProfile = "dgx-h100"

// The type `profile` describes a machine to simulate.
type profile struct {
	name     string
	model    string
	gpuMB    int
	cpus     int // hardware threads
	memoryMB int
	numa     []int  // NUMA node of each device
	links    string // the matrix, one row for each device
}

// The variable `profiles` describes machines in the notation of nvidia-smi.
var profiles = []profile{
	{
		name: "dgx-h100", model: "NVIDIA H100 80GB HBM3", gpuMB: 81559, cpus: 224, memoryMB: 2 << 20,
		numa: []int{0, 0, 0, 0, 1, 1, 1, 1}, links: switched(8, "NV18"),
	},
	{
		name: "dgx-a100", model: "NVIDIA A100-SXM4-80GB", gpuMB: 81920, cpus: 256, memoryMB: 2 << 20,
		numa: []int{3, 3, 1, 1, 7, 7, 5, 5}, links: switched(8, "NV12"), // 4 of the 8 NUMA nodes have cards
	},
	{
		name: "dgx1-v100", model: "Tesla V100-SXM2-32GB", gpuMB: 32510, cpus: 80, memoryMB: 512 << 10,
		numa: []int{0, 0, 0, 0, 1, 1, 1, 1},
		links: `
			X   NV1 NV1 NV2 NV2 SYS SYS SYS
			NV1 X   NV2 NV1 SYS NV2 SYS SYS
			NV1 NV2 X   NV2 SYS SYS NV1 SYS
			NV2 NV1 NV2 X   SYS SYS SYS NV1
			NV2 SYS SYS SYS X   NV1 NV1 NV2
			SYS NV2 SYS SYS NV1 X   NV2 NV1
			SYS SYS NV1 SYS NV1 NV2 X   NV2
			SYS SYS SYS NV1 NV2 NV1 NV2 X`,
	},
	{
		name: "v100-4", model: "Tesla V100", gpuMB: 32510, cpus: 40, memoryMB: 256 << 10,
		numa: []int{0, 0, 1, 1},
		links: `
			X   NV2 SYS SYS
			NV2 X   SYS SYS
			SYS SYS X   NV2
			SYS SYS NV2 X`,
	},
	{
		// In this profile the PCIe switches of the first socket are cascaded. The second socket has two host bridges
		// with one switch each. Every kind of PCIe link therefore occurs.
		name: "pcie-8", model: "NVIDIA L40S", gpuMB: 46068, cpus: 128, memoryMB: 1 << 20,
		numa: []int{0, 0, 0, 0, 1, 1, 1, 1},
		links: `
			X   PIX PXB PXB SYS SYS SYS SYS
			PIX X   PXB PXB SYS SYS SYS SYS
			PXB PXB X   PIX SYS SYS SYS SYS
			PXB PXB PIX X   SYS SYS SYS SYS
			SYS SYS SYS SYS X    PIX  NODE NODE
			SYS SYS SYS SYS PIX  X    NODE NODE
			SYS SYS SYS SYS NODE NODE X    PIX
			SYS SYS SYS SYS NODE NODE PIX  X`,
	},
	{
		name: "t4-4", model: "Tesla T4", gpuMB: 15360, cpus: 48, memoryMB: 192 << 10,
		numa: []int{0, 0, 0, 0}, links: switched(4, "PHB"),
	},
}

// The function `switched` returns the link matrix of n devices with equal links between all of them.
func switched(n int, link string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(link+" ", i) + "X " + strings.Repeat(link+" ", n-1-i) + "\n")
	}
	return b.String()
}

func (p profile) matrix() [][]string {
	var rows [][]string
	for line := range strings.Lines(strings.TrimSpace(p.links)) {
		rows = append(rows, strings.Fields(line))
	}
	return rows
}

// The method `parts` splits CPUs and memory among the NUMA nodes of the machine. The first NUMA node gets the remainder.
func (p profile) parts() []ares.NUMANode {
	parts := make([]ares.NUMANode, slices.Max(p.numa)+1)
	share := func(whole, i int) int {
		part := whole / len(parts)
		if i < whole%len(parts) {
			part++
		}
		return part
	}
	for i := range parts {
		parts[i] = ares.NUMANode{ID: i, CPUs: share(p.cpus, i), MemoryMB: share(p.memoryMB, i)}
	}
	return parts
}

// Profiles lists the names of the machines that can be simulated.
func Profiles() []string {
	var names []string
	for _, p := range profiles {
		names = append(names, p.name)
	}
	return names
}

// chooseProfile says how to choose another profile than the default.
func chooseProfile() string {
	return fmt.Sprintf("%s=NAME or --mock NAME, with one of %s", MockEnv, strings.Join(Profiles(), ", "))
}

func profileNamed(name string) (profile, error) {
	for _, p := range profiles {
		if p.name == name {
			return p, nil
		}
	}
	return profile{}, ares.Errorf(ares.Invalid, "%q is not a profile of simulated devices: choose one of %s", name, strings.Join(Profiles(), ", "))
}
