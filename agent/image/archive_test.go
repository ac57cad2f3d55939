//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

// ociDir writes an image as an OCI layout, and returns the directory.
func ociDir(t *testing.T, img v1.Image) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "oci")
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// tarDir writes a directory as a tar file.
func tarDir(t *testing.T, dir string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "image.tar", b.Bytes())
}

func writeFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestArchives(t *testing.T) {
	layer := tarOf(t, file("a", "content"))
	img := imageOf(t, zipped(t, layer), tarOf(t, file("b", "more")))
	dir := ociDir(t, img)
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	list, _ := json.Marshal([]map[string]any{{"Config": "c.json", "RepoTags": []string{"app:1"}, "Layers": []string{"1/layer.tar", "2/layer.tar"}}})
	docker := tarOf(t, file("manifest.json", string(list)), file("c.json", string(config)), file("0/layer.tar", string(layer)),
		entry{name: "1/layer.tar", kind: tar.TypeSymlink, link: "../0/layer.tar"}, file("2/layer.tar", string(tarOf(t, file("b", "more")))))
	for _, ref := range []string{"dir:" + dir, "oci-archive:" + tarDir(t, dir), "docker-archive:" + writeFile(t, "docker.tar", docker)} {
		t.Run(strings.SplitN(ref, ":", 2)[0], func(t *testing.T) {
			s := open(t, nil)
			i := get(t, s, ref)
			defer i.Release()
			for n, want := range map[string]string{"a": "content", "b": "more"} {
				at := map[string]int{"a": 0, "b": 1}[n]
				if b, err := os.ReadFile(filepath.Join(s.LayersDir(), i.Layers[at], "t", n)); string(b) != want {
					t.Errorf("file %s contains %q: %v", n, b, err)
				}
			}
			if i.Config.WorkingDir != "/srv" {
				t.Errorf("the configuration is %+v", i.Config)
			}
			req := request(t, ref)
			req.Digest = "sha256:" + strings.Repeat("0", 64)
			if _, err := s.Get(t.Context(), req); ares.CodeOf(err) != ares.Invalid || !strings.Contains(err.Error(), "copy the same file to all nodes") {
				t.Errorf("another file on another node: %v", err)
			}
		})
	}
}

func TestBadArchives(t *testing.T) {
	s := open(t, nil)
	dir := ociDir(t, imageOf(t, zipped(t, tarOf(t, file("a", "content")))))
	var blobs []string
	if err := filepath.WalkDir(filepath.Join(dir, "blobs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			blobs = append(blobs, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	fails(t, s, "dir:/does/not/exist", ares.NotFound, "no file /does/not/exist/index.json", "skopeo copy")
	fails(t, s, "oci-archive:/does/not/exist.tar", ares.NotFound, "copy it to the node")
	fails(t, s, "docker-archive:"+tarDir(t, dir), ares.Invalid, "no manifest.json", "try oci-archive:")
	fails(t, s, "oci-archive:"+writeFile(t, "x", []byte("nonsense")), ares.Invalid, "write it again")
	fails(t, s, "oci-archive:"+writeFile(t, "x.tgz", zipped(t, tarOf(t, file("a", "x")))), ares.Invalid, "is compressed")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, s, "oci-archive:"+fifo, ares.Invalid, "not a regular file")
	for _, path := range blobs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(b[:len(b)-1:len(b)-1], b[len(b)-1]^1), 0o644); err != nil {
			t.Fatal(err)
		}
		fails(t, s, "dir:"+dir, ares.Invalid, "")
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	get(t, s, "dir:"+dir).Release()
	if os.Geteuid() != 0 {
		return
	}
	// A tenant's image must not be a file that only root can read.
	path := tarDir(t, dir)
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	req := request(t, "oci-archive:"+path)
	req.User = &image.Owner{UID: 54322, GID: 54322}
	if _, err := s.Get(t.Context(), req); ares.CodeOf(err) != ares.Forbidden || !strings.Contains(err.Error(), "chmod a+r") {
		t.Errorf("the job's user may not read the archive, but: %v", err)
	}
}

func TestReferences(t *testing.T) {
	for text, want := range map[string]image.Kind{
		"busybox": image.Registry, "docker.io/library/busybox:1": image.Registry, "docker://ghcr.io/a/b:1": image.Registry,
		"ghcr.io/a/b@sha256:" + strings.Repeat("a", 64): image.Registry, "oci-archive:/a/b.tar": image.OCIArchive, "docker-archive:/a": image.DockerArchive, "dir:/a": image.Directory,
	} {
		if r, err := image.Parse(text); err != nil || r.Kind != want || r.String() != text {
			t.Errorf("%s is %+v: %v", text, r, err)
		}
	}
	for _, text := range []string{"", "UPPER/x:1", "a b", "oci-archive:relative.tar", "dir:/a/../b", "http://x/y:1", "x@sha256:12"} {
		if _, err := image.Parse(text); ares.CodeOf(err) != ares.Invalid {
			t.Errorf("%q was accepted: %v", text, err)
		}
	}
}

// When the disk is too full, the least recently used layers go, and those of live seats stay.
func TestCollect(t *testing.T) {
	h, now, used := newHub(t), &clock{time.Now().Add(-time.Hour)}, 80
	var s *image.Store
	usage := func(string) (int, error) {
		entries, err := os.ReadDir(s.LayersDir())
		return used + 2*len(entries), err // each layer takes 2 %
	}
	s = open(t, func(c *image.Config) { c.Usage, c.Now = usage, now.now })
	var images []*image.Image
	for _, n := range []string{"a", "b", "c", "d"} {
		now.at = now.at.Add(time.Minute)
		images = append(images, get(t, s, h.push(t, n+":1", imageOf(t, tarOf(t, file(n, n)), tarOf(t, file(n+"2", n))))))
	}
	used = 76 // 92 % with 8 layers
	if n, err := s.Collect(); n != 0 || err != nil {
		t.Fatalf("%d locked layers were removed: %v", n, err)
	}
	for _, i := range images[1:] {
		i.Release()
	}
	now.at = now.at.Add(time.Minute)
	get(t, s, h.host+"/b:1").Release() // b is now the last used one
	used = 64                          // 80 %: not yet too full
	if n, err := s.Collect(); n != 0 || err != nil {
		t.Fatalf("%d layers were removed at 80 %%: %v", n, err)
	}
	used = 70
	if n, err := s.Collect(); n != 6 || err != nil { // down to 70 % means everything that is not locked
		t.Fatalf("%d layers were removed: %v", n, err)
	}
	list, err := s.List("research")
	if err != nil || len(list) != 1 || !list[0].InUse || !strings.HasSuffix(list[0].Reference, "/a:1") {
		t.Fatalf("the list is %+v: %v", list, err)
	}
	images[0].Release()
	// A removed image is fetched again.
	get(t, s, h.host+"/b:1").Release()
}

func TestCollectOldestFirst(t *testing.T) {
	h, now := newHub(t), &clock{time.Now()}
	var s *image.Store
	s = open(t, func(c *image.Config) {
		c.Now = now.now
		c.Usage = func(string) (int, error) {
			entries, err := os.ReadDir(s.LayersDir())
			return 56 + 10*len(entries), err
		}
	})
	for _, n := range []string{"a", "b", "c"} {
		now.at = now.at.Add(time.Minute)
		get(t, s, h.push(t, n+":1", imageOf(t, tarOf(t, file(n, n))))).Release()
	}
	now.at = now.at.Add(time.Minute)
	get(t, s, h.host+"/a:1").Release()
	if n, err := s.Collect(); n != 2 || err != nil { // 86 % becomes 66 %
		t.Fatalf("%d layers were removed: %v", n, err)
	}
	if list, err := s.List(""); err != nil || len(list) != 1 || !strings.HasSuffix(list[0].Reference, "/a:1") {
		t.Fatalf("left is %+v: %v", list, err)
	}
}

func TestRemove(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	shared := tarOf(t, file("shared", "x"))
	one := get(t, s, h.push(t, "one:1", imageOf(t, shared, tarOf(t, file("one", "x")))))
	two := get(t, s, h.push(t, "two:1", imageOf(t, shared, tarOf(t, file("two", "x")))))
	one.Release()
	two.Release()
	if _, err := s.Remove("prod", h.host+"/one:1"); ares.CodeOf(err) != ares.NotFound || !strings.Contains(err.Error(), "ares image list") {
		t.Errorf("another tenant removed the image: %v", err)
	}
	if _, err := s.Remove("research", one.Digest[:20]); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(s.LayersDir())
	if err != nil || len(entries) != 2 {
		t.Errorf("%d layers are left, want the two of the other image: %v", len(entries), err)
	}
}

// A store that is opened again has the complete layers, and nothing of what a killed agent was doing.
func TestReopen(t *testing.T) {
	h := newHub(t)
	var cfg image.Config
	s := open(t, func(c *image.Config) { cfg = *c })
	cfg.User = nil
	i := get(t, s, h.push(t, "a:1", imageOf(t, tarOf(t, file("a", "a")), tarOf(t, file("b", "b")))))
	i.Release()
	s.Close()
	half := filepath.Join(cfg.Dir, "tmp", "half", "t")
	damaged := filepath.Join(cfg.Dir, "layers", i.Layers[1], "record")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := image.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := os.Stat(half); err == nil {
		t.Error("half of a layer is left")
	}
	h.intercept(nil)
	get(t, again, h.host+"/a:1").Release()
	if len(h.blobs()) != 2 {
		t.Errorf("fetched again: %v, want the configuration and the damaged layer", h.blobs())
	}
}

// A pull ends with its last caller, also while the registry does not answer.
func TestCancel(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	ref := h.push(t, "a:1", imageOf(t, zipped(t, tarOf(t, file("a", strings.Repeat("abc", 10_000))))))
	asked := make(chan struct{}, 10)
	gets := 0
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") || r.Method != "GET" {
			return false
		}
		if gets++; gets == 1 {
			return false
		}
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		asked <- struct{}{}
		<-r.Context().Done()
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := s.Get(ctx, request(t, ref)); err == nil {
		t.Fatal("the pull was not cancelled")
	}
	s.Close()
	if entries, err := os.ReadDir(filepath.Join(s.LayersDir(), "../tmp")); err != nil || len(entries) > 0 {
		t.Errorf("%d directories are left: %v", len(entries), err)
	}
}

// TestFullDisk unpacks a layer into a file system that is too small for it.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("small", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no mounts here: " + err.Error())
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	h := newHub(t)
	s := open(t, func(c *image.Config) { c.Dir = filepath.Join(small, "images") })
	fails(t, s, h.push(t, "a:1", imageOf(t, zipped(t, tarOf(t, file("a", strings.Repeat("abc", 1<<20)))))), "", "disk of the node's images is full", "ares image remove")
	get(t, s, h.push(t, "b:1", imageOf(t, tarOf(t, file("b", "b"))))).Release()
}
