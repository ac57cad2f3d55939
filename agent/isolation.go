package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/run"
)

// Isolation configures the isolation of jobs from the machine, the agent and
// each other. See docs/guide/isolation.md.
type Isolation struct {
	// Mode decides under which user the jobs run. In mode "tenant", each tenant has its own user. In mode "user",
	// all jobs run as one user. In mode "job", each job has its own user. In mode "none", jobs run as the agent's user. Mode "auto" means "tenant" if the
	// agent is root and the machine supports it, and "none" otherwise. The default is "auto".
	Mode string `yaml:"mode"`
	// User is the user that all jobs run as in mode "user". The value is a name in /etc/passwd, or UID:GID.
	User string `yaml:"user"`
	// Tenants sets the users of some tenants in mode "tenant", such as {research: lab, prod: 4001:4001}. Other
	// tenants get a UID that is derived from their name.
	Tenants map[string]string `yaml:"tenants"`
	// UIDBase is the first UID that can be derived from a tenant's name. It must be the same on every node.
	// Otherwise the owner of a tenant's files on a shared disk differs between nodes. The default is
	// 1879048192, which is above the UIDs of people and containers.
	UIDBase int `yaml:"uid_base"`
	// UIDRange is how many UIDs can be derived from tenants' names. It must be the same on every node.
	// The default is 134217728.
	UIDRange int `yaml:"uid_range"`
	// UserRange gives each job, in mode "job", the next free UID and GID of this range, such as 200000-265535. The agent gives a UID to
	// another job only after the first job has ended on this node. Without a range, the UID is derived from the job's ID, and is the same
	// on every node. The default is none.
	UserRange string `yaml:"user_range"`
	// Groups lists additional groups of every job, as names or numbers. For example, [video, render] gives
	// access to devices. The default is none.
	Groups []string `yaml:"groups"`
	// Pids limits the number of processes and threads of one job on this node. The default is 4096, and 0
	// means no limit.
	Pids int `yaml:"pids"`
	// PrivateTmp gives each job a private /tmp, which is removed with the job.
	// The default is true.
	PrivateTmp bool `yaml:"private_tmp"`
	// Seccomp gives each job a filter of system calls, like the default filter of Docker. It is used if jobs have users of their own.
	// The default is true.
	Seccomp bool `yaml:"seccomp"`
	// UserNamespaces lets jobs create user namespaces, which rootless containers need. With false, the filter denies them.
	// The default is false.
	UserNamespaces bool `yaml:"user_namespaces"`
	// DeviceFilter lets jobs without an image open only the devices of the list below and those of every program, such as /dev/null,
	// whatever the paths of their files are. It is used if jobs have users of their own and cgroups of version 2. The default is true.
	DeviceFilter bool `yaml:"device_filter"`
	// Devices lists patterns of device files that jobs may open if the permissions of the files allow it. The GPUs of other jobs stay
	// closed. With user_namespaces, add /dev/fuse and /dev/net/tun for rootless containers. The default has the usual accelerators and
	// fast networks.
	Devices []string `yaml:"devices"`
	// ShmMB is the size of the private /dev/shm of each job. 0 means half of the machine's memory, or the job's memory_mb if that is
	// less. -1 means that jobs use the machine's /dev/shm. The default is 0.
	ShmMB int `yaml:"shm_mb"`
	// TmpMB is the size of the private /tmp of each job, which is then in memory and limits the number of files too. 0 means that the
	// private /tmp is a directory on disk without a limit. The default is 0.
	TmpMB int `yaml:"tmp_mb"`
	// WorkMB is the size of the directory in which a job without working_dir starts. The directory is then in memory and limits the
	// number of files too. 0 means that it is on the agent's disk without a limit. The default is 0.
	WorkMB int `yaml:"work_mb"`
	// DiskMB is the size of a file system that each rank gets on the agent's disk for its /tmp and its own directory. It limits the number
	// of files too. Directories that tmp_mb or work_mb put in memory are not in it. It needs mkfs.ext4 (e2fsprogs) and loop devices. 0
	// means that both are directories on the agent's disk without a limit. The default is 0.
	DiskMB int `yaml:"disk_mb"`
	// Require makes a node reject all jobs if the node cannot fully isolate them. Full isolation needs
	// separate users, mounts, and limits on CPU, memory and processes. The default is false.
	Require bool `yaml:"require"`
	// AllowUntrusted lets jobs of all users run on a node that runs jobs as the agent's own user. Such a job can read the agent's
	// files, and beside a server the administrator's token. With false, such a node runs only jobs that platform administrators
	// submit. The default is false.
	AllowUntrusted bool `yaml:"allow_untrusted"`
}

// Modes of isolation.
const (
	IsolateAuto   = "auto"
	IsolateTenant = "tenant"
	IsolateJob    = "job"
	IsolateUser   = "user"
	IsolateNone   = "none"
)

// defaultDevices are the usual accelerators and fast networks. The permissions of their files decide too, and so does what the seat hides.
var defaultDevices = []string{
	"/dev/nvidia*", "/dev/nvidia-caps*/*", "/dev/dri/*", "/dev/kfd", "/dev/accel*", "/dev/accel/*",
	"/dev/infiniband/*", "/dev/gdrdrv", "/dev/knem", "/dev/xpmem", "/dev/hfi1_*",
}

// DefaultIsolation isolates jobs as far as the machine allows.
func DefaultIsolation() Isolation {
	return Isolation{Mode: IsolateAuto, UIDBase: 0x7000_0000, UIDRange: 0x0800_0000, Pids: 4096, PrivateTmp: true, Seccomp: true, DeviceFilter: true, Devices: slices.Clone(defaultDevices)}
}

// Check reports every mistake in the isolation settings. Each mistake is reported with its configuration key.
func (i *Isolation) Check(p *ares.Problems) {
	switch i.Mode {
	case IsolateAuto, IsolateTenant, IsolateJob, IsolateNone:
		if i.User != "" {
			p.Add("isolation.user", "is used only with mode user, and the mode is %s", i.Mode)
		}
	case IsolateUser:
		if i.User == "" {
			p.Add("isolation.user", "is empty: name the user that jobs run as")
		}
	default:
		p.Add("isolation.mode", "%q is unknown: use auto, tenant, job, user or none", i.Mode)
	}
	// UIDs below 65536 belong to the machine's own users. Some programs misread UIDs of 2^31 and above.
	if i.UIDBase < 65536 || i.UIDRange < 1 || i.UIDRange > 1<<31 || i.UIDBase > 1<<31-i.UIDRange {
		p.Add("isolation.uid_base", "UIDs from %d on, %d of them, must lie between 65536 and 2147483647", i.UIDBase, i.UIDRange)
	}
	if i.Pids < 0 || i.Pids > 4_194_304 {
		p.Add("isolation.pids", "must be between 0 and 4194304, got %d", i.Pids)
	}
	const maxMB = 64 << 20 // 64 TiB
	if i.ShmMB < -1 || i.ShmMB > maxMB {
		p.Add("isolation.shm_mb", "must be between -1 and %d, got %d", maxMB, i.ShmMB)
	}
	if i.TmpMB < 0 || i.TmpMB > maxMB {
		p.Add("isolation.tmp_mb", "must be between 0 and %d, got %d", maxMB, i.TmpMB)
	}
	if i.WorkMB < 0 || i.WorkMB > maxMB {
		p.Add("isolation.work_mb", "must be between 0 and %d, got %d", maxMB, i.WorkMB)
	}
	if i.TmpMB > 0 && !i.PrivateTmp {
		p.Add("isolation.tmp_mb", "is used only with isolation.private_tmp")
	}
	i.checkDisk(p)
	i.checkDevices(p)
	i.checkUserRange(p)
}

// The type `isolation` is the isolation in effect on this machine.
type isolation struct {
	Isolation
	means  run.Means
	mode   string // tenant, job, user or none
	why    string // why auto became none, "" otherwise
	single *run.User
	named  map[string]*run.User // by tenant
	groups []uint32

	mu     sync.Mutex
	path   string            // of the file that stores the tenants' UIDs
	taken  map[uint32]string // UID to tenant, for tenants that had jobs here
	exists func(uid string) bool
	jobs   map[uint32]ares.JobID // UID to job, in mode job, since the agent's start
	users  *userRange            // the users of jobs, nil without isolation.user_range
}

// openIsolation decides how jobs are isolated. The decision depends on the configuration and on what the machine
// supports. It returns an error if the configuration names a mode that is not possible on this machine.
func openIsolation(cfg Isolation, means run.Means, dir string) (*isolation, error) {
	i := &isolation{
		Isolation: cfg, means: means, mode: cfg.Mode, named: map[string]*run.User{}, path: filepath.Join(dir, "tenants"),
		exists: func(uid string) bool { _, err := user.LookupId(uid); return err == nil },
	}
	if err := i.findUsers(); err != nil {
		return nil, err
	}
	if err := i.loadUsers(); err != nil {
		return nil, err
	}
	if err := i.openUserRange(dir); err != nil {
		return nil, err
	}
	wanted := i.mode
	if wanted == IsolateAuto {
		i.mode = IsolateTenant
	}
	if i.mode == IsolateNone {
		return i, nil
	}
	why := i.unsupportedReason(dir)
	switch {
	case why == "":
	case wanted == IsolateAuto:
		i.mode, i.why = IsolateNone, why
	default:
		return nil, ares.Errorf(ares.Invalid, "isolation.mode %s: %s", wanted, why)
	}
	if i.mode != IsolateNone && !means.Sandbox {
		// A job's user may enter this directory to reach its own files. It cannot list the directory or read
		// anything else in it.
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("give jobs access to the agent's directory: %w", err)
		}
	}
	return i, nil
}

// unsupportedReason returns the reason why jobs cannot run as other users on this machine, or "" if they can.
func (i *isolation) unsupportedReason(dir string) string {
	if !i.means.Users {
		return i.means.NoUsers
	}
	last := uint32(i.UIDBase + i.UIDRange - 1)
	if i.mode == IsolateUser {
		last = i.single.UID
	}
	if i.users != nil {
		last = i.users.last
	}
	data, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && !hasUID(string(data), last) {
		return fmt.Sprintf("this machine is a container without UID %d: set isolation.uid_base and uid_range to what it has", last)
	}
	if i.means.Sandbox {
		return ""
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm()&0o001 == 0 {
			return fmt.Sprintf("other users cannot pass %s, and mounts of their own cannot be made (%s): choose another --data-dir, such as /var/lib/ares", d, i.means.NoSandbox)
		}
		if d == filepath.Dir(d) {
			return ""
		}
	}
}

// hasUID reports whether a UID exists in this user namespace, according to /proc/self/uid_map. Each line of that
// file holds the first UID inside the namespace, the first UID outside it, and the number of UIDs.
func hasUID(uidMap string, uid uint32) bool {
	for line := range strings.Lines(uidMap) {
		var first, outside, count uint64
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && uint64(uid) >= first && uint64(uid)-first < count {
			return true
		}
	}
	return false
}

func (i *isolation) findUsers() error {
	for _, name := range i.Groups {
		gid, err := groupOf(name)
		if err != nil {
			return ares.Errorf(ares.Invalid, "isolation.groups: %s", err)
		}
		i.groups = append(i.groups, gid)
	}
	if i.mode == IsolateUser {
		u, err := i.userOf(i.User)
		if err != nil {
			return ares.Errorf(ares.Invalid, "isolation.user: %s", err)
		}
		i.single = u
	}
	for tenant, name := range i.Tenants {
		u, err := i.userOf(name)
		if err != nil {
			return ares.Errorf(ares.Invalid, "isolation.tenants: %s: %s", tenant, err)
		}
		i.named[tenant] = u
	}
	return nil
}

func groupOf(name string) (uint32, error) {
	id := name
	if g, err := user.LookupGroup(name); err == nil {
		id = g.Gid
	}
	gid, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("this machine has no group %q", name)
	}
	if gid == 0 {
		return 0, errors.New("jobs must not run in root's group (GID 0)")
	}
	return uint32(gid), nil
}

// userOf finds a user by name or as UID:GID. A user from a directory service must be given as UID:GID, because this
// program reads only /etc/passwd.
func (i *isolation) userOf(name string) (*run.User, error) {
	uid, gid, _ := strings.Cut(name, ":")
	if u, err := user.Lookup(name); err == nil {
		uid, gid = u.Uid, u.Gid
	}
	n, err1 := strconv.ParseUint(uid, 10, 32)
	m, err2 := strconv.ParseUint(gid, 10, 32)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%q is not a valid user: use a name from /etc/passwd, or UID:GID, for example 4001:4001", name)
	}
	if n == 0 || m == 0 {
		return nil, fmt.Errorf("%q is root, but jobs must not run as root: choose another user, or set isolation.mode to none", name)
	}
	return &run.User{UID: uint32(n), GID: uint32(m), Groups: i.groups}, nil
}

// The method `of` returns the user that a tenant's jobs run as. The result is nil if they run as the agent's
// own user.
func (i *isolation) of(tenant string) (*run.User, error) {
	if i.mode == IsolateNone {
		return nil, nil
	}
	if i.mode == IsolateUser {
		return i.single, nil
	}
	if u := i.named[tenant]; u != nil {
		return u, nil
	}
	return i.makeUser(tenant)
}

// The method `login` returns the name of a tenant's user, for programs that ask for a user name.
func (i *isolation) login(tenant string) string {
	name := i.Tenants[tenant]
	if i.mode == IsolateUser {
		name = i.User
	}
	if name == "" || strings.Contains(name, ":") {
		return tenant
	}
	return name
}

// ofJob returns the user that a job runs as, like the method `of`. In mode job, the user depends on the job.
func (i *isolation) ofJob(tenant string, job ares.JobID) (*run.User, error) {
	if i.mode != IsolateJob || i.named[tenant] != nil {
		return i.of(tenant)
	}
	if i.users != nil {
		return i.userFromRange(job)
	}
	uid := i.derivedUID("job " + string(job))
	i.mu.Lock()
	defer i.mu.Unlock()
	if other, known := i.jobs[uid]; known && other != job {
		return nil, fmt.Errorf("jobs %s and %s would get the same UID %d: submit the job again", other, job, uid)
	}
	if _, known := i.taken[uid]; known || i.exists(strconv.Itoa(int(uid))) {
		return nil, fmt.Errorf("job %s cannot use UID %d, because this UID already belongs to another user of this machine: submit the job again", job, uid)
	}
	if i.jobs == nil || len(i.jobs) >= maxJobUIDs {
		i.jobs = map[uint32]ares.JobID{}
	}
	i.jobs[uid] = job
	return &run.User{UID: uid, GID: uid, Groups: i.groups}, nil
}

// maxJobUIDs is how many UIDs of jobs the agent remembers, to notice that two jobs would share one.
const maxJobUIDs = 65536

// derivedUID returns the UID that belongs to a name, on every node the same.
func (i *isolation) derivedUID(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return uint32(i.UIDBase) + uint32(binary.BigEndian.Uint64(sum[:8])%uint64(i.UIDRange))
}

// makeUser derives a user from a tenant's name. The user is the same on every node, and no other tenant has it. Two
// tenants are unlikely to get the same UID. If two tenants do get the same UID, the second one is rejected.
func (i *isolation) makeUser(tenant string) (*run.User, error) {
	uid := i.derivedUID(tenant)
	for _, u := range i.named { // order-free: any conflict is an error
		if u.UID == uid {
			return nil, fmt.Errorf("tenant %s cannot use UID %d, because isolation.tenants assigns this UID to another tenant: set a different UID in isolation.tenants", tenant, uid)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch who, known := i.taken[uid]; {
	case known && who != tenant:
		return nil, fmt.Errorf("tenants %s and %s would get the same UID %d: set a user for one of these tenants in isolation.tenants", who, tenant, uid)
	case !known && i.exists(strconv.Itoa(int(uid))):
		return nil, fmt.Errorf("tenant %s cannot use UID %d, because this UID already belongs to a user of this machine: set the tenant's user in isolation.tenants, or change uid_base", tenant, uid)
	case !known:
		i.taken[uid] = tenant
		if err := i.write(); err != nil {
			delete(i.taken, uid)
			return nil, fmt.Errorf("store the UID of tenant %s: %w", tenant, err)
		}
	}
	return &run.User{UID: uid, GID: uid, Groups: i.groups}, nil
}

// loadUsers reads which tenants have had jobs on this machine, because files of these tenants may still
// exist.
func (i *isolation) loadUsers() error {
	i.taken = map[uint32]string{}
	data, err := os.ReadFile(i.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the stored UIDs of tenants: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		uid, tenant, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(uid, 10, 32); ok && err == nil {
			i.taken[uint32(n)] = tenant
		}
	}
	return nil
}

func (i *isolation) write() error {
	lines := make([]string, 0, len(i.taken))
	for uid, tenant := range i.taken {
		lines = append(lines, fmt.Sprintln(uid, tenant))
	}
	slices.Sort(lines)
	return writeAtomically(i.path, strings.Join(lines, ""))
}

// The method `describe` returns one line that tells people how jobs are isolated.
func (i *isolation) describe() string {
	var parts []string
	switch i.mode {
	case IsolateTenant:
		parts = append(parts, "a user for each tenant")
	case IsolateJob:
		parts = append(parts, "a user for each job")
	case IsolateUser:
		parts = append(parts, fmt.Sprintf("user %d for all jobs", i.single.UID))
	default:
		what := "none"
		if i.why != "" {
			what += ", " + i.why
		}
		parts = append(parts, what+": jobs run as the agent's user")
	}
	switch {
	case i.mode == IsolateNone:
	case i.means.Sandbox && i.PrivateTmp:
		parts = append(parts, "own /tmp, processes and devices")
	case i.means.Sandbox:
		parts = append(parts, "own processes and devices")
	default:
		parts = append(parts, "no mounts of their own ("+i.means.NoSandbox+")")
	}
	if i.mode != IsolateNone && i.Seccomp && i.means.NoSeccomp != "" {
		parts = append(parts, "no filter of system calls ("+i.means.NoSeccomp+")")
	}
	if why := i.noDevices(); why != "" {
		parts = append(parts, "no filter of devices ("+why+")")
	}
	if why := i.noDisk(); why != "" {
		parts = append(parts, "no limit of disk space ("+why+")")
	}
	if i.mode != IsolateNone && i.means.NoNetwork != "" {
		parts = append(parts, "no network of their own, so no jobs with network: none ("+i.means.NoNetwork+")")
	}
	limits := "no limits (no cgroup controllers)"
	if len(i.means.Limited) > 0 {
		limits = fmt.Sprintf("limits of %s (cgroup v%d)", strings.Join(i.means.Limited, ", "), i.means.CgroupVersion)
	}
	parts = append(parts, limits)
	if i.trustedOnly() {
		parts = append(parts, "only jobs of platform administrators (see isolation.allow_untrusted)")
	}
	return strings.Join(parts, "; ")
}

// trustedOnly reports whether only jobs of platform administrators may run on this machine. A job that runs as the agent's own user can
// read what the agent can read.
func (i *isolation) trustedOnly() bool { return i.mode == IsolateNone && !i.AllowUntrusted }

// If isolation.require is set and the isolation is incomplete, refusalReason returns the reason why no job may run
// on this machine. If jobs may run, it returns "".
func (i *isolation) refusalReason() string {
	var missing []string
	if i.mode == IsolateNone {
		missing = append(missing, "users of their own"+strings.TrimSuffix(" ("+i.why+")", " ()"))
	}
	if !i.means.Sandbox {
		missing = append(missing, "mounts of their own ("+i.means.NoSandbox+")")
	}
	if i.Seccomp && i.means.NoSeccomp != "" {
		missing = append(missing, "a filter of system calls ("+i.means.NoSeccomp+")")
	}
	if why := i.noDevices(); why != "" {
		missing = append(missing, "a filter of devices ("+why+")")
	}
	if why := i.noDisk(); why != "" && i.mode != IsolateNone && i.means.Sandbox {
		missing = append(missing, "a limit of disk space ("+why+")")
	}
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(i.means.Limited, c) {
			missing = append(missing, "a cgroup controller for "+c)
		}
	}
	if !i.Require || len(missing) == 0 {
		return ""
	}
	return "isolation.require: jobs here lack " + strings.Join(missing, ", ")
}
