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

// The temperatures of mock devices.
const (
	mockCelsius    = 40
	mockHotCelsius = 95
)

// Mock simulates the machine of a profile. Its devices have the same IDs
// whenever node and profile are the same, and other IDs on any other node.
func Mock(profile, node string) (Source, error) {
	p, err := profileNamed(profile)
	if err != nil {
		return nil, err
	}
	if node == "" {
		return nil, ares.Errorf(ares.Invalid, "a mock machine needs the name of its node")
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

// id makes up the ID of device i. Nothing takes it for one of a real card.
func (s mock) id(i int) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", s.node, s.profile.name, i))
	return fmt.Sprintf("MOCK-%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// parseFaults reads FaultsEnv. An index the machine does not have is no
// mistake, since machines of several sizes may share one environment.
func parseFaults(s string) (map[int]string, error) {
	faults := map[int]string{}
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		index, fault, _ := strings.Cut(part, "=")
		i, err := strconv.Atoi(index)
		if err != nil || i < 0 || fault == "" {
			return nil, ares.Errorf(ares.Invalid, "%s: %q is not index=fault, such as 2=ecc", FaultsEnv, part)
		}
		faults[i] = fault
	}
	return faults, nil
}
