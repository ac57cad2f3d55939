package explain

import (
	"fmt"
	"strings"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/engine/cluster"
)

// modelFit says how many members of a gang fit on devices of one model.
type modelFit struct {
	model   int
	request *cluster.Request // the gang's request for this model only
	fitted  int
}

// splitByModel prepares the diagnosis of a gang whose members need devices of one model. If the cluster has several
// models that the gang could use, the members that fit are counted for each model separately.
func (c *diagnosis) splitByModel() {
	c.ofGang = c.request
	if !c.shape.Wish.OneModel {
		return
	}
	models := c.state.cluster.ModelsOf(c.request)
	if len(models) < 2 {
		return
	}
	for _, m := range models {
		c.byModel = append(c.byModel, modelFit{model: m, request: c.state.cluster.OnModel(c.request, m)})
	}
	c.ofGang = c.byModel[0].request
}

// countFitting counts the members that fit on a node.
func (c *diagnosis) countFitting(n *cluster.Node) {
	room := func(w *cluster.Request) int {
		if c.shape.SpreadsMembers() {
			return min(n.RoomFor(w), 1)
		}
		return n.RoomFor(w)
	}
	all := room(c.request)
	c.fittedMixed += all
	if len(c.byModel) == 0 {
		c.fitted += all
		return
	}
	for i := range c.byModel {
		v := &c.byModel[i]
		if v.fitted += room(v.request); v.fitted > c.fitted {
			c.fitted, c.ofGang = v.fitted, v.request
		}
	}
}

// modelBlocker returns why a gang cannot be placed although enough members would fit on devices of different models.
// The result is false if the models are not the reason.
func (c *diagnosis) modelBlocker() (ares.Blocker, bool) {
	if len(c.byModel) == 0 || c.fitted >= c.shape.MinMembers || c.fittedMixed <= c.fitted {
		return ares.Blocker{}, false
	}
	each, needed, free := 1, "members must fit on one model", "do"
	if w := c.request; w.GPUs > 0 {
		each, needed, free = w.GPUs, w.DeviceWord()+"s of one model are needed", "of one model are free"
	}
	var parts []string
	for i := range c.byModel {
		if v := &c.byModel[i]; v.fitted > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", c.state.cluster.ModelLabel(v.model), v.fitted*each))
		}
	}
	if len(parts) == 0 { // members fit only on nodes with several models
		parts = []string{"the free devices of each node have different models"}
	}
	return ares.Blocker{Kind: ares.BlockerCapacity, Detail: ares.Textf(
		"%d %s, but at most %d %s (%s); all members get the same model unless the job sets allow_mixed_models", c.shape.MinMembers*each, needed, c.fitted*each, free, strings.Join(parts, ", "))}, true
}

// gangRequests returns the requests with which the members of a gang can be placed: one for each model, or only one if
// the models do not matter.
func (c *diagnosis) gangRequests() []modelFit {
	if len(c.byModel) == 0 {
		return []modelFit{{request: c.request, fitted: c.fitted}}
	}
	return c.byModel
}

// mixModelsStep returns the step that allows the members to have different models.
func mixModelsStep() ares.Step {
	return ares.Step{Kind: ares.StepRelax, Field: "allow_mixed_models", Text: ares.Textf("allow GPUs of different models (allow_mixed_models)")}
}
