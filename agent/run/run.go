//go:build linux

// Package run starts the processes of the seats on this node, finds them again, stops them, and cleans up after them. Each seat
// has its own supervisor process (cmd/ares-supervisor) that outlives the agent and enforces the deadline of the lease. This
// package communicates with the supervisor through the files and the socket of the seat's directory (package seat).
//
// A seat never counts as ended before its cgroup is verified to be empty, regardless of which program killed its processes. This package
// starts no background goroutines. Every blocking call takes a context. Between two calls, a Proc holds at most the pipe on which its
// supervisor has reported the start.
package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
	"github.com/ares-scheduler/ares/agent/trash"
)

// These types are shared with the supervisor; see package seat.
type (
	// Key identifies one seat, which is one rank of one attempt.
	Key = seat.Key
	// Spec is the command of one seat, with its limits and timeouts.
	Spec = seat.Spec
	// User is the user that a job runs as.
	User = seat.User
	// Secret is one value of a secret, for a variable or a file.
	Secret = seat.Secret
	// Result describes how a seat ended.
	Result = seat.Result
	// Outcome is one word for how a seat ended.
	Outcome = seat.Outcome
	// BootTime is CLOCK_BOOTTIME in nanoseconds.
	BootTime = seat.BootTime
)

// These are all outcomes of a seat; see package seat.
const (
	Exited      = seat.Exited
	Stopped     = seat.Stopped
	Fenced      = seat.Fenced
	MaxRuntime  = seat.MaxRuntime
	OutOfMemory = seat.OutOfMemory
	SpawnError  = seat.SpawnError
	Lost        = seat.Lost
)

// Now reads CLOCK_BOOTTIME.
func Now() BootTime { return seat.Now() }

// ParseKey reads a key from the name of a seat's directory.
func ParseKey(name string) (Key, bool) { return seat.ParseKey(name) }

// Callers can test for these errors with errors.Is.
var (
	// ErrExists means that the seat was started before. Use Find to get the existing seat.
	ErrExists = errors.New("the process was already started")
	// ErrFenced means that a renewal came too late, so the seat is being killed.
	ErrFenced = errors.New("the process is being killed, because its lease was not renewed in time")
	// ErrEnded means that the seat's supervisor is gone.
	ErrEnded = errors.New("the process has ended")
	// ErrAlive means that the seat cannot be forgotten yet.
	ErrAlive = errors.New("the process is still running")
)

const (
	seatsDir = "seats" // names are <job>.<fence>.<rank>; see package seat
	logsDir  = "logs"  // the same names; after Forget only logs are left
	// storedDir has the logs of logsDir that were stored elsewhere; see MarkStored.
	storedDir = "stored"

	trashDir = "trash" // directories of jobs that are being deleted; see package trash
	emptyDir = "empty" // empty files for new seats; see the type `recycler`
	idFile   = "id"    // names this runner's cgroup over restarts
)

// Runner starts the seats of one node and finds the seats that already exist. The methods of a Runner may be called
// concurrently.
type Runner struct {
	// KeepLogs and KeepLogBytes limit the stored logs of forgotten seats. The oldest logs are deleted first. The
	// defaults are 1,000 seats and 4 GiB. Set KeepLogs and KeepLogBytes before the Runner is used.
	KeepLogs     int
	KeepLogBytes int64

	dir         string
	root        *os.Root // dir; names from outside are opened through it
	supervisor  string
	id          string
	memory      string      // the directory for secret files, memoryDir except in tests
	cgroup      seat.Cgroup // parent of the seats' cgroups; "" if containment does not work
	cgroupMount string      // where the file system of cgroup is mounted
	why         string      // why it does not work
	limits      limiter     // limits a job's use of the machine
	noSandbox   string      // why jobs cannot have a Sandbox, "" if they can
	shm         sync.Mutex  // guards the mounts in sharedShmDir
	noSeccomp   string      // why jobs cannot have Sandbox.Seccomp, "" if they can
	noDevices   string      // why jobs cannot have Sandbox.FilterDevices, "" if they can
	noNetwork   string      // why jobs cannot have Sandbox.OwnNetwork, "" if they can
	noJobSocket string      // why jobs cannot have a socket for their processes, "" if they can
	bin         *trash.Bin  // what jobs left; its content is deleted by the caller of Trash
	kept        keptLogs    // logs of forgotten seats
	untidy      error       // what could not be cleaned up when the Runner was opened
	spares      spares      // supervisors that wait for their next seat
	owners      slotOwners  // the seats that are in a slot
	ended       endedSeats  // seats that Wait has returned
	recycler    recycler    // empty files for new seats
	watches     atomic.Int32
}

// Open prepares the directory `dir` as the state directory of seats. Open fails if the supervisor cannot be executed. If cgroups are the
// only thing that does not work, Open continues without them, and Contained reports the reason.
func Open(dir, supervisor string) (*Runner, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Other users may enter these directories but not list them. A job that runs as another user must reach its progress file there.
	for _, d := range []string{dir, filepath.Join(dir, seatsDir)} {
		if err = os.MkdirAll(d, 0o711); err != nil {
			return nil, err
		}
	}
	for _, d := range []string{logsDir, storedDir} {
		if err = os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r := &Runner{KeepLogs: 1000, KeepLogBytes: 4 << 30, dir: dir, root: root, supervisor: supervisor, memory: memoryDir}
	if r.bin, err = trash.Open(filepath.Join(dir, trashDir)); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err := r.prepare(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Trash returns the bin for what jobs left in the Runner's directory. This package starts no goroutines, so the caller runs the bin.
func (r *Runner) Trash() *trash.Bin { return r.bin }

// Untidy returns what could not be cleaned up when the Runner was opened, or nil. It is not an error of Open: a job decides what has to be
// cleaned up, and must not be able to keep an agent from starting.
func (r *Runner) Untidy() error { return r.untidy }

func (r *Runner) prepare() error {
	// A supervisor outlives the agent, so a pipe that the supervisor inherited would never be closed.
	seat.KeepFilesBack(3)
	if err := probe(r.supervisor, ""); err != nil {
		return fmt.Errorf("execute supervisor %s: %w", r.supervisor, err)
	}
	var err error
	if r.id, err = r.readID(); err != nil {
		return err
	}
	if err = r.recycler.open(filepath.Join(r.dir, emptyDir)); err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	r.findCgroups(string(mounts), string(own))
	r.noSandbox, r.noSeccomp, r.noNetwork = r.probeSandbox(), r.probeIsolation(seat.ProbeSeccomp), r.probeIsolation(seat.ProbeNetwork)
	r.noDevices, r.noJobSocket = r.probeDevices(), probeJobSocket()
	r.unmountShm()
	r.untidy = r.tidyLogs()
	return nil
}

// readID reads or creates the runner's permanent name.
func (r *Runner) readID() (string, error) {
	b, err := r.root.ReadFile(idFile)
	if id := strings.TrimSpace(string(b)); err == nil && len(id) == 12 {
		if _, bad := hex.DecodeString(id); bad == nil {
			return id, nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var raw [6]byte
	_, _ = rand.Read(raw[:]) // never fails
	id := hex.EncodeToString(raw[:])
	tmp := idFile + ".tmp"
	if err := r.root.WriteFile(tmp, []byte(id+"\n"), 0o600); err != nil {
		return "", err
	}
	return id, r.root.Rename(tmp, idFile)
}

// Close closes the directory, and ends the supervisors without a seat. Seats keep running. The Runner must not be used afterwards.
func (r *Runner) Close() error {
	r.spares.close()
	return errors.Join(r.bin.Close(), r.root.Close())
}

// Contained reports whether each seat gets its own cgroup. If seats get no cgroups, Contained returns the reason.
func (r *Runner) Contained() (ok bool, why string) { return r.cgroup != "", r.why }

// A Found is a seat that existed when the agent started.
type Found struct {
	Key     Key
	Attempt int // 0 if the spec is damaged
	// Proc is set if the supervisor is alive. The agent adopts a seat whose supervisor is alive, and the seat's
	// attempt continues.
	Proc *Proc
	// Result is set if the supervisor is gone. Outcome Lost means that no result is stored. Processes that the supervisor left alive must
	// still be killed with EnsureDead.
	Result Result
}

// Find returns all seats, and kills every process in this node's cgroups that belongs to no seat.
func (r *Runner) Find(ctx context.Context) ([]Found, error) {
	entries, err := fs.ReadDir(r.root.FS(), seatsDir)
	if err != nil {
		return nil, fmt.Errorf("find seats: %w", err)
	}
	var keys []Key
	for _, e := range entries {
		if key, ok := seat.ParseKey(e.Name()); ok && e.IsDir() {
			keys = append(keys, key) // other names do not belong to Ares
		}
	}
	// Read the seats concurrently. The first renewal waits until all seats are read, and each supervisor that hangs takes a whole
	// timeout.
	found, errs := make([]Found, len(keys)), make([]error, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys {
		wg.Go(func() {
			if found[i], errs[i] = r.look(ctx, key); errs[i] != nil {
				errs[i] = fmt.Errorf("find seats: %s: %w", key, errs[i])
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return found, r.killStrays(ctx)
}

func (r *Runner) look(ctx context.Context, key Key) (Found, error) {
	alive, err := r.alive(key)
	if err != nil {
		return Found{}, err
	}
	order, err := r.readOrder(key)
	if err != nil {
		// If the supervisor is alive, it has read a complete spec and can report the important values. If the supervisor does not
		// answer, it is killed soon.
		order = seat.Order{Spec: Spec{Key: key, LostAfter: seat.MinLostAfter}}
		if alive {
			order.Cgroup, order.InSlot = r.slotOfSupervisor(key)
		}
	}
	f := Found{Key: key, Attempt: order.Attempt}
	if !alive {
		f.Result = r.readResult(key)
		return f, nil
	}
	if order.InSlot {
		r.owners.set(order.Cgroup, key)
	}
	f.Proc = r.adopt(ctx, order)
	f.Attempt = f.Proc.order.Attempt
	return f, nil
}

// The method `alive` reports whether the seat's supervisor is alive. A supervisor is alive if its lock is held.
func (r *Runner) alive(key Key) (bool, error) {
	f, err := r.open(key, seat.LockFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	return seat.Locked(f)
}

// The method `open` opens a file of a seat for reading. A job may be able to write to the directory. It cannot make this method block on
// a named pipe or follow a link to another file.
func (r *Runner) open(key Key, name string) (*os.File, error) {
	f, err := r.root.OpenFile(seatPath(key, name), os.O_RDONLY|openSafe, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (r *Runner) read(key Key, name string) ([]byte, error) {
	f, err := r.open(key, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return seat.ReadAll(f)
}

func (r *Runner) readOrder(key Key) (seat.Order, error) {
	b, err := r.read(key, seat.SpecFile)
	if err != nil {
		return seat.Order{}, err
	}
	o, err := seat.DecodeOrder(b)
	if err == nil && o.Key != key {
		err = seat.ErrTorn
	}
	return o, err
}

// readResult reads the result of a seat whose supervisor is gone. Without a stored result the outcome is Lost.
func (r *Runner) readResult(key Key) Result {
	b, err := r.read(key, seat.ResultFile)
	if err == nil {
		var res Result
		if res, err = seat.DecodeResult(b); err == nil {
			return res
		}
	}
	reason := "the supervisor ended without a result"
	if !errors.Is(err, fs.ErrNotExist) {
		reason = "the result cannot be read: " + err.Error()
	}
	if said := r.lastWords(key); said != "" {
		reason += " (" + said + ")"
	}
	return Result{Outcome: Lost, Reason: reason, ExitCode: -1, Ended: time.Now(), Contained: r.cgroup != ""}
}

// lastWords returns the beginning of the supervisor's error output.
func (r *Runner) lastWords(key Key) string {
	b, _ := r.read(key, seat.LockFile)
	_, said := seat.ParseLock(string(b))
	if said == "" {
		b, _ = r.read(key, seat.OldErrorFile)
		said = string(b)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	return clean(line, 200)
}

// pidOfSupervisor returns the PID that a seat's supervisor has written, or 0. Only a locked LockFile shows that the process is alive.
func (r *Runner) pidOfSupervisor(key Key) int {
	b, _ := r.read(key, seat.LockFile)
	pid, _ := seat.ParseLock(string(b))
	if pid == 0 {
		b, _ = r.read(key, seat.OldPidFile)
		pid, _ = seat.ParseLock(string(b))
	}
	return pid
}

func seatPath(key Key, name string) string { return seatsDir + "/" + key.String() + "/" + name }
