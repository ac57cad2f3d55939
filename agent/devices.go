package agent

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// lookEvery is the interval between two checks of the devices. The agent therefore reports the devices' health at
// most once per interval.
const lookEvery = 10 * time.Second

// watchDevices checks the devices regularly and reports changes of health or temperature. A report rewrites the node's record. A
// report cannot hide the loss of a node from the Reaper. The Reaper voids seats only while their node has no session. A report
// can be made only in a session.
func (a *Agent) watchDevices(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	for pause.For(ctx, lookEvery) {
		machine, err := a.source.Detect(ctx)
		if err != nil {
			a.log.Warn("look at devices", "error", err)
			continue
		}
		a.mu.Lock()
		if changed := mergeDevices(a.node.Devices, machine.Devices); changed != nil {
			a.node.Devices, a.untold = changed, true
		}
		if a.node.Unfit != "" && a.refuses == "" && run.Now().Sub(a.unfitSince) > unfitFor {
			a.node.Unfit, a.failures, a.untold = "", 0, true // try again
		}
		a.mu.Unlock()
		if err := a.reportNode(ctx, c, ref); err != nil {
			return apipb.FromStatus(err)
		}
	}
	return ctx.Err()
}

// reportNode reports the node's record, if it has changed since the last report.
func (a *Agent) reportNode(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	a.mu.Lock()
	node, untold := a.node, a.untold
	a.untold = false
	a.mu.Unlock()
	if !untold {
		return nil
	}
	_, err := c.UpdateNode(ctx, &apipb.UpdateNodeRequest{Ref: ref, Node: apipb.NewNodeInfo(&node)})
	if err != nil {
		a.mu.Lock()
		a.untold = true
		a.mu.Unlock()
	}
	return err
}

// mergeDevices returns the current state of the devices, or nil if nothing worth reporting has changed. A device in
// quarantine stays in quarantine until the agent is restarted.
func mergeDevices(was, now []ares.Device) []ares.Device {
	seen := map[string]ares.Device{}
	for _, d := range now {
		seen[d.ID] = d
	}
	out, changed := make([]ares.Device, len(was)), false
	for i, d := range was {
		fresh, there := seen[d.ID]
		if !there {
			fresh = ares.Device{Reason: "the device is no longer there"}
		}
		if !isQuarantined(d) && (d.Healthy != fresh.Healthy || d.Reason != fresh.Reason) {
			d.Healthy, d.Reason, changed = fresh.Healthy, fresh.Reason, true
		}
		changed = changed || isNotableTemperature(d.Celsius, fresh.Celsius)
		d.Celsius = fresh.Celsius
		out[i] = d
	}
	if !changed {
		return nil
	}
	return out
}

// isNotableTemperature reports whether a temperature is worth reporting. A difference of at least 5 degrees from the last
// reported temperature is always worth reporting. A difference of 2 to 4 degrees is worth reporting only if it crosses a multiple
// of ten. Temperature thresholds are usually multiples of ten. A difference of 1 degree is never worth reporting. Otherwise a
// device that stays around 70 degrees would be reported again and again.
func isNotableTemperature(told, now int) bool {
	away := max(told-now, now-told)
	return away >= 5 || away >= 2 && told/10 != now/10 || (told == 0) != (now == 0)
}
