package links

import (
	"fmt"
	"math/bits"
	"strings"
)

// Explain says in words how Best came to its answer, a line for each
// preference until one set is left. name says what people call a device; nil
// stands for its number.
func (m *Matrix) Explain(free, home uint64, count int, name func(device int) string) []string {
	if name == nil {
		name = func(device int) string { return fmt.Sprint(device) }
	}
	e := explanation{m: m, q: m.question(free, home, count), name: name}
	var ok bool
	if e.best, ok = m.Best(free, home, count); !ok {
		return []string{fmt.Sprintf("%d wanted, %s", count, e.free())}
	}
	e.reasons()
	e.naive()
	return e.lines
}

type explanation struct {
	m     *Matrix
	q     question
	best  Choice
	name  func(int) string
	lines []string
}

func (e *explanation) say(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
}

// reasons follows the preferences one by one: of the sets that were equal so
// far, how many are as good as the answer.
func (e *explanation) reasons() {
	b := e.best
	var sets []Choice
	if e.m.count > maxExact {
		e.say("%s: sets were grown from each of the %s, for there are too many to compare", e.list(b.Set), e.free())
	} else {
		for set := e.q.free; set != 0; set = (set - 1) & e.q.free {
			if bits.OnesCount64(set) == e.q.count {
				sets = append(sets, e.m.weigh(e.q, set))
			}
		}
		if len(sets) == 1 {
			e.say("%s: the only set of %d among the %s", e.list(b.Set), e.q.count, e.free())
		} else {
			e.say("%s: the best of %d sets of %d among the %s", e.list(b.Set), len(sets), e.q.count, e.free())
		}
	}
	rest := e.q.free &^ b.Set
	for _, p := range []struct {
		says string
		as   func(Choice) bool
		idle bool // there is nothing to prefer
	}{
		{says: "slowest link " + link(b.Bandwidth), as: func(c Choice) bool { return c.Bandwidth == b.Bandwidth }, idle: e.q.count < 2},
		{says: fmt.Sprintf("all its links together %d MB/s", b.Total), as: func(c Choice) bool { return c.Total == b.Total }, idle: e.q.count < 3},
		{says: plural(b.NUMA, "NUMA node"), as: func(c Choice) bool { return c.NUMA == b.NUMA }, idle: e.q.count < 2},
		{says: fmt.Sprintf("%d of %d next to the CPUs and memory asked for", b.Home, e.q.count), as: func(c Choice) bool { return c.Home == b.Home }, idle: e.q.home == 0},
		{says: "leaves " + e.list(rest) + e.islands(rest), as: func(c Choice) bool { return c.Left == b.Left }, idle: rest == 0},
	} {
		if p.idle || len(sets) == 1 {
			continue
		}
		before := len(sets)
		sets = keep(sets, p.as)
		e.say("%s%s", p.says, among(len(sets), before))
	}
	if len(sets) > 1 {
		e.say("of those alike, the one with the lowest indexes")
	}
}

// islands says what the best sets among devices that are left would have.
func (e *explanation) islands(rest uint64) string {
	var parts []string
	for _, size := range islandSizes {
		if c, ok := e.m.Best(rest, 0, size); ok {
			parts = append(parts, fmt.Sprintf("%d at %d", size, c.Bandwidth))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + " MB/s)"
}

// keep drops in place what is not as good.
func keep(sets []Choice, as func(Choice) bool) []Choice {
	kept := sets[:0]
	for _, c := range sets {
		if as(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

func among(left, before int) string {
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

// naive compares with the choice that looks at no link.
func (e *explanation) naive() {
	first := e.m.FirstFit(e.q.free, e.q.count)
	if e.q.count < 2 {
		return
	}
	slowest := e.m.Bandwidth(first)
	switch {
	case first == e.best.Set:
		e.say("first fit would take the same")
	case slowest == e.best.Bandwidth:
		e.say("first fit would take %s, with the same slowest link", e.list(first))
	default:
		tenths := (e.best.Bandwidth*10 + slowest/2) / slowest
		e.say("first fit would take %s, slowest link %s: %d.%d times slower", e.list(first), link(slowest), tenths/10, tenths%10)
	}
}

func (e *explanation) list(set uint64) string {
	var names []string
	for ; set != 0; set &= set - 1 {
		names = append(names, e.name(bits.TrailingZeros64(set)))
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ",")
}

// link writes what a link carries with the word for it.
func link(mbps int) string {
	word := "SYS or not known"
	for _, w := range []string{"PIX", "PXB", "PHB", "NODE"} {
		if MBps(w) == mbps {
			word = w
		}
	}
	if mbps%perNVLink == 0 {
		word = fmt.Sprintf("NV%d", mbps/perNVLink)
	}
	return fmt.Sprintf("%d MB/s (%s)", mbps, word)
}

func (e *explanation) free() string { return plural(bits.OnesCount64(e.q.free), "free device") }

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
