//go:build nvml

package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/ares-scheduler/ares"
)

// The function `library` returns a source that uses NVIDIA's management library. It returns nil if NVIDIA's library does not load
// or does not answer, so that nvidia-smi is used instead.
func library(ctx context.Context, log *slog.Logger) Source {
	s := nvmlSource{api: nvml.New(), gate: newGate()}
	driver, err := pass(ctx, s.gate, commandTimeout, "nvmlInit", func(context.Context) (string, error) {
		if ret := s.api.Init(); ret != nvml.SUCCESS {
			return "", unavailable("nvmlInit", ret)
		}
		driver, _ := s.api.SystemGetDriverVersion()
		return driver, nil
	})
	if err != nil {
		log.Info("NVML is not used", "error", err)
		return nil
	}
	log.Info("devices by NVML", "driver", driver)
	s.driver = driver
	return s
}

type nvmlSource struct {
	api    nvml.Interface
	gate   gate
	driver string
}

func unavailable(what string, ret nvml.Return) error {
	return ares.Errorf(ares.Unavailable, "%s: %s", what, nvml.ErrorString(ret))
}

// The type `found` holds the cards that the library reports, and their handles.
type found struct {
	cards   []card
	handles map[string]nvml.Device // by the card's bus
	lost    []string
}

func (s nvmlSource) Detect(ctx context.Context) (Machine, error) {
	return pass(ctx, s.gate, commandTimeout, "NVML", func(context.Context) (Machine, error) {
		var m Machine
		m.host()
		m.Driver = s.driver
		f, err := s.find()
		if err != nil {
			return Machine{}, err
		}
		m.Warnings = append(m.Warnings, f.lost...)
		numa := func(c *card) int { return sysfsNUMA(c.bus) }
		far := map[string]ends{}
		for _, c := range f.cards {
			far[c.bus] = s.ends(f.handles[c.bus])
		}
		m.fill(places(f.cards, numa), func(a, b *card) string {
			if n := far[a.bus].to(b.bus, far[b.bus]); n > 0 {
				return fmt.Sprintf("NV%d", n)
			}
			return ancestor(f.handles[a.bus], f.handles[b.bus])
		})
		return m, nil
	})
}

func (s nvmlSource) Busy(ctx context.Context, ids []string) ([]Process, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	return pass(ctx, s.gate, commandTimeout, "NVML", func(context.Context) ([]Process, error) {
		f, err := s.find()
		if err != nil {
			return nil, err
		}
		for i := range f.cards {
			s.running(&f.cards[i], f.handles[f.cards[i].bus])
		}
		return busy(f.cards, ids)
	})
}

func (s nvmlSource) find() (found, error) {
	count, ret := s.api.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return found{}, unavailable("count devices", ret)
	}
	f := found{handles: map[string]nvml.Device{}}
	for i := range min(count, maxGPUs) {
		d, ret := s.api.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			f.lost = append(f.lost, fmt.Sprintf("card %d does not answer: %s", i, nvml.ErrorString(ret)))
			continue
		}
		c, err := s.card(i, d)
		if err != nil {
			return found{}, err
		}
		f.cards = append(f.cards, c)
		f.handles[c.bus] = d
	}
	if err := checkIDs(f.cards); err != nil {
		return found{}, ares.Errorf(ares.Unavailable, "find devices: %v", err)
	}
	return f, nil
}

func (s nvmlSource) card(i int, d nvml.Device) (card, error) {
	pci, ret := d.GetPciInfo()
	if ret != nvml.SUCCESS {
		return card{}, unavailable(fmt.Sprintf("PCI address of card %d", i), ret)
	}
	c := card{number: i, bus: busOf(pci), celsius: -1}
	if c.uuid, ret = d.GetUUID(); ret != nvml.SUCCESS {
		c.uuid, c.mute, c.reason = "PCI-"+c.bus, true, silent(nvml.ErrorString(ret))
		return c, nil
	}
	c.name, _ = d.GetName()
	memory, ret := d.GetMemoryInfo()
	if ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED && ret != nvml.ERROR_NO_PERMISSION {
		c.mute, c.reason = true, silent(nvml.ErrorString(ret))
		return c, nil
	}
	c.memoryMB = int(memory.Total >> 20)
	if t, ret := d.GetTemperature(nvml.TEMPERATURE_GPU); ret == nvml.SUCCESS {
		c.celsius = int(t)
	}
	c.reason = s.fault(d)
	if mode, _, ret := d.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
		c.mig = true
		c.slices = slicesOf(d)
	}
	return c, nil
}

func slicesOf(d nvml.Device) []slice {
	count, ret := d.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil
	}
	var all []slice
	for i := range count {
		mig, ret := d.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no slice at this index
		}
		uuid, ret := mig.GetUUID()
		gi, gret := mig.GetGpuInstanceId()
		ci, cret := mig.GetComputeInstanceId()
		if ret != nvml.SUCCESS || gret != nvml.SUCCESS || cret != nvml.SUCCESS {
			continue // it was deleted meanwhile
		}
		memory, _ := mig.GetMemoryInfo()
		name, _ := mig.GetName() // "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
		_, profile, _ := strings.Cut(name, " MIG ")
		all = append(all, slice{index: i, uuid: uuid, profile: profile, memoryMB: int(memory.Total >> 20), gi: gi, ci: ci})
	}
	return all
}

// The method `running` records the processes that compute on a card.
func (s nvmlSource) running(c *card, d nvml.Device) {
	list, ret := d.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		c.mute, c.reason = true, silent(nvml.ErrorString(ret))
		return
	}
	for _, p := range list {
		w := work{pid: int(p.Pid), gi: int(int32(p.GpuInstanceId)), ci: int(int32(p.ComputeInstanceId))}
		w.name, _ = s.api.SystemGetProcessName(w.pid)
		if p.UsedGpuMemory != ^uint64(0) {
			w.memoryMB = int(p.UsedGpuMemory >> 20)
		}
		c.processes = append(c.processes, w)
	}
}

// The method `fault` returns the reason why a card must not get jobs, as xmlGPU.fault does for nvidia-smi.
func (s nvmlSource) fault(d nvml.Device) string {
	if s.has("nvmlDeviceGetFieldValues") {
		v := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
		if d.GetFieldValues(v) == nvml.SUCCESS && nvml.Return(v[0].NvmlReturn) == nvml.SUCCESS {
			if action := binary.NativeEndian.Uint32(v[0].Value[:]); action != uint32(nvml.GPU_RECOVERY_ACTION_NONE) {
				return "the driver asks for a recovery: " + recovery(action)
			}
		}
	}
	pendingRow := false
	if s.has("nvmlDeviceGetRemappedRows") {
		if _, _, pending, failed, ret := d.GetRemappedRows(); ret == nvml.SUCCESS {
			if failed {
				return "a memory row could not be remapped"
			}
			pendingRow = pending
		}
	}
	if n, ret := d.GetTotalEccErrors(nvml.MEMORY_ERROR_TYPE_UNCORRECTED, nvml.VOLATILE_ECC); ret == nvml.SUCCESS && n > 0 {
		return eccFault(int(min(n, 1<<30)))
	}
	if pendingRow {
		return rowPending
	}
	if pending, ret := d.GetRetiredPagesPendingStatus(); ret == nvml.SUCCESS && pending == nvml.FEATURE_ENABLED {
		return pagePending
	}
	if s.has("nvmlDeviceGetGpuFabricInfo") {
		info, ret := d.GetGpuFabricInfo()
		if ret == nvml.SUCCESS && info.State != nvml.GPU_FABRIC_STATE_NOT_SUPPORTED &&
			(info.State != nvml.GPU_FABRIC_STATE_COMPLETED || info.Status != uint32(nvml.SUCCESS)) {
			return fmt.Sprintf("NVLink fabric is not ready: state %d, status %d", info.State, info.Status)
		}
	}
	return ""
}

func recovery(action uint32) string {
	names := []string{"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"}
	if int(action) < len(names) {
		return names[action]
	}
	return fmt.Sprintf("action %d", action)
}

// The method `has` reports whether the installed driver has a function that older drivers lack. Always check with this method
// before you call such a function. The dynamic linker ends a process that calls a missing function.
func (s nvmlSource) has(symbol string) bool {
	return s.api.Extensions().LookupSymbol(symbol) == nil
}

// The type `ends` holds the far ends of one card's active NVLinks.
type ends struct {
	peers    map[string]int // by the bus of a card
	switches int
}

// The method `ends` finds the far end of each NVLink of a card.
func (s nvmlSource) ends(d nvml.Device) ends {
	e := ends{peers: map[string]int{}}
	typed := s.has("nvmlDeviceGetNvLinkRemoteDeviceType")
	for link := range nvml.NVLINK_MAX_LINKS {
		if state, ret := d.GetNvLinkState(link); ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if typed {
			if kind, ret := d.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
				e.switches++
				continue
			}
		}
		if pci, ret := d.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			e.peers[busOf(pci)]++
		}
	}
	return e
}

// The method `to` counts the NVLinks from one card to another, both direct links and links through switches.
func (e ends) to(bus string, other ends) int {
	return e.peers[bus] + min(e.switches, other.switches)
}

func ancestor(a, b nvml.Device) string {
	level, ret := a.GetTopologyCommonAncestor(b)
	if ret != nvml.SUCCESS {
		return "SYS"
	}
	switch level {
	case nvml.TOPOLOGY_INTERNAL, nvml.TOPOLOGY_SINGLE:
		return "PIX"
	case nvml.TOPOLOGY_MULTIPLE:
		return "PXB"
	case nvml.TOPOLOGY_HOSTBRIDGE:
		return "PHB"
	case nvml.TOPOLOGY_NODE:
		return "NODE"
	case nvml.TOPOLOGY_SYSTEM:
		return "SYS"
	}
	return "SYS" // a level this version does not know
}

// busOf writes a PCI address in the form that nvidia-smi uses.
func busOf(p nvml.PciInfo) string {
	return fmt.Sprintf("%08X:%02X:%02X.0", p.Domain, p.Bus, p.Device)
}
