package agent

import (
	"context"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// lookEvery is how often the devices are looked at, and so the least time
// between two tellings of how they are.
const lookEvery = 10 * time.Second

// watchDevices looks at the devices now and then and tells when their health
// or temperature has changed. That rewrites the node's record under its session,
// which is no return of the node: a seat is voided only while there is no
// session, and then nobody can rewrite the record without opening one.
func (a *Agent) watchDevices(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
	for pause(ctx, lookEvery) {
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
		if err := a.tell(ctx, c, ref); err != nil {
			return apipb.FromStatus(err)
		}
	}
	return ctx.Err()
}

// tell reports what this node offers, if that has changed since it was told.
func (a *Agent) tell(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
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

// mergeDevices returns the devices as they are now, nil when nothing of that is
// worth telling. A device in quarantine stays there until the agent is restarted.
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
		changed = changed || otherHeat(d.Celsius, fresh.Celsius)
		d.Celsius = fresh.Celsius
		out[i] = d
	}
	if !changed {
		return nil
	}
	return out
}

// otherHeat says whether a temperature is worth telling after the one that was
// told: 5 degrees away, or past a full ten, since limits are set there. Past a
// ten by one degree is not enough: a device that rests at 70 would tell for ever.
func otherHeat(told, now int) bool {
	away := max(told-now, now-told)
	return away >= 5 || away >= 2 && told/10 != now/10 || (told == 0) != (now == 0)
}
