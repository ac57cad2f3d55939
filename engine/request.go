package engine

import (
	"fmt"
	"strings"
)

// modelBit stands for a model in a set of them. The 64th and all after it share
// one: then what is banned for one of them is banned for all, and no quota is
// exceeded.
func modelBit(m int) uint64 { return 1 << min(m, 63) }

// gpuMilli is how many thousandths of devices a member takes.
func (w *request) gpuMilli() int { return max(w.gpus*WholeMilli, w.milli) }

// selectorText says what is asked of a node's labels, value by value.
func (w *request) selectorText() string {
	var parts []string
	for _, l := range w.selector {
		parts = append(parts, l.key+"="+l.value)
	}
	return strings.Join(parts, ", ")
}

// tooFewText says of a node that it has fewer devices than one member needs.
func (w *request) tooFewText() string {
	if w.gpus <= 1 {
		return "no " + w.deviceWord()
	}
	return fmt.Sprintf("fewer than %d %ss", w.gpus, w.deviceWord())
}
