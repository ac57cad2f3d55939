//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/klauspost/compress/zstd"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

// A whiteout hides one file of the same directory. Its name can be anything, also a path that leads elsewhere.
func TestBadWhiteouts(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	for i, name := range []string{".wh.", ".wh..", ".wh...", "d/.wh.", "d/.wh..", "d/.wh...", "d/e/.wh..."} {
		layer := tarOf(t, dir("d"), dir("d/e"), file("d/e/kept", "x"), file(name, ""))
		fails(t, s, h.push(t, fmt.Sprintf("white%d:1", i), imageOf(t, layer)), "", "the whiteout names no file", "build it again")
	}
	kept := get(t, s, h.push(t, "kept:1", imageOf(t, tarOf(t, dir("d"), file("d/kept", "x"), file("d/.wh..wh.plnk", ""), file("d/.wh....", "")))))
	defer kept.Release()
	if b, err := os.ReadFile(filepath.Join(s.LayersDir(), kept.Layers[0], "t/d/kept")); string(b) != "x" {
		t.Errorf("the file beside the whiteouts contains %q: %v", b, err)
	}
}

// The limits hold for each way in which a layer can be larger than it looks.
func TestBombs(t *testing.T) {
	h := newHub(t)
	s := open(t, func(c *image.Config) { c.Limits = image.Limits{Files: 500, Bytes: 8 << 20} })
	zeros := tarOf(t, file("zeros", strings.Repeat("\x00", 9<<20)))
	var small bytes.Buffer
	w, err := zstd.NewWriter(&small)
	if err == nil {
		_, err = w.Write(zeros)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var parts, links []entry
	for i := range 9 {
		parts = append(parts, file(fmt.Sprint("part", i), strings.Repeat("x", 1<<20)))
	}
	for i := range 501 {
		links = append(links, entry{name: fmt.Sprint("link", i), kind: tar.TypeSymlink, link: "x"})
	}
	const size, count = "images.max_mb", "images.max_files"
	for name, c := range map[string]struct {
		layer []byte
		want  string
	}{
		"zstd": {small.Bytes(), size}, "gzip": {zipped(t, zeros), size}, "twice": {zipped(t, zipped(t, zeros)), "not a valid tar archive"},
		"many-parts": {zipped(t, tarOf(t, parts...)), size},
		"links":      {zipped(t, tarOf(t, links...)), count},
		"deep":       {zipped(t, tarOf(t, file(strings.Repeat("d/", 600)+"f", "x"))), count},
		"long-names": {zipped(t, bytes.Repeat(tarOf(t, file(strings.Repeat("n", 200)+"/"+strings.Repeat("m", 200), ""))[:1536], 600)), count},
		"whiteouts":  {zipped(t, bytes.Repeat(tarOf(t, file(".wh.x", ""))[:512], 600)), count},
	} {
		t.Run(name, func(t *testing.T) {
			fails(t, s, h.push(t, "bomb/"+name+":1", build(t, runtime.GOARCH, c.layer)), "", c.want)
		})
	}
	if entries, err := os.ReadDir(filepath.Join(s.LayersDir(), "../tmp")); err != nil || len(entries) > 0 {
		t.Errorf("%d directories are left: %v", len(entries), err)
	}
}

// An image whose parts do not fit each other is refused before a layer is fetched.
func TestBadImages(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	layers := make([][]byte, 128)
	for i := range layers {
		layers[i] = tarOf(t, file(fmt.Sprint(i), "x"))
	}
	img := imageOf(t, layers[0], layers[1])
	changed := func(change func(c *v1.ConfigFile)) v1.Image {
		t.Helper()
		c, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		c = c.DeepCopy()
		change(c)
		out, err := mutate.ConfigFile(img, c)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, c := range map[string]struct {
		img  v1.Image
		want string
	}{
		"too-many-layers": {imageOf(t, layers...), "has 128 layers, more than 127: build it with fewer layers"},
		"no-layers":       {imageOf(t), "check the reference"},
		"fewer-ids":       {changed(func(c *v1.ConfigFile) { c.RootFS.DiffIDs = c.RootFS.DiffIDs[:1] }), "build the image again"},
		"more-ids":        {changed(func(c *v1.ConfigFile) { c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, c.RootFS.DiffIDs[0]) }), "build the image again"},
		"other-kind":      {changed(func(c *v1.ConfigFile) { c.RootFS.DiffIDs[1].Algorithm = "md5" }), "build the image again"},
	} {
		t.Run(name, func(t *testing.T) { fails(t, s, h.push(t, "bad/"+name+":1", c.img), ares.Invalid, c.want) })
	}
}
