package gpu

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// The type `query` is the output of `nvidia-smi -q -x`.
type query struct {
	driver   string
	attached int // cards the driver knows of; a lost one may not be shown
	cards    []card
}

type xmlLog struct {
	Driver   string   `xml:"driver_version"`
	Attached string   `xml:"attached_gpus"`
	GPUs     []xmlGPU `xml:"gpu"`
}

type xmlGPU struct {
	Bus         string       `xml:"id,attr"`
	Name        string       `xml:"product_name"`
	UUID        string       `xml:"uuid"`
	Total       string       `xml:"fb_memory_usage>total"`
	Temperature string       `xml:"temperature>gpu_temp"`
	MIG         string       `xml:"mig_mode>current_mig"`
	Slices      []xmlSlice   `xml:"mig_devices>mig_device"`
	Processes   []xmlProcess `xml:"processes>process_info"`

	Recovery   string `xml:"gpu_recovery_action"`
	Volatile   xmlECC `xml:"ecc_errors>volatile"`
	Threshold  string `xml:"ecc_errors>aggregate>sram_threshold_exceeded"`
	Unrepaired string `xml:"ecc_errors>unrepairable_memory"`
	RowPending string `xml:"remapped_rows>remapped_row_pending"`
	RowFailure string `xml:"remapped_rows>remapped_row_failure"`
	Retirement string `xml:"retired_pages>pending_retirement"`
	Blacklist  string `xml:"retired_pages>pending_blacklist"`
	Fabric     string `xml:"fabric>state"`
	FabricWhy  string `xml:"fabric>status"`
}

// xmlECC holds the numbers of uncorrectable errors since the driver was loaded. Old and new drivers use different names for
// these numbers.
type xmlECC struct {
	DRAM      string `xml:"dram_uncorrectable"`
	SRAM      string `xml:"sram_uncorrectable"`
	Parity    string `xml:"sram_uncorrectable_parity"`
	SECDED    string `xml:"sram_uncorrectable_secded"`
	DoubleBit string `xml:"double_bit>total"`
}

type xmlSlice struct {
	Index string `xml:"index"`
	GI    string `xml:"gpu_instance_id"`
	CI    string `xml:"compute_instance_id"`
	UUID  string `xml:"uuid"`
	Total string `xml:"fb_memory_usage>total"`
}

type xmlProcess struct {
	GI   string `xml:"gpu_instance_id"`
	CI   string `xml:"compute_instance_id"`
	PID  string `xml:"pid"`
	Type string `xml:"type"`
	Name string `xml:"process_name"`
	Used string `xml:"used_memory"`
}

// parseQuery reads the output of `nvidia-smi -q -x`. The program may print complaints about a broken card before
// and after the XML document.
func parseQuery(out []byte) (query, error) {
	start := bytes.Index(out, []byte("<nvidia_smi_log"))
	if start < 0 {
		return query{}, errors.New("the output of nvidia-smi contains no nvidia_smi_log element")
	}
	d := xml.NewDecoder(bytes.NewReader(out[start:]))
	d.Strict = false // process names are not escaped
	d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	var log xmlLog
	if err := d.Decode(&log); err != nil {
		return query{}, fmt.Errorf("read nvidia_smi_log: %w", err)
	}
	if len(log.GPUs) > maxGPUs {
		return query{}, fmt.Errorf("the machine has %d GPUs, but the limit is %d", len(log.GPUs), maxGPUs)
	}
	q := query{driver: strings.TrimSpace(log.Driver), attached: max(number(log.Attached), 0)}
	for i, g := range log.GPUs {
		q.cards = append(q.cards, g.card(i))
	}
	return q, nil
}

func (g xmlGPU) card(i int) card {
	c := card{
		number: i, bus: strings.TrimSpace(g.Bus), uuid: strings.TrimSpace(g.UUID),
		name: strings.TrimSpace(g.Name), memoryMB: max(number(g.Total), 0), celsius: number(g.Temperature),
		mig: strings.TrimSpace(g.MIG) == "Enabled", reason: g.fault(),
	}
	if why := g.silence(); why != "" {
		c.mute, c.reason = true, silent(why)
	}
	if !strings.HasPrefix(c.uuid, "GPU-") {
		// The card does not even report its ID. Keep the card, so that it is listed as broken.
		c.uuid, c.mute, c.reason = "PCI-"+c.bus, true, silent(cmp.Or(c.uuid, "it has no UUID"))
	}
	for _, s := range g.Slices {
		c.slices = append(c.slices, slice{
			index: number(s.Index), uuid: strings.TrimSpace(s.UUID),
			memoryMB: max(number(s.Total), 0), gi: number(s.GI), ci: number(s.CI),
		})
	}
	for _, p := range g.Processes {
		pid := number(p.PID)
		if pid <= 0 || !strings.Contains(p.Type, "C") { // type G is a process that only draws
			continue
		}
		c.processes = append(c.processes, work{
			pid: pid, gi: number(p.GI), ci: number(p.CI),
			name: strings.TrimSpace(p.Name), memoryMB: max(number(p.Used), 0),
		})
	}
	return c
}

// The method `silence` returns the text that the driver prints in place of values when a card has fallen off the
// bus. If the card answers, the method returns "".
func (g xmlGPU) silence() string {
	for _, s := range []string{g.UUID, g.Name, g.Total, g.Temperature, g.RowPending} {
		s = strings.TrimSpace(s)
		if s == "ERR!" || s == "Unknown Error" || strings.Contains(s, "is lost") || strings.Contains(s, "requires reset") {
			return s
		}
	}
	return ""
}

// The method `fault` returns the reason why a card must not get jobs, or "" if it is healthy. A pending memory repair counts as
// a fault if it needs a reset of the card. A card can be reset only while no job uses it.
func (g xmlGPU) fault() string {
	ecc := 0
	for _, s := range []string{g.Volatile.DRAM, g.Volatile.SRAM, g.Volatile.Parity, g.Volatile.SECDED, g.Volatile.DoubleBit} {
		ecc += min(max(number(s), 0), 1<<30)
	}
	fabric := strings.TrimSpace(g.FabricWhy)
	switch {
	case !unset(g.Recovery):
		return "the driver asks for a recovery: " + strings.TrimSpace(g.Recovery)
	case yes(g.RowFailure):
		return "a memory row could not be remapped"
	case yes(g.Unrepaired):
		return "its memory cannot be repaired"
	case ecc > 0:
		return eccFault(ecc)
	case yes(g.Threshold):
		return "too many errors in its SRAM"
	case yes(g.RowPending):
		return rowPending
	case yes(g.Retirement), yes(g.Blacklist):
		return pagePending
	case !unset(g.Fabric) && strings.TrimSpace(g.Fabric) != "Completed":
		return "NVLink fabric is not ready: " + strings.TrimSpace(g.Fabric)
	case !unset(g.Fabric) && !unset(fabric) && fabric != "Success":
		return "NVLink fabric is not ready: " + fabric
	}
	return ""
}

// These are the faults that a reset of the card clears.
const (
	rowPending  = "a memory row waits to be remapped: reset the card"
	pagePending = "a memory page waits to be retired: reset the card"
)

func eccFault(n int) string {
	return fmt.Sprintf("%d uncorrectable memory errors since its last reset", n)
}

func yes(s string) bool { return strings.TrimSpace(s) == "Yes" }

func unset(s string) bool {
	switch strings.TrimSpace(s) {
	case "", "None", "N/A", "Not Supported":
		return true
	}
	return false
}

// The function `number` parses a value such as "3", "34 C" or "143771 MiB", and returns -1 for anything else.
func number(s string) int {
	first, _, _ := strings.Cut(strings.TrimSpace(s), " ")
	n, err := strconv.ParseInt(first, 10, 32)
	if err != nil {
		return -1
	}
	return int(n)
}

var (
	sliceLine = regexp.MustCompile(`^\s+MIG (\S+)\s+Device\s+([0-9]{1,4}):\s+\(UUID:\s*(MIG-[^)\s]+)\s*\)`)
	cardLine  = regexp.MustCompile(`^GPU [0-9]+: .*\(UUID:\s*(GPU-[^)\s]+)\s*\)`)
)

// The method `name` sets the UUIDs and profiles of the MIG slices, which only `nvidia-smi -L` prints. Slices
// without a UUID are dropped, because no process could be started on them.
func (q *query) name(list []byte) (dropped int) {
	type key struct {
		card  string
		index int
	}
	named := map[key][2]string{}
	on := ""
	for line := range strings.Lines(string(list)) {
		if m := cardLine.FindStringSubmatch(line); m != nil {
			on = m[1]
		} else if m := sliceLine.FindStringSubmatch(line); m != nil {
			named[key{on, number(m[2])}] = [2]string{m[3], m[1]}
		}
	}
	for i := range q.cards {
		c := &q.cards[i]
		var kept []slice
		for _, s := range c.slices {
			n := named[key{c.uuid, s.index}]
			s.uuid, s.profile = cmp.Or(s.uuid, n[0]), n[1]
			if s.uuid == "" {
				dropped++
				continue
			}
			kept = append(kept, s)
		}
		c.slices = kept
	}
	return dropped
}
