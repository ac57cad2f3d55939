package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares/apipb"
)

// deviceNodes knows the device files of the machine's GPUs.
type deviceNodes struct {
	dev  string // /dev
	proc string // /proc/driver/nvidia/gpus: what the driver says of each
}

// hidden are the device files that a seat must not open: those of all GPUs but
// its own. ok is false where the driver does not say which is whose.
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

// minors finds the number of each GPU's device file. It is not its index: that
// goes by the bus, the number by when the driver found it.
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

// hide are the device files that a seat with these shares must not open. A
// slice's file is that of its GPU. On a machine of simulated devices nothing is
// hidden: they have no files.
func (a *Agent) hide(shares []*apipb.DeviceShare) []string {
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
		a.log.Warn("the driver does not say which device file is whose: a job sees those of others", "devices", own)
	}
	return paths
}
