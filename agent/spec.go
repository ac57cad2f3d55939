package agent

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// The method `spec` turns a seat's order into the spec for its supervisor.
func (s *seat) spec() (run.Spec, error) {
	o, job := s.order, s.order.GetSpec().Spec()
	user, err := s.agent.isolation.ofJob(job.Tenant, ares.JobID(s.key.Job))
	if err != nil {
		return run.Spec{}, err
	}
	spec := run.Spec{
		Key: s.key, Attempt: int(o.Attempt), Argv: job.Argv(), Dir: job.WorkingDir, User: user,
		LostAfter: job.LostAfter(), MaxRuntime: job.MaxRuntime(), Grace: max(job.Grace(), time.Millisecond),
		Limits: run.Limits{MilliCPU: int64(job.MilliCPUs()), MemoryMB: int64(job.MemoryMB), Pids: int64(s.agent.isolation.Pids)},
		Stdin:  job.Placement().Stdin, Terminal: job.Placement().TTY,
	}
	if user != nil {
		spec.Sandbox = s.agent.sandbox(&job, int(o.WorldSize), s.scratch(), s.agent.hiddenDevices(o.Shares))
	}
	if spec.Dir == "" || user != nil || job.CodeDigest != "" {
		if err := s.makeScratch(scratchOwner(&spec)); err != nil {
			return run.Spec{}, fmt.Errorf("create the working directory: %w", err)
		}
	}
	home := s.scratch()
	if spec.Sandbox.Private {
		home = run.SandboxWork
	}
	if spec.Dir == "" || job.CodeDigest != "" {
		spec.Dir = filepath.Join(home, job.WorkingDir)
	}
	spec.Env = s.environment(&job, s.machineEnvironment(home, user), user)
	return spec, nil
}

// scratchOwner returns the owner of the seat's working directory, or nil for the agent's own user.
func scratchOwner(spec *run.Spec) *run.User {
	if spec.Sandbox.DiskMB > 0 {
		return nil // only the job's file system is in it
	}
	return spec.User
}

// isUnderTmp reports whether a path is in a directory that a private /tmp would hide.
func isUnderTmp(path string) bool {
	path = filepath.Clean(path)
	for _, tmp := range []string{"/tmp", "/var/tmp"} {
		if path == tmp || strings.HasPrefix(path, tmp+"/") {
			return true
		}
	}
	return false
}

// makeScratch creates the seat's working directory and makes the seat's user its owner.
func (s *seat) makeScratch(user *run.User) error {
	dir := s.scratch()
	above := fs.FileMode(0o700)
	if user != nil && !s.agent.isolation.means.Sandbox {
		above = 0o711 // the seat's user must be able to enter the directory
	}
	if err := os.MkdirAll(filepath.Dir(dir), above); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Dir(dir), above); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil || user == nil {
		return err
	}
	return os.Lchown(dir, int(user.UID), int(user.GID))
}

// machineEnvironment returns the basic variables of a job that runs without an image. From the agent's environment, a job gets only the
// variables that are named in this function.
func (s *seat) machineEnvironment(home string, user *run.User) map[string]string {
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": home,
	}
	for _, k := range []string{"PATH", "HOME", "LANG", "TZ", "LD_LIBRARY_PATH"} {
		if v := os.Getenv(k); v != "" && (k != "HOME" || user == nil) {
			env[k] = v
		}
	}
	return env
}

// The method `environment` returns the environment of the job's process. The environment contains some basic variables, the
// job's own variables, and the variables that Ares sets. The variables of Ares override all others.
func (s *seat) environment(job *ares.Spec, env map[string]string, user *run.User) []string {
	o := s.order
	if user != nil {
		// Programs ask for a user name even if no password file contains the user.
		env["USER"] = s.agent.isolation.login(job.Tenant)
		if job.IsContainerRoot() {
			env["USER"] = "root"
		}
		env["LOGNAME"] = env["USER"]
	}
	if job.Placement().TTY && env["TERM"] == "" {
		env["TERM"] = "xterm" // which is what terminals understand; the job's own variable wins
	}
	maps.Copy(env, job.Environment)
	rank, world := strconv.Itoa(int(o.Seat.Rank)), strconv.Itoa(int(o.WorldSize))
	maps.Copy(env, map[string]string{
		"ARES_JOB_ID": o.Seat.JobId, "ARES_ATTEMPT": strconv.Itoa(int(o.Attempt)),
		"ARES_FENCING_TOKEN": strconv.FormatInt(cmp.Or(o.FencingToken, o.Seat.Fence), 10), "ARES_RANK": rank, "ARES_WORLD_SIZE": world,
		"ARES_NODE": s.agent.cfg.Node,
		"RANK":      rank, "WORLD_SIZE": world, "MASTER_ADDR": o.MasterAddress, "MASTER_PORT": strconv.Itoa(int(o.MasterPort)),
		"CUDA_VISIBLE_DEVICES": s.agent.visible(o.Shares), "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
		"NVIDIA_VISIBLE_DEVICES": visibleIDs(o.Shares),
	})
	if path := job.Checkpoint.Path; path != "" {
		env["ARES_CHECKPOINT_PATH"] = path
	}
	if minutes := job.Checkpoint.IntervalMinutes; minutes > 0 {
		env["ARES_CHECKPOINT_INTERVAL_MINUTES"] = strconv.Itoa(int(minutes))
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

// The method `visible` returns the value of CUDA_VISIBLE_DEVICES. The value lists a GPU by its index. It lists a MIG slice by its ID,
// because a slice has no index of its own.
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

// visibleIDs returns the value of NVIDIA_VISIBLE_DEVICES, which container runtimes read. For a seat without devices the value is "none",
// because some container runtimes treat an empty value as all devices.
func visibleIDs(shares []*apipb.DeviceShare) string {
	words := make([]string, len(shares))
	for i, sh := range shares {
		words[i] = sh.DeviceId
	}
	return cmp.Or(strings.Join(words, ","), "void")
}

// missingDevices returns the reason why a seat's devices cannot be used on this node, or "" if they can.
func (a *Agent) missingDevices(shares []*apipb.DeviceShare) string {
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

// checkDevices waits until no process uses the devices of an ended seat. A device that stays in use is quarantined, because killing a
// process does not always free its GPU.
func (a *Agent) checkDevices(ctx context.Context, s *seat) {
	a.mu.Lock()
	mock, order := a.node.Mock, s.order
	a.mu.Unlock()
	if mock {
		return
	}
	var ids []string
	for _, sh := range order.GetShares() {
		if sh.Milli == 1000 { // on a shared device other jobs may be running
			ids = append(ids, sh.DeviceId)
		}
	}
	if len(ids) == 0 {
		return
	}
	why := "processes of an ended job still use it"
	for range 20 {
		busy, err := a.source.Busy(ctx, ids)
		if err == nil && len(busy) == 0 {
			return
		}
		if err != nil {
			why = err.Error()
		}
		if !pause.For(ctx, 500*time.Millisecond) {
			return
		}
	}
	a.log.Error("devices of an ended job are still in use", "seat", s.key, "devices", ids, "why", why)
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
