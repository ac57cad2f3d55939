package links

import (
	"fmt"
	"math/bits"
	"strings"
)

// Explain describes why Best returns its result. It adds one line for each preference, until a single set is
// left. The argument `name` is a function that returns the display name of a device. If the function is nil,
// the text uses device numbers.
func (m *Matrix) Explain(free, local uint64, count int, name func(device int) string) []string {
	if name == nil {
		name = func(device int) string { return fmt.Sprint(device) }
	}
	e := explanation{m: m, q: m.normalize(free, local, count), name: name}
	var ok bool
	if e.best, ok = m.Best(free, local, count); !ok {
		return []string{fmt.Sprintf("%d wanted, %s", count, e.freeCount())}
	}
	e.addPreferences()
	e.addFirstFit()
	return e.lines
}

// The type `explanation` collects the lines of Explain.
type explanation struct {
	m     *Matrix
	q     query
	best  Choice
	name  func(int) string
	lines []string
}

// addLine adds a formatted line to the explanation.
func (e *explanation) addLine(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

// addPreferences applies the preferences one after the other. Each preference keeps only the sets that are as good
// as the result. For each preference, addPreferences adds a line that says how many sets are left.
func (e *explanation) addPreferences() {
	b := e.best
	var sets []Choice
	if e.m.count > maxExact {
		e.addLine("%s: sets were grown from each of the %s, for there are too many to compare", e.deviceList(b.Devices), e.freeCount())
	} else {
		for set := e.q.free; set != 0; set = (set - 1) & e.q.free {
			if bits.OnesCount64(set) == e.q.count {
				sets = append(sets, e.m.evaluate(e.q, set))
			}
		}
		if len(sets) == 1 {
			e.addLine("%s: the only set of %d among the %s", e.deviceList(b.Devices), e.q.count, e.freeCount())
		} else {
			e.addLine("%s: the best of %d sets of %d among the %s", e.deviceList(b.Devices), len(sets), e.q.count, e.freeCount())
		}
	}
	rest := e.q.free &^ b.Devices
	for _, p := range []struct {
		text    string
		matches func(Choice) bool
		skip    bool // the preference cannot tell sets apart
	}{
		{text: "slowest link " + linkText(b.BottleneckMBps), matches: func(c Choice) bool { return c.BottleneckMBps == b.BottleneckMBps }, skip: e.q.count < 2},
		{text: fmt.Sprintf("all its links together %d MB/s", b.TotalMBps), matches: func(c Choice) bool { return c.TotalMBps == b.TotalMBps }, skip: e.q.count < 3},
		{text: plural(b.NUMANodes, "NUMA node"), matches: func(c Choice) bool { return c.NUMANodes == b.NUMANodes }, skip: e.q.count < 2},
		{text: fmt.Sprintf("%d of %d next to the CPUs and memory asked for", b.LocalDevices, e.q.count), matches: func(c Choice) bool { return c.LocalDevices == b.LocalDevices }, skip: e.q.local == 0},
		{text: "leaves " + e.deviceList(rest) + e.islandBandwidths(rest), matches: func(c Choice) bool { return c.RemainingValue == b.RemainingValue }, skip: rest == 0},
	} {
		if p.skip || len(sets) == 1 {
			continue
		}
		before := len(sets)
		sets = filterChoices(sets, p.matches)
		e.addLine("%s%s", p.text, tieNote(len(sets), before))
	}
	if len(sets) > 1 {
		e.addLine("of those alike, the one with the lowest indexes")
	}
}

// For each island size, islandBandwidths describes the best set among the devices that remain free.
func (e *explanation) islandBandwidths(rest uint64) string {
	var parts []string
	for _, size := range islandSizes {
		if c, ok := e.m.Best(rest, 0, size); ok {
			parts = append(parts, fmt.Sprintf("%d at %d", size, c.BottleneckMBps))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + " MB/s)"
}

// filterChoices keeps only the choices that match, and reuses the memory of the list.
func filterChoices(sets []Choice, matches func(Choice) bool) []Choice {
	kept := sets[:0]
	for _, c := range sets {
		if matches(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// tieNote describes how many sets are left after a preference, and how many were left before it.
func tieNote(left, before int) string {
	switch {
	case before == 0:
		return ""
	case left == before:
		return ": all of them alike"
	case left == 1:
		return ": no other set has it"
	}
	return fmt.Sprintf(": %d of %d sets have it", left, before)
}

// addFirstFit compares the result with the set that FirstFit would choose. FirstFit ignores links.
func (e *explanation) addFirstFit() {
	first := e.m.FirstFit(e.q.free, e.q.count)
	if e.q.count < 2 {
		return
	}
	slowest := e.m.BottleneckMBps(first)
	switch {
	case first == e.best.Devices:
		e.addLine("first fit would take the same")
	case slowest == e.best.BottleneckMBps:
		e.addLine("first fit would take %s, with the same slowest link", e.deviceList(first))
	default:
		tenths := (e.best.BottleneckMBps*10 + slowest/2) / slowest
		e.addLine("first fit would take %s, slowest link %s: %d.%d times slower", e.deviceList(first), linkText(slowest), tenths/10, tenths%10)
	}
}

// deviceList returns the names of the devices in a set, joined to one string.
func (e *explanation) deviceList(set uint64) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, e.name(bits.TrailingZeros64(set)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// linkText formats a bandwidth with the name of the link type.
func linkText(mbps int) string {
	word := "SYS or not known"
	for _, w := range []string{"PIX", "PXB", "PHB", "NODE"} {
		if LinkMBps(w) == mbps {
			word = w
		}
	}
	if mbps%mbpsPerNVLink == 0 {
		word = fmt.Sprintf("NV%d", mbps/mbpsPerNVLink)
	}
	return fmt.Sprintf("%d MB/s (%s)", mbps, word)
}

// freeCount formats the number of free devices as text.
func (e *explanation) freeCount() string { return plural(bits.OnesCount64(e.q.free), "free device") }

// The function `plural` formats a count together with its noun.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
