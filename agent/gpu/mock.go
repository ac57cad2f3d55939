package gpu

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
)

// These are the temperatures of mock devices.
const (
	mockCelsius    = 40
	mockHotCelsius = 95
)

// Mock simulates the machine that a profile describes. The IDs of the mock devices depend only on the node and the profile, and
// differ between nodes.
func Mock(profile, node string) (Source, error) {
	p, err := profileNamed(profile)
	if err != nil {
		return nil, err
	}
	if node == "" {
		return nil, ares.Errorf(ares.Invalid, "simulated devices need a node name: set --node")
	}
	if _, err := parseFaults(os.Getenv(FaultsEnv)); err != nil {
		return nil, err
	}
	return mock{p, node}, nil
}

type mock struct {
	profile profile
	node    string
}

func (s mock) Detect(context.Context) (Machine, error) {
	faults, err := parseFaults(os.Getenv(FaultsEnv))
	if err != nil {
		return Machine{}, err
	}
	p := s.profile
	m := Machine{Links: p.matrix(), CPUs: p.cpus, MemoryMB: p.memoryMB, NUMA: p.parts(), Mock: true, Profile: p.name}
	for i, numa := range p.numa {
		d := ares.Device{
			ID: s.id(i), Index: i, Type: ares.DefaultAccelerator, Model: p.model, MemoryMB: p.gpuMB,
			NUMA: numa, Healthy: true, Celsius: mockCelsius,
		}
		switch fault := faults[i]; fault {
		case "":
		case "hot":
			d.Celsius = mockHotCelsius
		default:
			d.Healthy, d.Reason = false, fault+" (simulated)"
		}
		m.Devices = append(m.Devices, d)
	}
	return m, nil
}

func (s mock) Busy(_ context.Context, ids []string) ([]Process, error) {
	known := map[string]bool{}
	for i := range s.profile.numa {
		known[s.id(i)] = true
	}
	for _, id := range ids {
		if !known[id] {
			return nil, unknownDevice(id)
		}
	}
	return nil, nil
}

// The method `id` generates the ID of the mock device with index i. The ID of a mock device cannot be mistaken for
// that of a real card.
func (s mock) id(i int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", s.node, s.profile.name, i))
	return fmt.Sprintf("MOCK-%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// parseFaults reads FaultsEnv. Ignore an index that the machine does not have, because machines of several sizes may have the
// same value of FaultsEnv.
func parseFaults(s string) (map[int]string, error) {
	faults := map[int]string{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		index, fault, _ := strings.Cut(part, "=")
		i, err := strconv.Atoi(index)
		if err != nil || i < 0 || fault == "" {
			return nil, ares.Errorf(ares.Invalid, "%s: %q must have the form INDEX=FAULT, for example 2=ecc", FaultsEnv, part)
		}
		faults[i] = fault
	}
	return faults, nil
}
