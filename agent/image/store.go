//go:build linux

package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	ares "github.com/ares-scheduler/ares"
)

// These directories and files are in the store's directory. A layer is complete when it is in layersDir.
const (
	layersDir  = "layers" // <name of a layer>/{t,record}
	tmpDir     = "tmp"    // layers that are being unpacked
	recordsDir = "images" // one file for each image and tenant
	recordFile = "record"
)

// Tree is the directory with a layer's files, in the layer's directory.
const Tree = "t"

// grantTime is how long a tenant may use a private image in the cache after its own credentials have fetched the manifest.
const grantTime = time.Hour

// maxLayers is how many layers the kernel and the options of a mount allow.
const maxLayers = 127

// Owner is a user of the node.
type Owner struct{ UID, GID uint32 }

// Config configures a Store.
type Config struct {
	// Dir is the store's directory.
	Dir string
	// Credentials is the directory with the credentials of registries: TENANT.json, and default.json for all tenants. It may be "".
	Credentials string
	// User is the user that unpacks layers and owns them. It must be no user of a job. With nil, it is the user of this process.
	User *Owner
	// Limits restrict each layer, and all layers of an image together.
	Limits Limits
	// High and Low are percentages of the disk. If more than High is used, layers are removed until less than Low is.
	High, Low int
	// Now is the clock, time.Now except in tests.
	Now func() time.Time
	// Usage returns how much of the disk is used, in percent; see diskUsage.
	Usage func(dir string) (int, error)
}

// These are the defaults of a Config.
const (
	DefaultFiles = 2_000_000
	DefaultMB    = 100 << 10
	DefaultHigh  = 85
	DefaultLow   = 70
)

// A Store keeps the images of one node. Its methods may be called concurrently.
type Store struct {
	cfg       Config
	dir       string
	transport *guard
	slots     chan struct{} // limits the layers that are unpacked at the same time
	wg        sync.WaitGroup

	mu      sync.Mutex
	layers  map[string]*layerState // by name
	locks   map[string]int         // by name of a layer: the live seats and the pulls that use it
	fetches map[string]*fetch
	tenants map[string]chan struct{} // limits the layers of each tenant that are unpacked at the same time
}

// layerState is a layer on the disk.
type layerState struct {
	layerRecord
	used time.Time
}

// layerRecord is the file recordFile of a layer.
type layerRecord struct {
	DiffID string `json:"diff_id"`
	Bytes  int64  `json:"bytes"`
	Files  int64  `json:"files"`
	// Tenants are those that have fetched the layer; see the constant everybody.
	Tenants []string `json:"tenants"`
}

// Open opens the store, and removes what a killed agent has left half unpacked.
func Open(cfg Config) (*Store, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Usage == nil {
		cfg.Usage = diskUsage
	}
	if cfg.Limits == (Limits{}) {
		cfg.Limits = Limits{Files: DefaultFiles, Bytes: DefaultMB << 20}
	}
	if cfg.High == 0 {
		cfg.High, cfg.Low = DefaultHigh, DefaultLow
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, dir: dir, transport: newGuard(), slots: make(chan struct{}, max(2, min(4, runtime.NumCPU()))), layers: map[string]*layerState{}, locks: map[string]int{}, fetches: map[string]*fetch{}, tenants: map[string]chan struct{}{}}
	if err = os.RemoveAll(filepath.Join(dir, tmpDir)); err != nil {
		return nil, fmt.Errorf("open the store of images: %w", err)
	}
	for _, d := range []string{"", layersDir, tmpDir, recordsDir} {
		if err = os.MkdirAll(filepath.Join(dir, d), 0o711); err != nil {
			return nil, fmt.Errorf("open the store of images: %w", err)
		}
	}
	list, err := os.ReadDir(filepath.Join(dir, layersDir))
	if err != nil {
		return nil, fmt.Errorf("open the store of images: %w", err)
	}
	for _, e := range list {
		var r layerRecord
		path := filepath.Join(dir, layersDir, e.Name(), recordFile)
		b, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(b, &r)
		}
		st, bad := os.Stat(path)
		if err != nil || bad != nil || len(r.DiffID) < 64 || layerName(r.DiffID) != e.Name() {
			if err = os.RemoveAll(filepath.Join(dir, layersDir, e.Name())); err != nil {
				return nil, fmt.Errorf("remove a damaged layer: %w", err)
			}
			continue
		}
		s.layers[e.Name()] = &layerState{layerRecord: r, used: st.ModTime()}
	}
	return s, nil
}

// Close waits until no layer is being fetched.
func (s *Store) Close() {
	s.mu.Lock()
	for _, f := range s.fetches {
		f.cancel()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// LayersDir is the directory with the layers. The files of a layer are in Tree below the layer's name.
func (s *Store) LayersDir() string { return filepath.Join(s.dir, layersDir) }

// Request says which image is wanted, and by whom.
type Request struct {
	Reference Reference
	// Digest is the digest that the first rank of the job has found. With "", it is what the reference leads to now.
	Digest string
	Tenant string
	// User is the job's user. It must be able to read the image, if the image is a file of the node.
	User *Owner
	// Progress is told about the pull, and may be nil.
	Progress func(Progress)
}

// Image is an image whose layers are in the store. Until Release is called, they stay there.
type Image struct {
	Digest string
	// Layers are the names of the layers' directories in LayersDir, from the lowest to the highest. No name is there twice.
	Layers []string
	Config v1.Config

	release func()
}

// Release allows the store to remove the image's layers.
func (i *Image) Release() { i.release() }

// Resolve returns the digest to which a reference leads now.
func (s *Store) Resolve(ctx context.Context, req Request) (string, error) {
	f, err := s.find(ctx, &req)
	if err != nil {
		return "", err
	}
	f.close()
	return f.digest, nil
}

// Get makes sure that an image is in the store. It asks the registry for the manifest unless the tenant has fetched it within the last hour.
func (s *Store) Get(ctx context.Context, req Request) (*Image, error) {
	if i := s.cached(&req); i != nil {
		return i, nil
	}
	f, err := s.find(ctx, &req)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if err = s.check(&req, f); err != nil {
		return nil, err
	}
	r := &record{Reference: req.Reference.text, Digest: f.digest, Private: f.private, Tenant: req.Tenant, Config: f.config.Config, Pulled: s.cfg.Now()}
	r.Layers = f.names()
	for _, l := range f.layers {
		r.Size += l.size
	}
	unlock := s.Lock(r.Layers)
	if err = s.pull(ctx, &req, f); err == nil {
		err = s.noSpace(s.writeRecord(r))
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return s.use(r, unlock), nil
}

func (s *Store) use(r *record, unlock func()) *Image {
	now := s.cfg.Now()
	s.mu.Lock()
	for _, name := range r.Layers {
		s.layers[name].used = now
		// The time of the file survives a restart. If it cannot be set, the layer may be removed too early.
		_ = os.Chtimes(filepath.Join(s.dir, layersDir, name, recordFile), now, now)
	}
	s.mu.Unlock()
	return &Image{Digest: r.Digest, Layers: distinct(r.Layers), Config: r.Config, release: sync.OnceFunc(unlock)}
}

// distinct keeps the highest of equal layers, because the kernel refuses to mount a layer twice. The lower one hides and adds nothing that the
// higher one does not. Many tools give each step without files the same empty layer.
func distinct(layers []string) []string {
	var out []string
	for i, name := range layers {
		if !slices.Contains(layers[i+1:], name) {
			out = append(out, name)
		}
	}
	return out
}

// cached returns an image that is complete in the store and that the tenant may use without asking the registry.
func (s *Store) cached(req *Request) *Image {
	if req.Digest == "" || req.Reference.Kind != Registry {
		return nil // the tag may have moved, or the job's user may not read the file
	}
	records, err := s.records()
	if err != nil {
		return nil // the registry is asked
	}
	for _, r := range records {
		if r.Digest != req.Digest || r.Private && (r.Tenant != req.Tenant || s.cfg.Now().Sub(r.Pulled) > grantTime) || !sameRepository(r.Reference, req.Reference) {
			continue
		}
		unlock := s.Lock(r.Layers)
		s.mu.Lock()
		complete := !slices.ContainsFunc(r.Layers, func(name string) bool { return s.layers[name] == nil })
		s.mu.Unlock()
		if complete {
			return s.use(r, unlock)
		}
		unlock()
	}
	return nil
}

func sameRepository(a string, b Reference) bool {
	ref, err := Parse(a)
	return err == nil && ref.name != nil && ref.name.Context().Name() == b.name.Context().Name()
}

// The method `check` checks that this node can run an image, before its layers are fetched.
func (s *Store) check(req *Request, f *found) error {
	ref, c := req.Reference, f.config
	switch {
	case c.OS != "" && c.OS != "linux" || c.Architecture != "" && c.Architecture != runtime.GOARCH:
		return wrongPlatform(ref, c.OS+"/"+c.Architecture)
	case len(f.layers) != len(c.RootFS.DiffIDs):
		return ares.Errorf(ares.Invalid, "image %s has %d layers, but its configuration lists %d: build the image again", ref, len(f.layers), len(c.RootFS.DiffIDs))
	case len(f.layers) == 0:
		return ares.Errorf(ares.Invalid, "image %s has no layers, so it is no image that can run: check the reference", ref)
	case len(f.layers) > maxLayers:
		return ares.Errorf(ares.Invalid, "image %s has %d layers, more than %d: build it with fewer layers", ref, len(f.layers), maxLayers)
	}
	var total int64
	for i, l := range f.layers {
		if h := c.RootFS.DiffIDs[i]; h.Algorithm != "sha256" || len(h.Hex) != 2*sha256.Size || l.size < 0 {
			return ares.Errorf(ares.Invalid, "layer %d of image %s has the diff ID %q and %d bytes, which is not valid: build the image again", i+1, ref, h, l.size)
		}
		if total += l.size; total > s.cfg.Limits.Bytes {
			return ares.Errorf(ares.TooLarge, "image %s has more than %d MiB: use a smaller image, or raise the node's images.max_mb", ref, s.cfg.Limits.Bytes>>20)
		}
	}
	return nil
}

// rest returns what an image may still unpack to, beside those of its layers that are in the store.
func (s *Store) rest(names []string) Limits {
	rest := s.cfg.Limits
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range distinct(names) {
		if l := s.layers[name]; l != nil {
			rest.Bytes, rest.Files = rest.Bytes-l.Bytes, rest.Files-l.Files
		}
	}
	return rest
}

// checkTotal checks the layers of an image that are in the store.
func (s *Store) checkTotal(req *Request, names []string) error {
	if rest := s.rest(names); rest.Bytes < 0 || rest.Files < 0 {
		limits := s.cfg.Limits
		return ares.Errorf(ares.TooLarge, "image %s unpacks to %d MiB and %d files or more, and the node allows %d MiB and %d files: use a smaller image, or raise the node's images.max_mb and images.max_files",
			req.Reference, (limits.Bytes-rest.Bytes)>>20, limits.Files-rest.Files, limits.Bytes>>20, limits.Files)
	}
	return nil
}

// Lock keeps layers in the store until the returned function is called. A layer that is not there yet is kept once it is.
func (s *Store) Lock(names []string) (unlock func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.locks[name]++
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, name := range names {
			if s.locks[name]--; s.locks[name] == 0 {
				delete(s.locks, name)
			}
		}
	})
}

// record says what one tenant has pulled.
type record struct {
	Reference string    `json:"reference"`
	Digest    string    `json:"digest"`
	Tenant    string    `json:"tenant"`
	Private   bool      `json:"private,omitzero"`
	Layers    []string  `json:"layers"`
	Size      int64     `json:"size"` // of what was fetched
	Pulled    time.Time `json:"pulled"`
	Config    v1.Config `json:"config"`
}

func (r *record) file() string {
	sum := sha256.Sum256([]byte(r.Tenant + "\x00" + r.Reference + "\x00" + r.Digest))
	return hex.EncodeToString(sum[:16]) + ".json"
}

func (s *Store) writeRecord(r *record) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, recordsDir, r.file())
	// Two ranks of a job may write the same record at the same time.
	f, err := os.CreateTemp(filepath.Join(s.dir, tmpDir), "record")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (s *Store) records() ([]*record, error) {
	list, err := os.ReadDir(filepath.Join(s.dir, recordsDir))
	if err != nil {
		return nil, err
	}
	var all []*record
	for _, e := range list {
		b, err := os.ReadFile(filepath.Join(s.dir, recordsDir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		r := &record{}
		if err == nil {
			err = json.Unmarshal(b, r)
		}
		if err != nil || r.file() != e.Name() {
			_ = os.Remove(filepath.Join(s.dir, recordsDir, e.Name())) // damaged; the image is pulled again
			continue
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int {
		return strings.Compare(a.Reference+"\x00"+a.Tenant+"\x00"+a.Digest, b.Reference+"\x00"+b.Tenant+"\x00"+b.Digest)
	})
	return all, nil
}
