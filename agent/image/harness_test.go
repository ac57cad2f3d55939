//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

// A hub is a registry in this process, with handlers before it that a test may set.
type hub struct {
	host string
	url  string

	mu     sync.Mutex
	before func(w http.ResponseWriter, r *http.Request) bool // true if it has answered
	asked  []string
}

func newHub(t *testing.T) *hub {
	t.Helper()
	h := &hub{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked = append(h.asked, r.Method+" "+r.URL.Path)
		before := h.before
		h.mu.Unlock()
		if before == nil || !before(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(srv.Close)
	h.url, h.host = srv.URL, strings.TrimPrefix(srv.URL, "http://")
	return h
}

func (h *hub) intercept(before func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.asked = before, nil
}

// The method `blobs` returns how often each layer was asked for.
func (h *hub) blobs() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := map[string]int{}
	for _, a := range h.asked {
		if strings.HasPrefix(a, "GET ") && strings.Contains(a, "/blobs/") {
			n[a]++
		}
	}
	return n
}

func (h *hub) count(text string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(slices.Collect(func(yield func(string) bool) {
		for _, a := range h.asked {
			if strings.Contains(a, text) && !yield(a) {
				return
			}
		}
	}))
}

func (h *hub) push(t *testing.T, repo string, img v1.Image) string {
	t.Helper()
	ref := h.host + "/" + repo
	n, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Write(n, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// An entry is one record of a layer.
type entry struct {
	name, link, content string
	kind                byte
	mode                int64
	time                time.Time
	attributes          map[string]string // extended ones
}

func dir(name string) entry { return entry{name: name, kind: tar.TypeDir, mode: 0o755} }
func file(name, content string) entry {
	return entry{name: name, kind: tar.TypeReg, mode: 0o644, content: content}
}

func tarOf(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, Size: int64(len(e.content)), Devmajor: 1, Devminor: 3, ModTime: e.time}
		for name, value := range e.attributes {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+name] = value
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A blob is a layer with exactly these bytes.
type blob []byte

func (b blob) Digest() (v1.Hash, error) {
	h, _, err := v1.SHA256(bytes.NewReader(b))
	return h, err
}

func (b blob) DiffID() (v1.Hash, error) {
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
		if plain, err := io.ReadAll(z); err == nil {
			return blob(plain).Digest()
		}
	}
	return b.Digest()
}

func (b blob) Compressed() (io.ReadCloser, error)   { return io.NopCloser(bytes.NewReader(b)), nil }
func (b blob) Uncompressed() (io.ReadCloser, error) { return nil, errors.New("not used") }
func (b blob) Size() (int64, error)                 { return int64(len(b)), nil }
func (b blob) MediaType() (types.MediaType, error)  { return types.OCILayer, nil }

// imageOf builds an image with one layer for each argument.
func imageOf(t *testing.T, layers ...[]byte) v1.Image {
	t.Helper()
	return build(t, runtime.GOARCH, layers...)
}

func build(t *testing.T, arch string, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	for _, l := range layers {
		var err error
		if img, err = mutate.Append(img, mutate.Addendum{Layer: blob(l)}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", arch
	c.Config = v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"/bin/hello"}, WorkingDir: "/srv"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func open(t *testing.T, change func(*image.Config)) *image.Store {
	t.Helper()
	cfg := image.Config{Dir: filepath.Join(t.TempDir(), "images"), Usage: func(string) (int, error) { return 10, nil }}
	if os.Geteuid() == 0 {
		cfg.User = &image.Owner{UID: 54321, GID: 54321}
	}
	if change != nil {
		change(&cfg)
	}
	s, err := image.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func request(t *testing.T, ref string) image.Request {
	t.Helper()
	r, err := image.Parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	return image.Request{Reference: r, Tenant: "research"}
}

func get(t *testing.T, s *image.Store, ref string) *image.Image {
	t.Helper()
	i, err := s.Get(t.Context(), request(t, ref))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// fails requires that an image is refused with an error that contains each of the texts.
func fails(t *testing.T, s *image.Store, ref string, code ares.Code, texts ...string) {
	t.Helper()
	i, err := s.Get(t.Context(), request(t, ref))
	if err == nil {
		i.Release()
		t.Fatalf("image %s was accepted", ref)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error %q does not contain %q", err, text)
		}
	}
	if code != "" && ares.CodeOf(err) != code {
		t.Errorf("the error %q has the code %s, want %s", err, ares.CodeOf(err), code)
	}
	entries, _ := os.ReadDir(filepath.Join(s.LayersDir(), "../tmp"))
	if len(entries) > 0 {
		t.Errorf("after the error, %d directories are left", len(entries))
	}
}
