package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"tags.cncf.io/container-device-interface/pkg/cdi"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/gpu"
	"github.com/ares-scheduler/ares/agent/image"
	"github.com/ares-scheduler/ares/agent/run"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/pause"
)

// Images configures jobs that run in an image. See docs/guide/containers.md.
type Images struct {
	// Runtime is the OCI runtime, a program with the command line of runc: its name or its absolute path. "off" means that the node runs
	// no images. The default is runc.
	Runtime string `yaml:"runtime"`
	// Credentials is a directory on the node with the credentials of registries: TENANT.json for one tenant, and default.json for the
	// others, each in the format of Docker's config.json. The default is none.
	Credentials string `yaml:"credentials"`
	// MaxMB limits the size of one image, both as it is fetched and unpacked, in MB. The default is 102400.
	MaxMB int `yaml:"max_mb"`
	// MaxFiles limits the number of files of one image. The default is 2000000.
	MaxFiles int `yaml:"max_files"`
	// KeepBelow is how full the disk with the images may become, in percent. If it is fuller, the layers that were not used for the longest
	// time are removed, until 15 percentage points less of the disk are used. The default is 85.
	KeepBelow int `yaml:"keep_below"`
	// Mounts lists the directories on the node that jobs in images may mount, with everything below them. A directory that ends with ":ro"
	// may only be mounted read-only; of several entries, the longest one decides. The default is none.
	Mounts []string `yaml:"mounts"`
}

// noRuntime is the value of Images.Runtime with which a node runs no images.
const noRuntime = "off"

// collectTo is how far below Images.KeepBelow layers are removed.
const collectTo = image.DefaultHigh - image.DefaultLow

// DefaultImages returns the default configuration.
func DefaultImages() Images {
	return Images{Runtime: "runc", MaxMB: image.DefaultMB, MaxFiles: image.DefaultFiles, KeepBelow: image.DefaultHigh}
}

// Check reports every mistake. It replaces an empty configuration with the default.
func (i *Images) Check(p *ares.Problems) {
	if mounts := i.Mounts; reflect.DeepEqual(*i, Images{Mounts: mounts}) {
		*i = DefaultImages()
		i.Mounts = mounts
	}
	i.checkMounts(p)
	if i.Runtime == "" || strings.Contains(i.Runtime, "/") && !filepath.IsAbs(i.Runtime) {
		p.Add("images.runtime", "%q must be the name of a program such as runc, an absolute path, or off", i.Runtime)
	}
	if i.Credentials != "" && !filepath.IsAbs(i.Credentials) {
		p.Add("images.credentials", "%q must be an absolute path", i.Credentials)
	}
	if i.MaxMB < 1 || i.MaxMB > 100<<20 {
		p.Add("images.max_mb", "must be between 1 and 104857600, got %d", i.MaxMB)
	}
	if i.MaxFiles < 1 || i.MaxFiles > 1e9 {
		p.Add("images.max_files", "must be between 1 and 1000000000, got %d", i.MaxFiles)
	}
	if i.KeepBelow < collectTo+5 || i.KeepBelow > 99 {
		p.Add("images.keep_below", "must be between %d and 99 percent, got %d", collectTo+5, i.KeepBelow)
	}
}

// imagesDir is the directory of the node's images in the agent's directory.
const imagesDir = "images"

// probeImage is the job ID of the container with which the agent tests its runtime. No job has it.
const probeImage = "probe-image"

// openImages opens the node's images and runs a container as a test. It returns the reason why jobs with images cannot run here, or "".
func (a *Agent) openImages(ctx context.Context, machine *gpu.Machine) string {
	cfg := &a.cfg.Images
	contained, why := a.runner.Contained()
	switch {
	case cfg.Runtime == noRuntime:
		return "images.runtime is off"
	case !contained:
		return "the end of a container could not be verified without cgroup v2: " + why
	case a.isolation.mode == IsolateNone:
		return "jobs run as the agent's own user: run the agent as root"
	case !a.isolation.means.Sandbox:
		return "jobs cannot have mounts of their own: " + a.isolation.means.NoSandbox
	}
	path, err := exec.LookPath(cfg.Runtime)
	if err != nil {
		return fmt.Sprintf("the OCI runtime %s is not installed: install runc, or set images.runtime (%v)", cfg.Runtime, err)
	}
	if path, err = filepath.Abs(path); err != nil {
		return err.Error()
	}
	if why := a.missingCDI(ctx, machine); why != "" {
		return why
	}
	owner := a.isolation.imageOwner()
	store, err := image.Open(image.Config{
		Dir: filepath.Join(a.cfg.Dir, imagesDir), Credentials: cfg.Credentials, User: &image.Owner{UID: owner, GID: owner},
		Limits: image.Limits{Files: int64(cfg.MaxFiles), Bytes: int64(cfg.MaxMB) << 20}, High: cfg.KeepBelow, Low: cfg.KeepBelow - collectTo,
	})
	if err != nil {
		return err.Error()
	}
	a.images, a.runtime = store, path
	if err = a.probeRuntime(ctx, owner, nil, false); err != nil {
		a.images = nil
		return fmt.Sprintf("the OCI runtime %s does not work here: %v", path, err)
	}
	if err = a.probeRuntime(ctx, owner, nil, true); err != nil {
		a.noContainerRoot = err.Error()
	}
	return ""
}

// imageOwner returns the user that unpacks and owns images: the first one that no tenant can have.
func (i *isolation) imageOwner() uint32 { return uint32(i.UIDBase + i.UIDRange) }

// probeRuntime runs a container like that of a job, because only that shows whether everything a container needs works on this machine. The
// container gets the devices with these CDI names, and a user namespace as for container_root if `root` is true.
func (a *Agent) probeRuntime(ctx context.Context, uid uint32, devices []string, root bool) error {
	const layer, limit = "probe", time.Minute
	layers := a.images.LayersDir()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	key := run.Key{Job: probeImage, Fence: 1}
	dir := filepath.Join(filepath.Dir(layers), layer)
	// A killed agent may have left its probe.
	if err := errors.Join(a.runner.EnsureDead(ctx, key), a.runner.Forget(key), os.MkdirAll(filepath.Join(dir, image.Tree), 0o755)); err != nil {
		return err
	}
	p, err := a.runner.Start(ctx, run.Spec{
		Key: key, Argv: []string{run.ProbeProgram, run.ProbeArgument}, Env: []string{}, User: &run.User{UID: uid, GID: uid}, LostAfter: limit, RenewedAt: run.Now(),
		Sandbox:   run.Sandbox{Private: true, OwnTmp: true, Seccomp: a.isolation.means.NoSeccomp == ""},
		Container: run.Container{Runtime: a.runtime, Dir: filepath.Dir(dir), Layers: []string{layer}, Devices: devices, DeviceSpecs: filepath.Join(a.cfg.Dir, cdiDir), Root: root},
	})
	if err != nil {
		return err
	}
	res, err := p.Wait(ctx)
	if err == nil && (res.Outcome != run.Exited || res.ExitCode != 0) {
		err = fmt.Errorf("a test container ended with %s", strings.TrimSpace(string(res.Outcome)+" "+res.Reason))
	}
	return errors.Join(err, a.runner.EnsureDead(ctx, key), a.runner.Forget(key))
}

// isNodeAtFault reports whether a start that failed before the job's first instruction counts against the node. A job in an image counts only
// if a container without its image fails too. Otherwise a user with a bad image could take nodes out of service.
func (s *seat) isNodeAtFault(ctx context.Context) bool {
	if s.order.GetSpec().GetImage() == "" || s.agent.images == nil {
		return true
	}
	s.agent.probing.Lock()
	defer s.agent.probing.Unlock()
	if s.agent.Node().Unfit != "" {
		return true // other seats have found it out
	}
	names, _ := s.agent.containerDevices(s.order.GetShares(), nil)
	err := s.agent.probeRuntime(ctx, s.agent.isolation.imageOwner(), names, false)
	if err != nil {
		s.agent.log.Warn("a test container does not start either", "seat", s.key, "error", err)
		return true
	}
	if s.order.GetSpec().GetContainerRoot() {
		if err = s.agent.probeRuntime(ctx, s.agent.isolation.imageOwner(), names, true); err != nil {
			s.agent.loseContainerRoot(err.Error())
		}
	}
	return false
}

// loseContainerRoot tells the servers that this node cannot run jobs with container_root any more, for example because somebody has changed
// a setting of the kernel. Other jobs run as before.
func (a *Agent) loseContainerRoot(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.log.Error("this node does not run jobs with container_root until its agent is restarted", "why", why)
	a.node.ContainerRoot, a.node.NoContainerRoot, a.untold = false, ares.Truncate(why, 1024), true
}

// missingCDI returns the reason why containers cannot get the node's devices, or "". Simulated devices need nothing.
func (a *Agent) missingCDI(ctx context.Context, machine *gpu.Machine) string {
	if machine.Mock || len(machine.Devices) == 0 {
		return ""
	}
	a.loadDriver(ctx, machine.Devices)
	names, err := describeDevices(machine.Devices, cdi.DefaultSpecDirs, "/", filepath.Join(a.cfg.Dir, cdiDir))
	if err != nil {
		return err.Error()
	}
	a.cdi = names
	return ""
}

// collectEvery is the time between two checks of how full the disk is.
const collectEvery = time.Minute

// collectImages removes layers while the disk is too full.
func (a *Agent) collectImages(ctx context.Context) {
	for {
		if n, err := a.images.Collect(); err != nil {
			a.log.Warn("remove images that were not used for a long time", "error", err)
		} else if n > 0 {
			a.log.Info("removed layers of images, because the disk was too full", "layers", n)
		}
		if !pause.For(ctx, collectEvery) {
			return
		}
	}
}

// imageTries is how often an agent asks a registry that does not answer. In between it pauses.
const imageTries = 5

// imageRequest returns what the seat wants from the node's images. It is nil for a job without an image.
func (s *seat) imageRequest() (*image.Request, error) {
	spec := s.order.GetSpec()
	if spec.GetImage() == "" {
		return nil, nil
	}
	if s.agent.images == nil {
		return nil, errors.New(s.agent.Node().NoImages)
	}
	if why := s.agent.Node().NoContainerRoot; why != "" && spec.GetContainerRoot() {
		return nil, errors.New("it cannot make a job root in its image (container_root): " + why)
	}
	ref, err := image.Parse(spec.GetImage())
	if err != nil {
		return nil, err
	}
	user, err := s.agent.isolation.ofJob(spec.GetTenantId(), ares.JobID(s.key.Job))
	if err != nil {
		return nil, err
	}
	req := &image.Request{Reference: ref, Tenant: spec.GetTenantId(), Digest: s.order.GetImageDigest()}
	if user != nil {
		req.User = &image.Owner{UID: user.UID, GID: user.GID}
	}
	return req, nil
}

// resolveImage finds out what the job's image is now, unless an earlier claim has fixed that.
func (s *seat) resolveImage(ctx context.Context) (digest string, err error) {
	req, err := s.imageRequest()
	if err != nil || req == nil {
		return "", err
	}
	if req.Digest != "" {
		return req.Digest, nil
	}
	err = s.whileUnavailable(ctx, func() (err error) {
		digest, err = s.agent.images.Resolve(ctx, *req)
		return err
	})
	return digest, err
}

// whileUnavailable repeats a call while a registry does not answer or answers that it has too much to do.
func (s *seat) whileUnavailable(ctx context.Context, call func() error) error {
	for try, wait := 1, time.Second; ; try, wait = try+1, 2*wait {
		err := call()
		if code := ares.CodeOf(err); code != ares.Unavailable && code != ares.Exhausted {
			return err
		}
		if try == imageTries || s.isStopped() || !pause.For(ctx, wait) {
			return err
		}
	}
}

// fetchImage makes sure that the job's image is on the node, and completes the spec with what the image says. The seat is claimed already,
// and no process of it has started.
func (s *seat) fetchImage(ctx context.Context, spec *run.Spec) error {
	req, err := s.imageRequest()
	if err != nil || req == nil {
		return err
	}
	job := s.order.GetSpec().Spec()
	mounts, err := s.mounts(&job) // before a long pull
	if err != nil {
		return err
	}
	req.Digest = s.digest
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	const mb = 1 << 20
	told := false
	req.Progress = func(p image.Progress) {
		if s.isStopped() {
			cancel()
		}
		told = true
		s.reportPull(ctx, fmt.Sprintf("pulling the image: %d of %d layers, %d of %d MB", p.Layers, p.OfLayers, p.Bytes/mb, p.OfBytes/mb))
	}
	var got *image.Image
	if err = s.whileUnavailable(ctx, func() (err error) { got, err = s.agent.images.Get(ctx, *req); return err }); err != nil {
		return err
	}
	s.unlock = got.Release
	if told { // the last report would otherwise stay until the job's own first one
		s.reportPull(ctx, "the image was pulled")
	}
	// As in Kubernetes: the job's command replaces the entrypoint and its arguments, and args replaces only the arguments.
	c := got.Config
	switch {
	case len(job.Command) > 0:
		spec.Argv = job.Argv()
	case len(job.Args) > 0:
		spec.Argv = append(append([]string{}, c.Entrypoint...), job.Args...)
	default:
		spec.Argv = append(append([]string{}, c.Entrypoint...), c.Cmd...)
	}
	if len(spec.Argv) == 0 {
		return ares.Errorf(ares.Invalid, "image %s has neither an entrypoint nor a command: give the job a command", req.Reference)
	}
	if job.CodeDigest == "" {
		if spec.Dir = job.WorkingDir; spec.Dir == "" {
			spec.Dir = filepath.Join("/", c.WorkingDir)
		}
	}
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": run.SandboxWork}
	for _, v := range c.Env {
		if name, value, ok := strings.Cut(v, "="); ok && name != "" && !strings.Contains(v, "\x00") {
			env[name] = value
		}
	}
	spec.Env = s.environment(&job, env, spec.User)
	if err = checkCommand(spec); err != nil {
		return ares.Errorf(ares.Invalid, "image %s: %v", req.Reference, err)
	}
	spec.Container = run.Container{Runtime: s.agent.runtime, Dir: s.agent.images.LayersDir(), Layers: got.Layers, Data: job.Checkpoint.Path, Mounts: mounts, Root: job.IsContainerRoot()}
	spec.Container.DeviceSpecs = filepath.Join(s.agent.cfg.Dir, cdiDir)
	if spec.Container.Devices, spec.Env = s.agent.containerDevices(s.order.GetShares(), spec.Env); len(spec.Container.Devices) > 0 {
		s.agent.renewSpec()
	}
	return nil
}

// maxCommand is the size of a command with its environment that a seat's file has room for. The kernel allows 2 MiB.
const maxCommand = 4 << 20

// checkCommand checks what a job gets from its image. The runner would take a mistake in it for one of the agent.
func checkCommand(spec *run.Spec) error {
	const perText = 16
	size := 0
	for _, v := range slices.Concat(spec.Argv, spec.Env, []string{spec.Dir}) {
		if strings.Contains(v, "\x00") {
			return errors.New("its entrypoint, command or working directory contains a NUL byte: build the image again")
		}
		size += len(v) + perText
	}
	switch {
	case spec.Argv[0] == "":
		return errors.New("its entrypoint or command begins with an empty word: build the image again, or give the job a command")
	case size > maxCommand:
		return fmt.Errorf("its entrypoint, command and environment have more than %d MiB: build the image with less", maxCommand>>20)
	}
	return nil
}

// containerDevices returns the CDI names of a seat's devices. A container has no other devices, so the numbers of devices differ from
// those of the machine, and CUDA_VISIBLE_DEVICES names them by their IDs.
func (a *Agent) containerDevices(shares []*apipb.DeviceShare, env []string) (names, _ []string) {
	if len(a.cdi) == 0 || len(shares) == 0 {
		return nil, env
	}
	for _, sh := range shares {
		names = append(names, a.cdi[sh.GetDeviceId()])
	}
	for i, v := range env {
		if strings.HasPrefix(v, "CUDA_VISIBLE_DEVICES=") {
			env[i] = "CUDA_VISIBLE_DEVICES=" + visibleIDs(shares)
		}
	}
	return names, env
}

// reportPull shows the progress of a pull in ares job get. Nothing depends on it.
func (s *seat) reportPull(ctx context.Context, text string) {
	err := s.call(ctx, func(ctx context.Context, c apipb.AgentServiceClient, ref *apipb.SessionRef) error {
		_, err := c.ReportProgress(ctx, &apipb.ReportProgressRequest{Ref: ref, Seat: refOf(s.key), Message: text})
		return err
	})
	if err != nil {
		s.agent.log.Debug("report the progress of a pull", "seat", s.key, "error", err)
	}
	s.watch(StepProgress, false, text)
}

// withoutImage ends a seat whose image is not available. An image that does not exist or is invalid is the job's own failure. If the disk is
// full or the registry does not answer, the job is tried again, as after the loss of a node.
func (s *seat) withoutImage(ctx context.Context, err error) error {
	node := "node " + s.agent.cfg.Node
	switch code := ares.CodeOf(err); {
	case s.isStopped():
		s.end(run.Result{Outcome: run.Stopped, Reason: "stopped while its image was pulled", Ended: time.Now()})
	case ctx.Err() != nil:
		return err // the agent stops
	case errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT):
		if s.agent.images.IsFull() { // otherwise only this image is too large for the node
			s.agent.startFailed(err.Error())
		}
		s.end(run.Result{Outcome: run.Lost, Reason: node + ": " + err.Error(), Ended: time.Now()})
	case code == ares.NotFound || code == ares.Invalid || code == ares.TooLarge || code == ares.Forbidden:
		s.end(run.Result{Outcome: run.SpawnError, Reason: err.Error(), Ended: time.Now()})
	default:
		s.end(run.Result{Outcome: run.Lost, Reason: node + " could not get the job's image: " + err.Error(), Ended: time.Now()})
	}
	return nil
}
