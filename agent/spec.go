package agent

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
)

// spec turns a seat's order into what its supervisor is to run.
func (s *seat) spec() (run.Spec, error) {
	o, job := s.order, s.order.GetSpec().Spec()
	if job.Image != "" && !s.agent.cfg.RunImages {
		return run.Spec{}, fmt.Errorf("the job names image %s, and this agent runs no containers: leave image out, or start the agent with --run-images to run its command directly on the host", job.Image)
	}
	dir := job.WorkingDir
	if dir == "" {
		dir = s.scratch()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return run.Spec{}, fmt.Errorf("make the working directory: %w", err)
		}
	}
	return run.Spec{
		Key: s.key, Attempt: int(o.Attempt), Argv: job.Argv(), Env: s.environment(&job), Dir: dir,
		LostAfter: job.LostAfter(), MaxRuntime: job.MaxRuntime(), Grace: max(job.Grace(), time.Millisecond),
	}, nil
}

// environment is what the process sees: a plain base, the job's own variables,
// and over them Ares's.
func (s *seat) environment(job *ares.Spec) []string {
	o := s.order
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": s.scratch(),
	}
	for _, k := range []string{"PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH"} {
		if v := os.Getenv(k); v != "" {
			env[k] = v
		}
	}
	maps.Copy(env, job.Environment)
	rank, world := strconv.Itoa(int(o.Seat.Rank)), strconv.Itoa(int(o.WorldSize))
	maps.Copy(env, map[string]string{
		"ARES_JOB_ID": o.Seat.JobId, "ARES_ATTEMPT": strconv.Itoa(int(o.Attempt)),
		"ARES_FENCING_TOKEN": strconv.FormatInt(o.Seat.Fence, 10), "ARES_RANK": rank, "ARES_WORLD_SIZE": world,
		"ARES_NODE": s.agent.cfg.Node,
		"RANK":      rank, "WORLD_SIZE": world, "MASTER_ADDR": o.MasterAddress, "MASTER_PORT": strconv.Itoa(int(o.MasterPort)),
		"CUDA_VISIBLE_DEVICES": s.agent.visible(o.Shares), "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
	})
	if path := job.Checkpoint.Path; path != "" {
		env["ARES_CHECKPOINT_PATH"] = path
	}
	if at := o.CheckpointedAt; at != nil {
		env["ARES_CHECKPOINTED_AT"] = at.AsTime().UTC().Format(time.RFC3339)
	}
	if o.ArrayJobId != "" {
		env["ARES_ARRAY_JOB_ID"] = o.ArrayJobId
		env["ARES_ARRAY_INDEX"], env["ARES_ARRAY_COUNT"] = strconv.Itoa(int(o.ArrayIndex)), strconv.Itoa(int(o.ArrayCount))
	}
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return out
}

// visible is the value of CUDA_VISIBLE_DEVICES: indexes, or IDs for MIG
// slices, which have no index of their own.
func (a *Agent) visible(shares []*apipb.DeviceShare) string {
	slice := map[string]bool{}
	for _, d := range a.Node().Devices {
		slice[d.ID] = d.Parent != ""
	}
	words := make([]string, len(shares))
	for i, sh := range shares {
		words[i] = strconv.Itoa(int(sh.Index))
		if slice[sh.DeviceId] {
			words[i] = sh.DeviceId
		}
	}
	return strings.Join(words, ",")
}

// lacks says why a seat's devices cannot be used here, "" when they can.
func (a *Agent) lacks(shares []*apipb.DeviceShare) string {
	node := a.Node()
	for _, sh := range shares {
		i := slices.IndexFunc(node.Devices, func(d ares.Device) bool { return d.ID == sh.DeviceId })
		if i < 0 {
			return fmt.Sprintf("node %s has no device %s", node.ID, sh.DeviceId)
		}
		if d := node.Devices[i]; !d.Healthy {
			return fmt.Sprintf("device %s of node %s is not healthy: %s", sh.DeviceId, node.ID, d.Reason)
		}
	}
	return ""
}

const quarantine = "quarantined: "

func isQuarantined(d ares.Device) bool { return strings.HasPrefix(d.Reason, quarantine) }

// checkDevices waits until no process is left on a dead seat's devices. One
// that does not come clean is quarantined: killing a process does not always
// free its GPU.
func (a *Agent) checkDevices(ctx context.Context, s *seat) {
	a.mu.Lock()
	mock, order := a.node.Mock, s.order
	a.mu.Unlock()
	if mock {
		return
	}
	var ids []string
	for _, sh := range order.GetShares() {
		if sh.Milli == 1000 { // on a shared device others may well live
			ids = append(ids, sh.DeviceId)
		}
	}
	if len(ids) == 0 {
		return
	}
	why := "its processes do not let go"
	for range 20 {
		busy, err := a.source.Busy(ctx, ids)
		if err == nil && len(busy) == 0 {
			return
		}
		if err != nil {
			why = err.Error()
		}
		if !pause(ctx, 500*time.Millisecond) {
			return
		}
	}
	a.log.Error("devices did not come clean", "seat", s.key, "devices", ids, "why", why)
	a.mu.Lock()
	defer a.mu.Unlock()
	devices := slices.Clone(a.node.Devices)
	for i := range devices {
		if slices.Contains(ids, devices[i].ID) {
			devices[i].Healthy, devices[i].Reason = false, quarantine+why
		}
	}
	a.node.Devices, a.untold = devices, true
}
