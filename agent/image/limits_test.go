//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

// A layer may have as many files as the node allows, and not one more. A record that creates nothing counts too.
func TestFilesLimit(t *testing.T) {
	const limit = 2000
	h := newHub(t)
	s := open(t, func(c *image.Config) { c.Limits = image.Limits{Files: limit, Bytes: 8 << 20} })
	for name, one := range map[string]func(i int) entry{
		"files":     func(i int) entry { return file(fmt.Sprint("f", i), "") },
		"same":      func(int) entry { return dir("d") },
		"whiteouts": func(int) entry { return file(".wh.x", "") },
		"devices":   func(i int) entry { return entry{name: fmt.Sprint("d", i), kind: tar.TypeChar} },
	} {
		entries := make([]entry, limit+1)
		for i := range entries {
			entries[i] = one(i)
		}
		get(t, s, h.push(t, name+":fits", imageOf(t, zipped(t, tarOf(t, entries[:limit]...))))).Release()
		fails(t, s, h.push(t, name+":more", imageOf(t, zipped(t, tarOf(t, entries...)))), "", "more than 2000 files", "images.max_files")
	}
}

// records is a layer with ten million records. The digest of what it unpacks to is never computed.
type records struct{ blob }

func (r records) DiffID() (v1.Hash, error) { return r.Digest() }

// A layer of ten million files is refused when it reaches the limit, and leaves nothing.
func TestTenMillionFiles(t *testing.T) {
	const limit, together, all = 20_000, 2048, 10_000_000
	member := zipped(t, bytes.Repeat(tarOf(t, dir("d"))[:512], together)) // gzip allows one after the other
	layer := records{bytes.Repeat(member, all/together+1)}
	img, err := mutate.Append(imageOf(t), mutate.Addendum{Layer: layer})
	if err != nil {
		t.Fatal(err)
	}
	h := newHub(t)
	s := open(t, func(c *image.Config) { c.Limits = image.Limits{Files: limit, Bytes: 64 << 20} })
	fails(t, s, h.push(t, "million:1", img), ares.Invalid, "more than 20000 files", "images.max_files")
	if list, err := os.ReadDir(s.LayersDir()); err != nil || len(list) > 0 {
		t.Errorf("the node has %d layers: %v", len(list), err)
	}
}

// The limits are those of the image: many layers, each within them, must not fill the disk together.
func TestLimitsOfAllLayers(t *testing.T) {
	h := newHub(t)
	for name, c := range map[string]struct {
		layer func(n int) []byte
		want  string
	}{
		"files": {func(n int) []byte {
			var entries []entry
			for i := range 400 {
				entries = append(entries, file(fmt.Sprintf("%d/%d", n, i), ""))
			}
			return zipped(t, tarOf(t, entries...))
		}, "images.max_files"},
		"bytes": {func(n int) []byte { return zipped(t, tarOf(t, file(fmt.Sprint(n), strings.Repeat("\x00", 3<<20)))) }, "images.max_mb"},
	} {
		s := open(t, func(c *image.Config) { c.Limits = image.Limits{Files: 1000, Bytes: 8 << 20} })
		var layers [][]byte
		for n := range 40 {
			layers = append(layers, c.layer(n))
		}
		get(t, s, h.push(t, name+":fits", imageOf(t, layers[:2]...))).Release()
		if i, err := s.Get(t.Context(), request(t, h.push(t, name+":all", imageOf(t, layers...)))); err == nil {
			i.Release()
			t.Errorf("%s: the image was accepted", name)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		s.Close() // it waits for layers that are being unpacked
		// Each of the few that are unpacked at the same time may be the one too many.
		if list, err := os.ReadDir(s.LayersDir()); err != nil || len(list) > 8 {
			t.Errorf("%s: %d of 40 layers were unpacked: %v", name, len(list), err)
		}
	}
}

// An image may have a layer more than once, and many do. The kernel mounts no layer twice.
func TestLayerTwice(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	empty, low, high := tarOf(t, dir("d")), tarOf(t, file("d/f", "low")), tarOf(t, file("d/f", "high"))
	i := get(t, s, h.push(t, "twice:1", imageOf(t, empty, low, empty, high, low, empty)))
	defer i.Release()
	var names []string
	for _, l := range [][]byte{high, low, empty} {
		id, err := blob(l).DiffID()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, id.Hex[:24])
	}
	if !slices.Equal(i.Layers, names) {
		t.Errorf("the layers are %q, want %q", i.Layers, names)
	}
}

// One tenant whose registry sends almost nothing does not keep others from their images.
func TestSlowRegistryOfOneTenant(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	var layers [][]byte
	for i := range 20 {
		layers = append(layers, tarOf(t, file(fmt.Sprint(i), strings.Repeat("x", 1<<16))))
	}
	slow, quick := h.push(t, "slow:1", imageOf(t, layers...)), h.push(t, "quick:1", imageOf(t, tarOf(t, file("f", "x")), tarOf(t, file("g", "x"))))
	asked, release := make(chan struct{}, len(layers)+1), make(chan struct{})
	blobs := 0
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/slow/blobs/") {
			return false
		}
		h.mu.Lock()
		blobs++
		first := blobs == 1
		h.mu.Unlock()
		if first { // the configuration
			return false
		}
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-release
		return true
	})
	var pulling sync.WaitGroup
	pulling.Go(func() {
		r, _ := image.Parse(slow)
		if i, err := s.Get(t.Context(), image.Request{Reference: r, Tenant: "slow"}); err == nil {
			i.Release()
			t.Error("the slow image was pulled")
		}
	})
	<-asked
	get(t, s, quick).Release()
	close(release)
	pulling.Wait()
}

// CVE-2021-32760: the mode of an entry of a layer was given to a file of the machine, to which another entry had led.
func TestModesThroughLinks(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.Mkdir(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	i := get(t, s, h.push(t, "modes:1", imageOf(t, tarOf(t,
		entry{name: "d", kind: tar.TypeDir, mode: 0o777}, entry{name: "d/e", kind: tar.TypeDir, mode: 0o777}, entry{name: "d", kind: tar.TypeSymlink, link: outside},
		entry{name: "f", kind: tar.TypeDir, mode: 0o777}, file("f", "x")))))
	defer i.Release()
	if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory outside has the mode %v: %v", st.Mode(), err)
	}
	if st, err := os.Stat(filepath.Join(s.LayersDir(), i.Layers[0], "t/f")); err != nil || st.Mode() != 0o644 {
		t.Errorf("the file that replaces a directory has the mode %v: %v", st.Mode(), err)
	}
}
