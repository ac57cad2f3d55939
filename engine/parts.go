package engine

import "math/bits"

// parts finds nodes by what is left of their partly taken devices.
type parts struct {
	width  int             // nodes
	values set             // thousandths that some open node has left of a device
	nodes  [wholeMilli]set // by thousandths
}

// resize empties the index and makes it fit n nodes.
func (p *parts) resize(n int) {
	p.width = n
	p.values.resize(wholeMilli)
	clear(p.nodes[:])
}

// move notes what the node's devices have left now.
func (p *parts) move(n *node) {
	var left [MaxDevices]uint16
	count := 0
	for m := n.usable &^ n.free; m != 0; m &= m - 1 {
		if rest := wholeMilli - n.devices[bits.TrailingZeros64(m)].taken; rest > 0 && rest < wholeMilli {
			left[count] = uint16(rest)
			count++
		}
	}
	if count == len(n.left) {
		same := true
		for i, v := range n.left {
			same = same && left[i] == v
		}
		if same {
			return
		}
	}
	p.leave(n)
	n.left = append(n.left, left[:count]...)
	for _, v := range n.left {
		in := &p.nodes[v]
		if len(in.words) == 0 {
			in.resize(p.width)
		}
		in.add(n.at)
		p.values.add(int(v))
	}
}

// leave takes the node out of the index.
func (p *parts) leave(n *node) {
	for _, v := range n.left {
		if p.nodes[v].remove(n.at); p.nodes[v].count == 0 {
			p.values.remove(int(v))
		}
	}
	n.left = n.left[:0]
}
