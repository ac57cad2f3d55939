package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
)

// deviceNodes finds the device files of the machine's GPUs.
type deviceNodes struct {
	dev  string // /dev
	proc string // /proc/driver/nvidia/gpus: the driver's information on each GPU
}

// checkDevices checks the patterns of devices that jobs may open.
func (i *Isolation) checkDevices(p *ares.Problems) {
	for n, pattern := range i.Devices {
		if _, err := filepath.Match(pattern, ""); err != nil || !strings.HasPrefix(pattern, "/dev/") {
			p.Add(fmt.Sprintf("isolation.devices[%d]", n), "%q must be a pattern of device files that begins with /dev/, such as /dev/infiniband/*", pattern)
		}
	}
}

// noDevices returns the reason why jobs have no filter of devices although isolation.device_filter is set, or "". If jobs run as the agent's
// user, that is the reason for everything that is missing.
func (i *isolation) noDevices() string {
	if !i.DeviceFilter || i.mode == IsolateNone {
		return ""
	}
	return i.means.NoDevices
}

// The method `hidden` returns the device files that a seat must not open. These are the files of all GPUs except the seat's
// own. The result `ok` is false if the driver does not report which file belongs to which GPU.
func (n deviceNodes) hidden(own []string) (paths []string, ok bool) {
	files, err := filepath.Glob(filepath.Join(n.dev, "nvidia[0-9]*"))
	if err != nil || len(files) == 0 {
		return nil, true
	}
	minors := n.minors()
	for _, id := range own {
		minor, known := minors[id]
		if !known {
			return nil, false
		}
		files = slices.DeleteFunc(files, func(f string) bool { return f == filepath.Join(n.dev, "nvidia"+strconv.Itoa(minor)) })
	}
	return files, true
}

// The method `minors` finds the minor number of each GPU's device file. The minor number of a GPU's device file can differ from
// the GPU's index. The index follows the order on the PCI bus, but the minor number follows the order in which the driver found
// the GPUs.
func (n deviceNodes) minors() map[string]int {
	out := map[string]int{}
	infos, err := filepath.Glob(filepath.Join(n.proc, "*", "information"))
	if err != nil {
		return out
	}
	for _, path := range infos {
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		uuid, minor := "", -1
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(line, ":")
			value = strings.TrimSpace(value)
			switch strings.TrimSpace(key) {
			case "GPU UUID":
				uuid = value
			case "Device Minor":
				if m, err := strconv.Atoi(value); err == nil {
					minor = m
				}
			}
		}
		if uuid != "" && minor >= 0 {
			out[uuid] = minor
		}
	}
	return out
}

// hiddenDevices returns the device files that a seat with the given devices must not open. A MIG slice uses the file of
// its GPU. Simulated devices have no files, so nothing is hidden on a mock node.
func (a *Agent) hiddenDevices(shares []*apipb.DeviceShare) []string {
	node := a.Node()
	if node.Mock {
		return nil
	}
	var own []string
	for _, sh := range shares {
		id := sh.GetDeviceId()
		for _, d := range node.Devices {
			if d.ID == id && d.Parent != "" {
				id = d.Parent
			}
		}
		own = append(own, id)
	}
	paths, ok := deviceNodes{dev: "/dev", proc: "/proc/driver/nvidia/gpus"}.hidden(own)
	if !ok {
		a.log.Warn("the driver does not report which device file belongs to which GPU: jobs can open the files of other jobs' GPUs", "devices", own)
	}
	return paths
}
