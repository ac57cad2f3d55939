//go:build linux

package image

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	ares "github.com/ares-scheduler/ares"
)

// layerName returns the name of a layer's directory. It is shorter than a digest, because the names of up to 127 layers must fit into the
// options of a mount, and long enough that nobody finds two layers with the same name.
func layerName(diffID string) string { return strings.TrimPrefix(diffID, "sha256:")[:24] }

// A fetch is one layer that is being fetched for one or more callers.
type fetch struct {
	done    chan struct{}
	err     error
	waiting int // callers that still want it; guarded by Store.mu
	cancel  context.CancelFunc
	read    atomic.Int64
}

// everybody stands in layerRecord.Tenants for all tenants.
const everybody = "*"

// layer makes sure that a layer is in the store and that the tenant may use it. Each layer is fetched once, however many callers want it at
// the same time. A tenant that has not fetched a private layer itself fetches it again. Otherwise, with a manifest of its own, it could get
// every layer of other tenants whose digest it knows.
func (s *Store) layer(ctx context.Context, req *Request, l layerSource, of *found, diffID string, p *tracker) error {
	name, who := layerName(diffID), everybody
	if of.private {
		who = req.Tenant
	}
	key := name + " " + who
	for {
		s.mu.Lock()
		if state := s.layers[name]; state != nil && state.isFor(who) {
			s.mu.Unlock()
			return nil
		}
		f := s.fetches[key]
		mine := f == nil
		if mine {
			life, cancel := context.WithCancel(context.WithoutCancel(ctx))
			f = &fetch{done: make(chan struct{}), cancel: cancel}
			s.fetches[key] = f
			s.wg.Go(func() {
				defer cancel()
				err := s.fetchLayer(life, req, l, of, diffID, who, f)
				s.mu.Lock()
				f.err = err
				if s.fetches[key] == f {
					delete(s.fetches, key)
				}
				s.mu.Unlock()
				close(f.done)
			})
		}
		f.waiting++
		s.mu.Unlock()
		p.follow(f)
		select {
		case <-f.done:
			if f.err == nil || mine {
				return f.err
			}
			// The other caller's credentials or file may be the reason, so this caller tries its own.
		case <-ctx.Done():
			s.leave(f, key)
			return ctx.Err()
		}
	}
}

// The method `leave` ends a fetch that nobody wants any more.
func (s *Store) leave(f *fetch, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.waiting--; f.waiting > 0 {
		return
	}
	f.cancel()
	if s.fetches[key] == f {
		delete(s.fetches, key) // a new caller starts anew
	}
}

// The method `enter` waits until a layer may be fetched. One tenant gets at most half of the places: a registry of its own that sends almost
// nothing must not keep all others waiting.
func (s *Store) enter(ctx context.Context, tenant string) (leave func(), err error) {
	s.mu.Lock()
	own := s.tenants[tenant]
	if own == nil {
		own = make(chan struct{}, max(1, cap(s.slots)/2))
		s.tenants[tenant] = own
	}
	s.mu.Unlock()
	for i, places := range []chan struct{}{own, s.slots} {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			if i > 0 {
				<-own
			}
			return nil, ctx.Err()
		}
	}
	return func() { <-s.slots; <-own }, nil
}

// fetchLayer fetches one layer, has it unpacked, compares its digests, and moves it to its place.
func (s *Store) fetchLayer(ctx context.Context, req *Request, l layerSource, of *found, diffID, who string, f *fetch) error {
	leave, err := s.enter(ctx, req.Tenant)
	if err != nil {
		return err
	}
	defer leave()
	in, err := l.open()
	if err != nil {
		return s.explainLayer(req, err)
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() { _ = in.Close() }) // a read of an archive or of a registry ends with the last caller
	defer stop()
	tmp := filepath.Join(s.dir, tmpDir, strings.ToLower(rand.Text()))
	dir := filepath.Join(tmp, Tree)
	if err = errors.Join(os.MkdirAll(tmp, 0o711), os.Mkdir(dir, 0o755), s.giveAway(dir)); err != nil {
		return s.noSpace(err)
	}
	defer func() { _ = os.RemoveAll(tmp) }() // the next start of the agent removes what is left
	others := slices.DeleteFunc(of.names(), func(name string) bool { return name == layerName(diffID) })
	u, err := s.unpack(ctx, &progressReader{r: io.LimitReader(in, l.size), f: f}, dir, s.rest(others))
	switch {
	case err != nil:
		return s.explainLayer(req, err)
	case u.Full:
		return s.noSpace(syscall.ENOSPC)
	case u.Error != "":
		return ares.Errorf(ares.Invalid, "image %s cannot be unpacked: %s", req.Reference, u.Error)
	case l.digest != "" && u.Digest != l.digest:
		return ares.Errorf(ares.Invalid, "image %s: a layer has the digest %s, but its manifest says %s: push the image again, and check the registry", req.Reference, u.Digest, l.digest)
	case u.DiffID != diffID:
		return ares.Errorf(ares.Invalid, "image %s: a layer has the diff ID %s, but its configuration says %s: build the image again", req.Reference, u.DiffID, diffID)
	}
	err = s.add(tmp, layerRecord{DiffID: diffID, Bytes: u.Bytes, Files: u.Files, Tenants: []string{who}})
	return s.noSpace(err)
}

// The method `add` gives a complete layer its name. If the layer is there already, it is only given to one more tenant.
func (s *Store) add(tmp string, r layerRecord) error {
	if err := errors.Join(r.write(tmp), syncDisk(tmp)); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, layersDir, layerName(r.DiffID))
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.layers[layerName(r.DiffID)]
	if state == nil {
		if err := os.Rename(tmp, dir); err != nil {
			return err
		}
		s.layers[layerName(r.DiffID)] = &layerState{layerRecord: r, used: s.cfg.Now()}
		return nil
	}
	if state.isFor(r.Tenants[0]) {
		return nil
	}
	more := state.layerRecord
	more.Tenants = append(slices.Clone(state.Tenants), r.Tenants...)
	if err := errors.Join(more.write(tmp), os.Rename(filepath.Join(tmp, recordFile), filepath.Join(dir, recordFile))); err != nil {
		return err
	}
	state.layerRecord = more
	return nil
}

func (r *layerRecord) isFor(who string) bool {
	return slices.Contains(r.Tenants, everybody) || slices.Contains(r.Tenants, who)
}

func (r *layerRecord) write(dir string) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, recordFile), b, 0o600)
}

// syncDisk writes a layer to the disk before it gets its name. Otherwise a crash of the machine could leave a layer with empty files.
func syncDisk(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return os.NewSyscallError("syncfs", unix.Syncfs(int(d.Fd())))
}

func (s *Store) explainLayer(req *Request, err error) error {
	if req.Reference.Kind != Registry {
		return fileProblem(req.Reference, err)
	}
	if strings.Contains(err.Error(), "error verifying") {
		return ares.Errorf(ares.Invalid, "image %s: a layer does not have the digest that its manifest says: push the image again, and check the registry (%v)", req.Reference, err)
	}
	return s.explain(req, err)
}

// noSpace explains a full disk.
func (s *Store) noSpace(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: the disk of the node's images is full: free space in %s, or remove images with ares image remove", err, s.dir)
	}
	return err
}

// giveAway makes the unpacker's user the owner of a directory.
func (s *Store) giveAway(dir string) error {
	if s.cfg.User == nil {
		return nil
	}
	return os.Chown(dir, int(s.cfg.User.UID), int(s.cfg.User.GID))
}

// unpack runs the child that unpacks a layer. An error means that the layer could not be read, or that the child failed.
func (s *Store) unpack(ctx context.Context, in io.Reader, dir string, limits Limits) (unpacked, error) {
	var u unpacked
	c := exec.CommandContext(ctx, "/proc/self/exe")
	c.Args = []string{UnpackerName, strconv.FormatInt(limits.Files, 10), strconv.FormatInt(limits.Bytes, 10)}
	// The child cannot reach the directory by its path, because the agent's directory is closed to other users.
	at, err := os.Open(dir)
	if err != nil {
		return u, err
	}
	defer at.Close()
	c.Dir, c.Env, c.ExtraFiles = "/", []string{"GOMAXPROCS=2"}, []*os.File{at}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if s.cfg.User != nil {
		c.SysProcAttr.Credential = &syscall.Credential{Uid: s.cfg.User.UID, Gid: s.cfg.User.GID}
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC
	}
	source := &sticky{r: in}
	c.Stdin = source
	var out, complaints limited
	c.Stdout, c.Stderr = &out, &complaints
	err = c.Run()
	if bad := source.failure(); bad != nil && ctx.Err() == nil {
		return u, bad // the layer could not be read; what the child says about its beginning does not matter
	}
	if ctx.Err() != nil {
		return u, ctx.Err()
	}
	if jsonErr := json.Unmarshal(out.b, &u); jsonErr == nil {
		return u, nil // the pipe breaks if the child refuses a layer early
	}
	return u, fmt.Errorf("the unpacker failed: %w: %.300s", err, complaints.b)
}

// sticky remembers why reading failed.
type sticky struct {
	r   io.Reader
	mu  sync.Mutex
	err error
}

func (s *sticky) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
	}
	return n, err
}

func (s *sticky) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// limited keeps the beginning of a child's output.
type limited struct{ b []byte }

func (l *limited) Write(p []byte) (int, error) {
	l.b = append(l.b, p[:min(len(p), 64<<10-len(l.b))]...)
	return len(p), nil
}

type progressReader struct {
	r io.Reader
	f *fetch
}

func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	p.f.read.Add(int64(n))
	return n, err
}
