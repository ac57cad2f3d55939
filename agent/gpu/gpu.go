// Package gpu finds the accelerators of a machine, how they are linked, how
// they are, and which processes still use them.
//
// The default build asks nvidia-smi; with the build tag nvml it asks NVIDIA's
// management library and falls back to nvidia-smi where the library does not
// load. A mock machine simulates devices only: what runs on it is real.
package gpu

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strconv"

	"github.com/ares-scheduler/ares"
)

// Machine is what one host offers.
type Machine struct {
	Devices  []ares.Device // in the order of their PCI bus; a card cut into MIG slices is represented by its slices
	Links    [][]string    // Links[i][j] is how Devices[i] reaches Devices[j]: X, NV#, PIX, PXB, PHB, NODE or SYS
	CPUs     int           // hardware threads
	MemoryMB int
	NUMA     []ares.NUMANode // by ID; empty where the machine does not say
	Mock     bool            // the devices are simulated
	Profile  string          // of a mock machine
	Driver   string          // version of the vendor's driver
	Warnings []string        // what could not be found out, for the log
}

// Process is one that computes on a device.
type Process struct {
	PID      int    // in the namespace of the driver, which is the host's
	Device   string // ID of the device
	Name     string
	MemoryMB int // of the device, 0 where it is not known
}

// Source finds a machine's accelerators and says who uses them. Its methods
// may be called concurrently, and return in bounded time.
type Source interface {
	// Detect looks at the machine as it is now. A machine without accelerators
	// is no error; a driver that does not answer is one of code Unavailable.
	Detect(ctx context.Context) (Machine, error)

	// Busy returns the processes that compute on the given devices. A device
	// the machine does not show is an error of code NotFound: whether it is
	// free cannot be known. On a mock machine no process is ever on a device.
	Busy(ctx context.Context, deviceIDs []string) ([]Process, error)
}

// The environment Find and Mock read.
const (
	// MockEnv chooses a mock machine: true for DefaultProfile, or the name of a
	// profile. False forbids one, also where no accelerator is found.
	MockEnv = "ARES_MOCK_GPU"

	// FaultsEnv breaks devices of a mock machine, by index: "2=ecc,5=lost". The
	// fault hot makes a device hot and leaves it healthy.
	FaultsEnv = "ARES_MOCK_GPU_FAULTS"
)

// Off is the mock argument of Find that forbids a mock machine.
const Off = "off"

// Find chooses the source of the machine named node. The profile mock wins,
// then MockEnv, then the vendor's library or nvidia-smi. A host with neither
// becomes a mock machine with a warning, unless mock is Off or MockEnv false:
// then it offers its CPUs and memory only. A host that has nvidia-smi never
// becomes a mock by itself, so that broken accelerators are not replaced by
// imagined ones.
func Find(ctx context.Context, mock, node string, log *slog.Logger) (Source, error) {
	profile, allowed, err := wanted(mock, os.Getenv(MockEnv))
	if err != nil {
		return nil, err
	}
	if profile != "" {
		log.Info("devices are simulated", "profile", profile)
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
		"to_forbid", MockEnv+"=false")
	return Mock(DefaultProfile, node)
}

// wanted reads what flag and environment say: the profile to simulate, and
// whether one may be simulated where nothing is found.
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

// none is a host without accelerators.
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
