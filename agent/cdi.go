package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/nvidia"
	"github.com/ares-scheduler/ares/agent/run"
)

// cdiDir is the directory in the agent's directory with the CDI specification that Ares makes.
const cdiDir = "cdi"

// uuidOfGPU begins the ID of every NVIDIA GPU. Slices and devices of other vendors have other IDs.
const uuidOfGPU = "GPU-"

// useVendor is what an administrator does when Ares cannot make a specification.
const useVendor = "run nvidia-ctk cdi generate --device-name-strategy=uuid --output=/etc/cdi/nvidia.yaml, and restart the agent"

// describeDevices returns the CDI name of each device. It makes a specification in `dir` if no specification in the other directories names
// any of them, and they are whole NVIDIA GPUs. The argument `root` is the root directory of the machine.
func describeDevices(devices []ares.Device, vendorDirs []string, root, dir string) (map[string]string, error) {
	cache, err := cdi.NewCache(cdi.WithAutoRefresh(false), cdi.WithSpecDirs(vendorDirs...))
	if err != nil {
		return nil, fmt.Errorf("the CDI specifications of its devices cannot be read: %w", err)
	}
	names := map[string]string{}
	var uuids []string
	missing := ""
	for i := range devices {
		d := &devices[i]
		uuids = append(uuids, d.ID)
		if name := vendorName(cache, d); name != "" {
			names[d.ID] = name
		} else if missing == "" {
			missing = d.ID
		}
	}
	if missing == "" {
		return names, nil
	}
	// An administrator's specification is not replaced because it has a mistake: it may be there to restrict something.
	if problems := run.ProblemsOf(cache); problems != nil {
		return nil, fmt.Errorf("no CDI specification describes its device %s: %w", missing, problems)
	}
	none := fmt.Sprintf("no CDI specification in %s describes its device %s, so an image could not use it", strings.Join(vendorDirs, " or "), missing)
	if len(names) > 0 || slices.ContainsFunc(uuids, func(id string) bool { return !strings.HasPrefix(id, uuidOfGPU) }) {
		return nil, fmt.Errorf("%s: %s", none, useVendor)
	}
	if err = writeSpec(root, dir, uuids); err != nil {
		return nil, fmt.Errorf("%s, and Ares could not make one: %w; or %s", none, err, useVendor)
	}
	for _, id := range uuids {
		names[id] = nvidia.Device(id)
	}
	return names, nil
}

func writeSpec(root, dir string, uuids []string) error {
	spec, err := nvidia.Generate(root, uuids)
	if err != nil {
		return err
	}
	return nvidia.Write(dir, spec)
}

// loadDriver makes the device files that the driver of NVIDIA makes only when a program without a container uses CUDA.
func (a *Agent) loadDriver(ctx context.Context, devices []ares.Device) {
	if !slices.ContainsFunc(devices, func(d ares.Device) bool { return strings.HasPrefix(d.ID, uuidOfGPU) }) {
		return
	}
	nvidia.LoadModule(ctx)
	if err := nvidia.MakeDevices("/"); err != nil {
		a.log.Warn("jobs in images may lack a device file of the driver", "error", err)
	}
}

// renewSpec makes the node's specification again if it is Ares's own and the driver has more device files by now, before a job uses it.
func (a *Agent) renewSpec() {
	var uuids []string
	for id, name := range a.cdi {
		if name == nvidia.Device(id) {
			uuids = append(uuids, id)
		}
	}
	if len(uuids) == 0 {
		return
	}
	const root = "/"
	dir := filepath.Join(a.cfg.Dir, cdiDir)
	a.describing.Lock()
	defer a.describing.Unlock()
	err := nvidia.MakeDevices(root)
	if !nvidia.IsComplete(root, dir) {
		slices.Sort(uuids)
		err = errors.Join(err, writeSpec(root, dir, uuids))
	}
	if err != nil {
		a.log.Warn("jobs in images may lack a device file of the driver", "error", err)
	}
}

// vendorName returns the name of a device in the specifications of vendors, or "". A slice must be named by its ID, because a slice has the
// number of its GPU.
func vendorName(cache *cdi.Cache, d *ares.Device) string {
	index := strconv.Itoa(d.Index)
	for _, name := range []string{"nvidia.com/gpu=" + d.ID, "nvidia.com/gpu=" + index, "amd.com/gpu=" + d.ID, "amd.com/gpu=" + index} {
		if cache.GetDevice(name) != nil && (d.Parent == "" || strings.HasSuffix(name, d.ID)) {
			return name
		}
	}
	return ""
}
