//go:build linux

// Package run is the agent's hands: it starts, finds again, stops and buries the processes
// of this node's seats. Each seat has a supervisor process of its own (cmd/ares-supervisor)
// that outlives the agent and keeps the deadline of the lease; this package talks to it
// through the files and the socket of the seat's directory (package seat).
//
// The law of the package: no seat counts as ended before its death is verified, by an empty
// cgroup, whoever had to kill it. Nothing here runs in the background: whatever blocks takes
// a context, and a Proc holds no open file between two calls.
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
	"time"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

// The vocabulary is shared with the supervisor; see package seat.
type (
	// Key names one seat: one rank of one attempt.
	Key = seat.Key
	// Spec is what one seat shall run, and within which times.
	Spec = seat.Spec
	// User is whom a job runs as.
	User = seat.User
	// Result is how a seat ended.
	Result = seat.Result
	// Outcome is how a seat ended, in one word.
	Outcome = seat.Outcome
	// BootTime is CLOCK_BOOTTIME in nanoseconds.
	BootTime = seat.BootTime
)

// All outcomes; see package seat.
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

// Errors that callers tell apart.
var (
	// ErrExists is a seat that was started before; Find gives it.
	ErrExists = errors.New("the seat exists")
	// ErrFenced is a renewal that came too late: the seat is being killed.
	ErrFenced = errors.New("the seat has fenced itself")
	// ErrEnded is a request to a seat whose supervisor is gone.
	ErrEnded = errors.New("the seat has ended")
	// ErrAlive is a seat that cannot be forgotten yet.
	ErrAlive = errors.New("the seat is alive")
)

const (
	seatsDir = "seats" // <job>.<fence>.<rank>: see package seat
	logsDir  = "logs"  // the same names, after Forget: only logs in them
	idFile   = "id"    // names this runner's cgroup over restarts
)

// Runner starts and finds the seats of one node. Its methods may be called at the same time.
type Runner struct {
	// KeepLogs and KeepLogBytes bound the logs of forgotten seats; the oldest go first.
	// Defaults 1,000 seats and 4 GiB. Set them before use.
	KeepLogs     int
	KeepLogBytes int64

	dir        string
	root       *os.Root // dir; names that come from outside go through it
	supervisor string
	id         string
	cgroup     seat.Cgroup // parent of the seats' cgroups; "" if containment does not work
	why        string      // it does not
	limits     limiter     // what bounds a job's use of the machine
	noRoom     string      // why jobs cannot have a Room, "" if they can
}

// Open prepares dir for seats. It fails if the supervisor cannot be executed at all; where
// only cgroups do not work it goes on, and Contained says so.
func Open(dir, supervisor string) (*Runner, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	// Passable, not readable: a job of another user must reach its progress file.
	for _, d := range []string{dir, filepath.Join(dir, seatsDir)} {
		if err = os.MkdirAll(d, 0o711); err != nil {
			return nil, err
		}
	}
	if err = os.MkdirAll(filepath.Join(dir, logsDir), 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r := &Runner{KeepLogs: 1000, KeepLogBytes: 4 << 30, dir: dir, root: root, supervisor: supervisor}
	if err := r.prepare(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return r, nil
}

func (r *Runner) prepare() error {
	// A supervisor outlives us: a pipe that it inherited would never see its end.
	seat.KeepFilesBack(3)
	if err := probe(r.supervisor, ""); err != nil {
		return fmt.Errorf("execute supervisor %s: %w", r.supervisor, err)
	}
	var err error
	if r.id, err = r.readID(); err != nil {
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
	r.noRoom = r.probeRoom()
	return r.tidyLogs()
}

// readID gives the runner its lasting name.
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

// Close gives back the directory. Seats live on, and so must nothing that uses the Runner.
func (r *Runner) Close() error { return r.root.Close() }

// Contained reports whether each seat gets a cgroup of its own, and if not, why.
func (r *Runner) Contained() (ok bool, why string) { return r.cgroup != "", r.why }

// Found is a seat that was there when the agent came up.
type Found struct {
	Key     Key
	Attempt int // 0 if the spec is torn
	// Proc is set if the supervisor lives: the seat is adopted again, same attempt.
	Proc *Proc
	// Result is set otherwise. With Outcome Lost nobody has written one. What the
	// supervisor left alive is still to be killed: call EnsureDead.
	Result Result
}

// Find looks for all seats, and kills what runs in this node's cgroups without having one.
func (r *Runner) Find(ctx context.Context) ([]Found, error) {
	entries, err := fs.ReadDir(r.root.FS(), seatsDir)
	if err != nil {
		return nil, fmt.Errorf("find seats: %w", err)
	}
	var keys []Key
	for _, e := range entries {
		if key, ok := seat.ParseKey(e.Name()); ok && e.IsDir() {
			keys = append(keys, key) // others are not ours
		}
	}
	// All at once: each of many stopped supervisors is waited for, and the first
	// renewal waits for them all.
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
		// If the supervisor lives, the spec was whole when it read it, and it will tell what
		// matters. One that does not answer either is ended soon.
		order = seat.Order{Spec: Spec{Key: key, LostAfter: seat.MinLostAfter}}
	}
	f := Found{Key: key, Attempt: order.Attempt}
	if !alive {
		f.Result = r.readResult(key)
		return f, nil
	}
	f.Proc = r.adopt(ctx, order)
	f.Attempt = f.Proc.order.Attempt
	return f, nil
}

// alive asks the kernel whether the seat's supervisor lives.
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

// open opens a file of a seat for reading. A job that may write there cannot make us wait
// at a named pipe or read elsewhere.
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

// readResult is for seats whose supervisor is gone: what it did not write is lost.
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

// lastWords is the beginning of what the supervisor wrote to its error file.
func (r *Runner) lastWords(key Key) string {
	b, err := r.read(key, seat.ErrorFile)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
	return clean(line, 200)
}

func seatPath(key Key, name string) string { return seatsDir + "/" + key.String() + "/" + name }
