package gpu

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares"
)

// The type `card` is one physical GPU, as a driver reports it.
type card struct {
	number    int    // the driver's number, which the topology uses
	bus       string // domain:bus:device.function
	uuid      string
	name      string
	memoryMB  int
	celsius   int    // -1 when unknown
	reason    string // why it is not healthy
	mute      bool   // it does not answer, so its processes are unknown
	mig       bool   // it can only be used in slices
	slices    []slice
	processes []work
}

// The type `slice` is a MIG device.
type slice struct {
	index    int // index within its card
	uuid     string
	profile  string
	memoryMB int
	gi, ci   int // GPU instance and compute instance
}

// The type `work` describes a process that computes on a card. If the card has no MIG slices, the fields gi and ci are -1.
type work struct {
	pid, gi, ci int
	name        string
	memoryMB    int
}

// noSlices is the reason why a card in MIG mode without instances cannot be used.
const noSlices = "MIG is on and no instance is created"

// The type `place` holds a device and the card that it belongs to.
type place struct {
	device ares.Device
	card   *card
}

// The function `places` returns the devices of the given cards. A card without slices is one device. If a card has slices, each
// slice is a device. If CUDA_DEVICE_ORDER=PCI_BUS_ID is set, CUDA numbers the cards in the order of the PCI bus. A slice has
// the index of its card, and CUDA_VISIBLE_DEVICES names the slice by its ID.
func places(cards []card, numa func(*card) int) []place {
	slices.SortStableFunc(cards, func(a, b card) int {
		return cmp.Or(slices.Compare(busKey(a.bus), busKey(b.bus)), cmp.Compare(a.number, b.number))
	})
	var all []place
	for i := range cards {
		c := &cards[i]
		if c.mig && len(c.slices) == 0 && c.reason == "" {
			c.reason = noSlices
		}
		d := ares.Device{
			ID: c.uuid, Index: i, Type: ares.DefaultAccelerator, Model: c.name, MemoryMB: c.memoryMB,
			NUMA: max(numa(c), 0), Healthy: c.reason == "", Reason: c.reason, Celsius: max(c.celsius, 0),
		}
		if len(c.slices) == 0 {
			all = append(all, place{d, c})
		}
		for _, s := range c.slices {
			d.ID, d.MemoryMB, d.Parent, d.Profile = s.uuid, s.memoryMB, c.uuid, s.profile
			all = append(all, place{d, c})
		}
	}
	return all
}

// busKey returns a key that orders PCI addresses by their numbers, not by their spelling.
func busKey(bus string) []uint64 {
	var key []uint64
	for part := range strings.FieldsFuncSeq(bus, func(r rune) bool { return r == ':' || r == '.' }) {
		n, _ := strconv.ParseUint(part, 16, 64)
		key = append(key, n)
	}
	return key
}

// The method `fill` adds the devices and their links to the machine. The function `link` returns the link
// between two different cards.
func (m *Machine) fill(all []place, link func(a, b *card) string) {
	m.Links = make([][]string, len(all))
	for i, a := range all {
		m.Devices = append(m.Devices, a.device)
		m.Links[i] = make([]string, len(all))
		for j, b := range all {
			switch {
			case i == j:
				m.Links[i][j] = "X"
			case a.device.Parent == "" && b.device.Parent == "":
				m.Links[i][j] = link(a.card, b.card)
			case a.card == b.card:
				m.Links[i][j] = "PHB"
			default:
				m.Links[i][j] = throughHost(link(a.card, b.card), a.device.NUMA == b.device.NUMA)
			}
		}
	}
}

// throughHost returns the link between two devices if at least one of them is a MIG slice. Slices have no peer access, so
// their traffic goes through the host's memory.
func throughHost(link string, sameNUMA bool) string {
	switch {
	case link == "SYS", link == "NODE":
		return link
	case !strings.HasPrefix(link, "NV"):
		return "PHB"
	case sameNUMA:
		return "NODE"
	}
	return "SYS"
}

// The function `silent` returns the reason that is shown for a card that does not answer.
func silent(why string) string { return "the card does not answer: " + why }

// The function `busy` returns the processes on the given devices.
func busy(cards []card, ids []string) ([]Process, error) {
	var found []Process
	for _, id := range ids {
		known := false
		for _, c := range cards {
			s := slices.IndexFunc(c.slices, func(s slice) bool { return s.uuid == id })
			if c.uuid != id && s < 0 {
				continue
			}
			known = true
			if c.mute {
				return nil, ares.Errorf(ares.Unavailable, "device %s: %s", id, c.reason)
			}
			for _, w := range c.processes {
				if c.uuid == id || w.gi == c.slices[s].gi && w.ci == c.slices[s].ci {
					found = append(found, Process{PID: w.pid, Device: id, Name: w.name, MemoryMB: w.memoryMB})
				}
			}
		}
		if !known {
			return nil, unknownDevice(id)
		}
	}
	return found, nil
}

// checkIDs rejects cards with the same ID.
func checkIDs(cards []card) error {
	seen := map[string]bool{}
	for _, c := range cards {
		ids := []string{c.uuid}
		for _, s := range c.slices {
			ids = append(ids, s.uuid)
		}
		for _, id := range ids {
			if seen[id] {
				return fmt.Errorf("two devices have the ID %q", id)
			}
			seen[id] = true
		}
	}
	return nil
}
