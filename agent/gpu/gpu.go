// Package gpu finds the accelerators of a machine, their links, their health, and the processes that still use them.
//
// The default build uses nvidia-smi. With the build tag nvml, the package uses NVIDIA's management library, or nvidia-smi if the
// library does not load. A mock machine simulates only the devices; the jobs on it are real.
package gpu

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strconv"

	"github.com/ares-scheduler/ares"
)

// Machine is the hardware of one host.
type Machine struct {
	Devices  []ares.Device // in the order of their PCI bus; a card cut into MIG slices is represented by its slices
	Links    [][]string    // Links[i][j] is the link between Devices[i] and Devices[j]: X, NV#, PIX, PXB, PHB, NODE or SYS
	CPUs     int           // hardware threads
	MemoryMB int
	NUMA     []ares.NUMANode // by ID; empty where the machine does not report it
	Mock     bool            // the devices are simulated
	Profile  string          // profile of a mock machine
	Driver   string          // version of the vendor's driver
	Warnings []string        // properties that could not be detected, for the log
}

// Process is a process that computes on a device.
type Process struct {
	PID      int    // in the namespace of the driver, which is the host's
	Device   string // ID of the device
	Name     string
	MemoryMB int // memory it uses on the device, 0 when unknown
}

// Source finds a machine's accelerators and the processes on them. The methods of a Source may be called concurrently and return within a
// bounded time.
type Source interface {
	// Detect returns the current state of the machine. Detect returns no error for a machine without accelerators. If
	// the driver does not answer, the error has the code Unavailable.
	Detect(ctx context.Context) (Machine, error)

	// Busy returns the processes that compute on the given devices. If the machine does not report one of the devices, Busy returns an
	// error of code NotFound. It is then unknown whether that device is free. A mock machine never has a process on a device.
	Busy(ctx context.Context, deviceIDs []string) ([]Process, error)
}

// These are the names of the environment variables that Find and Mock read.
const (
	// MockEnv selects a mock machine. The value is the name of a profile, or "true" for DefaultProfile. The value "false" forbids a mock
	// machine, even if no accelerator is found.
	MockEnv = "ARES_MOCK_GPU"

	// FaultsEnv lists faults of a mock machine's devices by device index, for example "2=ecc,5=lost". The fault "hot" raises a
	// device's temperature but leaves the device healthy.
	FaultsEnv = "ARES_MOCK_GPU_FAULTS"
)

// Off is a value for the argument `mock` of Find. It forbids a mock machine.
const Off = "off"

// Find chooses the Source for the machine with the given node name. Find uses the argument `mock` if it is set, and otherwise MockEnv. If
// neither is set, Find uses the vendor's library or nvidia-smi. If the host has neither the library nor nvidia-smi, Find logs a warning
// and simulates a mock machine. If the argument `mock` is Off, or if MockEnv is "false", a host without accelerators offers only its CPUs
// and memory. A host that has nvidia-smi is never simulated automatically, so broken accelerators are not replaced by simulated ones.
func Find(ctx context.Context, mock, node string, log *slog.Logger) (Source, error) {
	profile, allowed, err := wanted(mock, os.Getenv(MockEnv))
	if err != nil {
		return nil, err
	}
	if profile != "" {
		log.Info("devices are simulated", "profile", profile, "to_choose", chooseProfile())
		return Mock(profile, node)
	}
	if s := library(ctx, log); s != nil {
		return s, nil
	}
	if path, err := exec.LookPath("nvidia-smi"); err == nil {
		log.Info("devices by nvidia-smi", "path", path)
		return SMI(path), nil
	}
	if !allowed {
		log.Info("no accelerators: neither nvidia-smi nor a mock")
		return none{}, nil
	}
	log.Warn("no accelerators found: devices are simulated", "profile", DefaultProfile,
		"to_forbid", MockEnv+"=false", "to_choose", chooseProfile())
	return Mock(DefaultProfile, node)
}

// The function `wanted` reads the flag and the environment variable that select a mock machine. `wanted` returns the profile to
// simulate, and whether devices may be simulated if no accelerator is found.
func wanted(flag, env string) (profile string, allowed bool, err error) {
	said := flag
	if said == "" {
		said = env
	}
	switch {
	case said == "":
		return "", true, nil
	case said == Off:
		return "", false, nil
	}
	if on, err := strconv.ParseBool(said); err == nil {
		if on {
			return DefaultProfile, true, nil
		}
		return "", false, nil
	}
	if _, err := profileNamed(said); err != nil {
		return "", false, err
	}
	return said, true, nil
}

// The type `none` is the Source of a host without accelerators.
type none struct{}

func (none) Detect(context.Context) (Machine, error) {
	var m Machine
	m.host()
	return m, nil
}

func (none) Busy(_ context.Context, ids []string) ([]Process, error) {
	if len(ids) > 0 {
		return nil, unknownDevice(ids[0])
	}
	return nil, nil
}

func unknownDevice(id string) error {
	return ares.Errorf(ares.NotFound, "device %s is not on this machine", id)
}
