package cluster

import (
	"fmt"
	"slices"
	"strings"

	ares "github.com/ares-scheduler/ares"
)

// OnModel returns the request for devices of one model only. The members of a gang use it if all of them must have
// the same model. The caller scores nodes with the original request, because the cost of a member on a node hardly
// depends on the restriction.
func (c *Cluster) OnModel(w *Request, model int) *Request {
	if r := w.variants.onModel[model]; r != nil {
		return r
	}
	if w.variants.onModel == nil {
		w.variants.onModel = map[int]*Request{}
	}
	n := *w
	n.ID = c.NewRequestID()
	n.onlyModel, n.ScoreSlot, n.variants, n.FailedEpoch, n.Gains, n.Listed = model+1, 0, requestVariants{}, 0, RoomGains{}, false
	n.Constraints = &Constraints{Key: fmt.Sprintf("%s only %d", w.Constraints.Key, model)}
	w.variants.onModel[model] = &n
	return &n
}

// ModelsOf returns the models of the devices in the cluster that pass all device filters of a request, in the order
// of their names. The result is valid until the next call of ModelsOf.
func (c *Cluster) ModelsOf(w *Request) []int {
	t := w.Constraints
	for ; t.typesSeen < len(c.NodeTypes.All); t.typesSeen++ { // node types are never removed
		p := c.NodeTypes.All[t.typesSeen]
		for i, mask := 0, w.DeviceMask(p); i < len(p.Devices); i++ {
			if m := p.Devices[i].ModelIndex; mask&(1<<i) != 0 && !slices.Contains(t.models, m) {
				t.models = append(t.models, m)
			}
		}
	}
	c.models.matching = c.models.matching[:0]
	for _, m := range c.ModelsPresent {
		if slices.Contains(t.models, m) {
			c.models.matching = append(c.models.matching, m)
		}
	}
	return c.models.matching
}

// ModelBans returns sets of excluded models. A search with each of these sets in turn considers every model that the
// request accepts, one model at a time. The argument `ban` is the set of models that are excluded in any case. Models
// that share a bit (see ModelBit) are considered together.
func (c *Cluster) ModelBans(w *Request, ban uint64) []uint64 {
	models := c.ModelsOf(c.WithoutModels(w, ban))
	if len(models) < 2 {
		return []uint64{ban}
	}
	all := uint64(0)
	for _, m := range models {
		all |= ModelBit(m)
	}
	var out []uint64
	for _, m := range models {
		if b := ban | all&^ModelBit(m); !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out
}

// ModelCount returns the number of different models among the devices of some seats.
func (c *Cluster) ModelCount(seats []ares.Seat) int {
	var models []int
	for i := range seats {
		n := c.NodesByID[seats[i].Node]
		for k := range seats[i].Shares {
			if n == nil {
				continue
			}
			if d := n.DeviceIndex(&seats[i].Shares[k]); d >= 0 && !slices.Contains(models, n.Type.Devices[d].ModelIndex) {
				models = append(models, n.Type.Devices[d].ModelIndex)
			}
		}
	}
	return len(models)
}

// ModelLabel returns the name of a model as a node reports it.
func (c *Cluster) ModelLabel(model int) string {
	name := c.models.names[model]
	for _, n := range c.Nodes {
		if n.Record == nil {
			continue
		}
		for i := range n.Record.Devices {
			if label := n.Record.Devices[i].Model; strings.EqualFold(label, name) {
				return label
			}
		}
	}
	return name
}
