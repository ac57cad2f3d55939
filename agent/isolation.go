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

// Isolation is how jobs are set apart from the machine, the agent and each
// other. docs/isolation.md says what each part does and needs.
type Isolation struct {
	// Mode is whom jobs run as: tenant (each tenant has a user of its own), user
	// (all have the one that is named), none (the agent's own) or auto: tenant
	// where the agent is root and that works, otherwise none. Default auto.
	Mode string `yaml:"mode"`
	// User is whom all jobs run as in mode user: a name of /etc/passwd, or UID:GID.
	User string `yaml:"user"`
	// Tenants are the users of some tenants, such as {research: lab, prod: 4001:4001},
	// in mode tenant. The others get a UID that is made of their name.
	Tenants map[string]string `yaml:"tenants"`
	// UIDBase is where those UIDs begin. Every node must have the same, or a
	// tenant's files on a shared disk are not its own everywhere. Default 1879048192,
	// from where on neither people nor containers use them.
	UIDBase int `yaml:"uid_base"`
	// UIDRange is how many of them there are, the same on every node. Default 134217728.
	UIDRange int `yaml:"uid_range"`
	// Groups are those that every job is in beside its user's own: names or numbers, such as
	// [video, render] where the devices are theirs. Default none.
	Groups []string `yaml:"groups"`
	// Pids bounds the processes and threads of one job on this node. Default
	// 4096; 0 for no bound.
	Pids int `yaml:"pids"`
	// PrivateTmp gives each job a /tmp of its own, which goes with it. Default true.
	PrivateTmp bool `yaml:"private_tmp"`
	// Require refuses all jobs on a node that cannot set them apart whole: users,
	// mounts, and limits of CPU, memory and processes. Default false.
	Require bool `yaml:"require"`
}

// Modes of isolation.
const (
	IsolateAuto   = "auto"
	IsolateTenant = "tenant"
	IsolateUser   = "user"
	IsolateNone   = "none"
)

// DefaultIsolation sets jobs apart as far as the machine lets it.
func DefaultIsolation() Isolation {
	return Isolation{Mode: IsolateAuto, UIDBase: 0x7000_0000, UIDRange: 0x0800_0000, Pids: 4096, PrivateTmp: true}
}

// Check reports what is wrong with it, by keys below isolation.
func (i *Isolation) Check(p *ares.Problems) {
	switch i.Mode {
	case IsolateAuto, IsolateTenant, IsolateNone:
		if i.User != "" {
			p.Add("isolation.user", "counts with mode user only, and the mode is %s", i.Mode)
		}
	case IsolateUser:
		if i.User == "" {
			p.Add("isolation.user", "is empty: name the user that jobs run as")
		}
	default:
		p.Add("isolation.mode", "%q is unknown: use auto, tenant, user or none", i.Mode)
	}
	// Below 65536 are the machine's own users, from 2^31 on some programs misread them.
	if i.UIDBase < 65536 || i.UIDRange < 1 || i.UIDRange > 1<<31 || i.UIDBase > 1<<31-i.UIDRange {
		p.Add("isolation.uid_base", "UIDs from %d on, %d of them, must lie between 65536 and 2147483647", i.UIDBase, i.UIDRange)
	}
	if i.Pids < 0 || i.Pids > 4_194_304 {
		p.Add("isolation.pids", "must be between 0 and 4194304, got %d", i.Pids)
	}
}

// isolation is what comes of it on this machine.
type isolation struct {
	Isolation
	means  run.Means
	mode   string // tenant, user or none
	why    string // it is none though auto was asked for, "" otherwise
	single *run.User
	named  map[string]*run.User // by tenant
	groups []uint32

	mu     sync.Mutex
	path   string            // of the file that remembers tenants
	taken  map[uint32]string // UID to tenant: of those who had jobs here
	exists func(uid string) bool
}

// openIsolation decides how jobs are set apart, by what is wanted and what the
// machine has. It fails where what is wanted by name cannot be had.
func openIsolation(cfg Isolation, means run.Means, dir string) (*isolation, error) {
	i := &isolation{
		Isolation: cfg, means: means, mode: cfg.Mode, named: map[string]*run.User{}, path: filepath.Join(dir, "tenants"),
		exists: func(uid string) bool { _, err := user.LookupId(uid); return err == nil },
	}
	if err := i.findUsers(); err != nil {
		return nil, err
	}
	if err := i.remember(); err != nil {
		return nil, err
	}
	wanted := i.mode
	if wanted == IsolateAuto {
		i.mode = IsolateTenant
	}
	if i.mode == IsolateNone {
		return i, nil
	}
	why := i.unable(dir)
	switch {
	case why == "":
	case wanted == IsolateAuto:
		i.mode, i.why = IsolateNone, why
	default:
		return nil, ares.Errorf(ares.Invalid, "isolation.mode %s: %s", wanted, why)
	}
	if i.mode != IsolateNone && !means.Room {
		// Its users pass through to what is theirs; they can list and read nothing else here.
		if err := os.Chmod(dir, 0o711); err != nil {
			return nil, fmt.Errorf("open the agent's directory to jobs: %w", err)
		}
	}
	return i, nil
}

// unable says why jobs cannot have users of their own here, "" when they can.
func (i *isolation) unable(dir string) string {
	if !i.means.Users {
		return i.means.NoUsers
	}
	last := uint32(i.UIDBase + i.UIDRange - 1)
	if i.mode == IsolateUser {
		last = i.single.UID
	}
	data, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && !hasUID(string(data), last) {
		return fmt.Sprintf("this machine is a container without UID %d: set isolation.uid_base and uid_range to what it has", last)
	}
	if i.means.Room {
		return ""
	}
	for d := filepath.Dir(dir); ; d = filepath.Dir(d) {
		if st, err := os.Stat(d); err != nil || st.Mode().Perm()&0o001 == 0 {
			return fmt.Sprintf("other users cannot pass %s, and mounts of their own cannot be made (%s): choose another --data-dir, such as /var/lib/ares", d, i.means.NoRoom)
		}
		if d == filepath.Dir(d) {
			return ""
		}
	}
}

// hasUID reads /proc/self/uid_map: lines of first, first outside, count.
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
		return 0, fmt.Errorf("there is no group %q on this machine", name)
	}
	if gid == 0 {
		return 0, errors.New("a job must not be in root's group")
	}
	return uint32(gid), nil
}

// userOf finds a user by name or as UID:GID. What a directory service knows is
// given as numbers: this program reads /etc/passwd alone.
func (i *isolation) userOf(name string) (*run.User, error) {
	uid, gid, _ := strings.Cut(name, ":")
	if u, err := user.Lookup(name); err == nil {
		uid, gid = u.Uid, u.Gid
	}
	n, err1 := strconv.ParseUint(uid, 10, 32)
	m, err2 := strconv.ParseUint(gid, 10, 32)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("%q is neither a user of /etc/passwd nor UID:GID, such as 4001:4001", name)
	}
	if n == 0 || m == 0 {
		return nil, fmt.Errorf("%q is root: jobs must not be; set isolation.mode none if they are to be", name)
	}
	return &run.User{UID: uint32(n), GID: uint32(m), Groups: i.groups}, nil
}

// of is whom a tenant's jobs run as, nil for the agent's own user.
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
	return i.made(tenant)
}

// login is the name of a tenant's user, for programs that ask for one.
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

// made is the user made of a tenant's name: the same on every node, and never
// anybody else's. Two names of one UID are as unlikely as they must not be
// missed: the second is refused.
func (i *isolation) made(tenant string) (*run.User, error) {
	sum := sha256.Sum256([]byte(tenant))
	uid := uint32(i.UIDBase) + uint32(binary.BigEndian.Uint64(sum[:8])%uint64(i.UIDRange))
	for _, u := range i.named { // order-free: any is one too many
		if u.UID == uid {
			return nil, fmt.Errorf("tenant %s has UID %d, which isolation.tenants gives to another: name a user for it there", tenant, uid)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	switch who, known := i.taken[uid]; {
	case known && who != tenant:
		return nil, fmt.Errorf("tenants %s and %s have the same UID %d: name a user for one of them in isolation.tenants", who, tenant, uid)
	case !known && i.exists(strconv.Itoa(int(uid))):
		return nil, fmt.Errorf("tenant %s has UID %d, which belongs to somebody on this machine: name a user for it in isolation.tenants, or change uid_base", tenant, uid)
	case !known:
		i.taken[uid] = tenant
		if err := i.write(); err != nil {
			delete(i.taken, uid)
			return nil, fmt.Errorf("remember the user of tenant %s: %w", tenant, err)
		}
	}
	return &run.User{UID: uid, GID: uid, Groups: i.groups}, nil
}

// remember reads which tenants had jobs here: their files may still be there.
func (i *isolation) remember() error {
	i.taken = map[uint32]string{}
	data, err := os.ReadFile(i.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the users of tenants: %w", err)
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
	return replace(i.path, strings.Join(lines, ""))
}

// describe says in one line how jobs are set apart, for people.
func (i *isolation) describe() string {
	var parts []string
	switch i.mode {
	case IsolateTenant:
		parts = append(parts, "a user for each tenant")
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
	case i.means.Room && i.PrivateTmp:
		parts = append(parts, "own /tmp, processes and devices")
	case i.means.Room:
		parts = append(parts, "own processes and devices")
	default:
		parts = append(parts, "no mounts of their own ("+i.means.NoRoom+")")
	}
	if len(i.means.Limited) == 0 {
		return strings.Join(append(parts, "no limits (no cgroup controllers)"), "; ")
	}
	return strings.Join(append(parts, fmt.Sprintf("limits of %s (cgroup v%d)", strings.Join(i.means.Limited, ", "), i.means.CgroupVersion)), "; ")
}

// refusal says why no job may run here though isolation.require asks for all of
// it, "" when jobs may run.
func (i *isolation) refusal() string {
	var missing []string
	if i.mode == IsolateNone {
		missing = append(missing, "users of their own"+strings.TrimSuffix(" ("+i.why+")", " ()"))
	}
	if !i.means.Room {
		missing = append(missing, "mounts of their own ("+i.means.NoRoom+")")
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
