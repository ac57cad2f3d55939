package cache

// ImageNodes counts the nodes with a session.
type ImageNodes struct {
	Run   int // nodes that run jobs with an image
	Root  int // those of them that run jobs with container_root
	Other int // the other nodes
}

// ImageNodes counts the nodes that run jobs with an image. The result is kept until a node changes, because every
// submission with an image asks for it.
func (v *View) ImageNodes() ImageNodes {
	v.mu.RLock()
	known := v.images
	v.mu.RUnlock()
	if known != nil {
		return *known
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	n := ImageNodes{}
	for _, e := range v.nodes { // order-free: it counts
		switch {
		case e.Session == nil:
		case e.Node.Images:
			n.Run++
			if e.Node.ContainerRoot {
				n.Root++
			}
		default:
			n.Other++
		}
	}
	v.images = &n
	return n
}
