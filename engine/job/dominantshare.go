package job

import (
	"github.com/ares-scheduler/ares/engine/queue"
)

// DominantPart is the largest part of the fleet that a use is of any resource, in
// millionths, and of which.
func (j *Table) DominantPart(u queue.Resources) (part int, of string) {
	for _, r := range []struct {
		name      queue.ResourceName
		held, all int64
	}{{queue.GPU, u.GPU, j.cluster.Capacity.GPU}, {queue.CPU, u.CPU, j.cluster.Capacity.CPU}, {queue.Memory, u.Memory, j.cluster.Capacity.Memory}} {
		if p := int(r.held * queue.ShareScale / max(r.all, 1)); of == "" || p > part {
			part, of = p, string(r.name)
		}
	}
	return part, of
}
