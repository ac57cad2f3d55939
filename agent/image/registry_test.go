//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/agent/image"
)

func TestPull(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	low := tarOf(t, dir("./"), dir("bin"), file("bin/hello", "one"), dir("gone"), file("gone/x", "x"), dir("tmp"),
		entry{name: "etc/link", kind: tar.TypeSymlink, link: "/bin/hello"},
		entry{name: "bin/su", kind: tar.TypeReg, mode: 0o6755, content: "su"},
		entry{name: "dev/null", kind: tar.TypeChar, mode: 0o666},
		entry{name: "bin/hard", kind: tar.TypeLink, link: "bin/hello"},
		entry{name: "closed/", kind: tar.TypeDir, mode: 0o500}, file("closed/in", "in"),
		entry{name: "sticky", kind: tar.TypeDir, mode: 0o1777})
	high := tarOf(t, file(".wh.gone", ""), dir("tmp"), file("tmp/.wh..wh..opq", ""), file("/abs", "abs"))
	i := get(t, s, h.push(t, "team/app:1", imageOf(t, zipped(t, low), high)))
	defer i.Release()
	if i.Config.WorkingDir != "/srv" || len(i.Layers) != 2 || !strings.HasPrefix(i.Digest, "sha256:") {
		t.Fatalf("the image is %+v", i)
	}
	at := func(n int, path string) string { return filepath.Join(s.LayersDir(), i.Layers[n], "t", path) }
	for path, want := range map[string]string{at(0, "bin/hello"): "one", at(0, "bin/hard"): "one", at(0, "closed/in"): "in", at(1, "abs"): "abs"} {
		if b, err := os.ReadFile(path); string(b) != want {
			t.Errorf("%s contains %q: %v", path, b, err)
		}
	}
	if to, err := os.Readlink(at(0, "etc/link")); to != "/bin/hello" {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	if st, err := os.Stat(at(0, "bin/su")); err != nil || st.Mode() != 0o755 {
		t.Errorf("the set-user-ID file has the mode %v: %v", st.Mode(), err)
	}
	if st, err := os.Stat(at(0, "closed")); err != nil || st.Mode().Perm() != 0o500 {
		t.Errorf("the closed directory: %v %v", st, err)
	}
	if st, err := os.Stat(at(0, "sticky")); err != nil || st.Mode() != os.ModeDir|os.ModeSticky|0o777 {
		t.Errorf("the sticky directory: %v %v", st, err)
	}
	if _, err := os.Lstat(at(0, "dev/null")); !os.IsNotExist(err) {
		t.Errorf("the device was created: %v", err)
	}
	var st syscall.Stat_t
	if err := syscall.Lstat(at(1, "gone"), &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFCHR || st.Rdev != 0 {
		t.Errorf("the whiteout is %+v: %v", st, err)
	}
	if os.Geteuid() == 0 && st.Uid != 54321 {
		t.Errorf("the layer belongs to user %d", st.Uid)
	}
	value := make([]byte, 8)
	if n, err := syscall.Getxattr(at(1, "tmp"), "user.overlay.opaque", value); err != nil || string(value[:n]) != "y" {
		t.Errorf("the directory is not opaque: %q %v", value[:max(n, 0)], err)
	}
}

// Eight seats want the same image of 30 layers at the same time.
func TestEachLayerOnce(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	var layers [][]byte
	for i := range 30 {
		layers = append(layers, zipped(t, tarOf(t, file(fmt.Sprintf("f%d", i), strings.Repeat("x", 1000*i)))))
	}
	ref := h.push(t, "big:1", imageOf(t, layers...))
	h.intercept(nil)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r, err := image.Parse(ref)
			if err != nil {
				t.Error(err)
				return
			}
			i, err := s.Get(context.Background(), image.Request{Reference: r, Tenant: "research"})
			if err != nil {
				t.Error(err)
				return
			}
			i.Release()
		})
	}
	wg.Wait()
	configs := 0
	for path, n := range h.blobs() {
		if n == 8 { // each seat reads the configuration
			configs++
		} else if n != 1 {
			t.Errorf("%s was fetched %d times", path, n)
		}
	}
	if configs != 1 || len(h.blobs()) != 31 {
		t.Errorf("%d blobs were fetched, %d of them eight times", len(h.blobs()), configs)
	}
	// With a known digest, the registry is not asked at all.
	req := request(t, ref)
	digest, err := s.Resolve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	h.intercept(func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(500); return true })
	req.Digest = digest
	i, err := s.Get(t.Context(), req)
	if err != nil || h.count("") > 0 {
		t.Fatalf("the image is in the store, but %d requests were sent: %v", h.count(""), err)
	}
	i.Release()
}

// The digest that the first rank has found counts, although the tag has moved.
func TestMovedTag(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	ref := h.push(t, "app:latest", imageOf(t, tarOf(t, file("v", "1"))))
	req := request(t, ref)
	first, err := s.Resolve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	h.push(t, "app:latest", imageOf(t, tarOf(t, file("v", "2"))))
	req.Digest = first
	i, err := s.Get(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer i.Release()
	if b, err := os.ReadFile(filepath.Join(s.LayersDir(), i.Layers[0], "t/v")); string(b) != "1" || i.Digest != first {
		t.Errorf("the image has version %q and digest %s: %v", b, i.Digest, err)
	}
}

// Files keep their times and the extended attributes of users. Other attributes could change how the image is mounted, or give rights.
func TestTimesAndAttributes(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	at := time.Unix(1_600_000_000, 0)
	attributes := map[string]string{"user.own": "value", "user.overlay.redirect": "/etc", "user.overlay.opaque": "y", "security.capability": "x", "trusted.overlay.opaque": "y"}
	i := get(t, s, h.push(t, "a:1", imageOf(t, tarOf(t,
		entry{name: "d", kind: tar.TypeDir, mode: 0o755, time: at, attributes: attributes},
		entry{name: "d/f", kind: tar.TypeReg, mode: 0o644, time: at.Add(time.Hour), content: "x", attributes: attributes}))))
	defer i.Release()
	for name, want := range map[string]struct {
		time       time.Time
		attributes string
	}{"d": {at, ""}, "d/f": {at.Add(time.Hour), "user.own\x00"}} {
		path := filepath.Join(s.LayersDir(), i.Layers[0], "t", name)
		list := make([]byte, 1000)
		n, err := syscall.Listxattr(path, list)
		if err != nil || string(list[:n]) != want.attributes {
			t.Errorf("%s has the attributes %q: %v", name, list[:max(n, 0)], err)
		}
		if st, err := os.Stat(path); err != nil || !st.ModTime().Equal(want.time) {
			t.Errorf("%s is of %v: %v", name, st.ModTime(), err)
		}
	}
}

func TestBadLayers(t *testing.T) {
	h := newHub(t)
	s := open(t, func(c *image.Config) { c.Limits = image.Limits{Files: 1000, Bytes: 8 << 20} })
	many := make([]entry, 0, 1001)
	for i := range 1001 {
		many = append(many, file(fmt.Sprintf("f%d", i), ""))
	}
	bomb := zipped(t, tarOf(t, file("zeros", strings.Repeat("\x00", 9<<20))))
	whole := zipped(t, tarOf(t, file("a", strings.Repeat("abcdefgh", 1000))))
	for name, c := range map[string]struct {
		layer []byte
		texts []string
	}{
		"dotdot":     {tarOf(t, file("a/../../etc/passwd", "x")), []string{`contains ".."`, "build it again"}},
		"hard":       {tarOf(t, entry{name: "x", kind: tar.TypeLink, link: "../../../etc/passwd"}), []string{`contains ".."`, "build it again"}},
		"hardabs":    {tarOf(t, entry{name: "x", kind: tar.TypeLink, link: "/etc/passwd"}), []string{"not a file of the layer", "build the image again"}},
		"hardout":    {tarOf(t, entry{name: "l", kind: tar.TypeSymlink, link: "/etc"}, entry{name: "x", kind: tar.TypeLink, link: "l/passwd"}), []string{"not a file of the layer"}},
		"abslink":    {tarOf(t, entry{name: "l", kind: tar.TypeSymlink, link: "/tmp"}, file("l/evil", "x")), []string{"link out of the layer", "build it again"}},
		"updir":      {tarOf(t, entry{name: "l", kind: tar.TypeSymlink, link: "../../.."}, file("l/evil", "x")), []string{"link out of the layer"}},
		"loop":       {tarOf(t, entry{name: "a", kind: tar.TypeSymlink, link: "b"}, entry{name: "b", kind: tar.TypeSymlink, link: "a"}, file("a/x", "x")), []string{"loop of links"}},
		"whiteout":   {tarOf(t, entry{name: "l", kind: tar.TypeSymlink, link: "/tmp"}, file("l/.wh.x", "")), []string{"link out of the layer"}},
		"files":      {tarOf(t, many...), []string{"more than 1000 files", "images.max_files"}},
		"bomb":       {bomb, []string{"more than 8 MiB", "images.max_mb"}},
		"records":    {zipped(t, bytes.Repeat(tarOf(t, dir("d"))[:512], 40<<10)), []string{"images.max_files"}},
		"truncated":  {whole[:len(whole)/2], []string{"not a valid tar archive", "build or push"}},
		"not gzip":   {append([]byte{0x1f, 0x8b}, "nonsense"...), []string{"not valid gzip", "build or push"}},
		"not a tar":  {bytes.Repeat([]byte("nonsense"), 1000), []string{"not a valid tar archive"}},
		"tail":       {append(tarOf(t, file("a", "x")), bytes.Repeat([]byte{1}, 17<<20)...), []string{"more than"}},
		"fileisdir":  {tarOf(t, file("a", "x"), file("a/b", "x")), []string{"not a directory"}},
		"nul length": {tarOf(t, file("x/"+strings.Repeat("n", 300), "x")), []string{"too long", "build the image with shorter names"}},
	} {
		t.Run(name, func(t *testing.T) {
			img := build(t, runtime.GOARCH, c.layer)
			fails(t, s, h.push(t, "bad/"+strings.ReplaceAll(name, " ", "-")+":1", img), "", c.texts...)
		})
	}
	for _, path := range []string{"/tmp/evil", "/evil"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}

func TestBadRegistry(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "app:1", imageOf(t, zipped(t, tarOf(t, file("a", strings.Repeat("abc", 1000))))))
	isLayer := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/blobs/") && r.Method == "GET" }
	isManifest := func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/manifests/") }
	status := func(n int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if isManifest(r) {
				w.WriteHeader(n)
			}
			return isManifest(r)
		}
	}
	layers := 0
	for name, c := range map[string]struct {
		before func(http.ResponseWriter, *http.Request) bool
		code   ares.Code
		texts  []string
	}{
		"401": {status(401), ares.Forbidden, []string{"no credentials", "docker --config DIRECTORY login", "research.json"}},
		"404": {status(404), ares.NotFound, []string{"has no image", "check its name and tag"}},
		"429": {status(429), ares.Exhausted, []string{"limits the number of requests", "try again later"}},
		"500": {status(500), ares.Unavailable, []string{"check that the node reaches the registry"}},
		"redirect to the metadata address": {func(w http.ResponseWriter, r *http.Request) bool {
			if isManifest(r) {
				http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
			}
			return isManifest(r)
		}, ares.Forbidden, []string{"use another registry"}},
		"redirect to a name of this machine": {func(w http.ResponseWriter, r *http.Request) bool {
			if isManifest(r) {
				http.Redirect(w, r, "http://localhost:1/", http.StatusFound)
			}
			return isManifest(r)
		}, ares.Forbidden, []string{"use another registry"}},
		"broken manifest": {func(w http.ResponseWriter, r *http.Request) bool {
			if isManifest(r) {
				w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
				_, _ = w.Write([]byte(`{"schemaVersion": 2, "config": 5}`))
			}
			return isManifest(r)
		}, ares.Invalid, []string{"is not valid: build and push the image again"}},
		"endless manifest": {func(w http.ResponseWriter, r *http.Request) bool {
			if !isManifest(r) {
				return false
			}
			w.Header().Set("Content-Type", string(types.OCIManifestSchema1))
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return true
				}
			}
		}, "", []string{"larger than"}},
		"endless layer": {func(w http.ResponseWriter, r *http.Request) bool {
			if !isLayer(r) {
				return false
			}
			if layers++; layers == 1 { // the configuration
				return false
			}
			w.(http.Flusher).Flush()
			for {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return true
				}
			}
		}, ares.Invalid, []string{"push the image again"}},
	} {
		t.Run(name, func(t *testing.T) {
			layers = 0
			h.intercept(c.before)
			fails(t, open(t, nil), ref, c.code, c.texts...)
		})
	}
}

func TestWrongDigest(t *testing.T) {
	h := newHub(t)
	good, evil := zipped(t, tarOf(t, file("a", "good"))), zipped(t, tarOf(t, file("a", "evil")))
	img := imageOf(t, good)
	m, err := img.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	layer := m.Layers[0].Digest.String()
	ref := h.push(t, "app:1", img)
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, layer) || r.Method != "GET" {
			return false
		}
		_, _ = w.Write(evil)
		return true
	})
	fails(t, open(t, nil), ref, ares.Invalid, "digest", "push the image again")

	// The configuration names another layer than the manifest.
	c, err := imageOf(t, tarOf(t, file("a", "other"))).ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := mutate.ConfigFile(img, c)
	if err != nil {
		t.Fatal(err)
	}
	h.intercept(nil)
	fails(t, open(t, nil), h.push(t, "app:2", wrong), ares.Invalid, "diff ID", "build the image again")
}

func TestOtherArchitecture(t *testing.T) {
	h, s := newHub(t), open(t, nil)
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	layer := tarOf(t, file("a", "x"))
	fails(t, s, h.push(t, "app:other", build(t, other, layer)), ares.Invalid, "is for linux/"+other, "--constraint")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: build(t, other, layer), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: other}}})
	both := mutate.AppendManifests(index,
		mutate.IndexAddendum{Add: imageOf(t, layer), Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	for tag, i := range map[string]v1.ImageIndex{"index": index, "both": both} {
		n, err := name.ParseReference(h.host + "/app:" + tag)
		if err == nil {
			err = remote.WriteIndex(n, i)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fails(t, s, h.host+"/app:index", ares.Invalid, "is for linux/"+other)
	i := get(t, s, h.host+"/app:both")
	defer i.Release()
	want, err := both.Digest()
	if err != nil || i.Digest != want.String() {
		t.Errorf("the digest is %s, want that of the index, which is the same on every node: %s (%v)", i.Digest, want, err)
	}
}

func TestCredentials(t *testing.T) {
	h := newHub(t)
	ref := h.push(t, "secret:1", imageOf(t, tarOf(t, file("a", "x"))))
	h.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "alice" && password == "pass:word" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	creds, now := t.TempDir(), &clock{time.Now()}
	s := open(t, func(c *image.Config) { c.Credentials, c.Now = creds, now.now })
	write := func(tenant, user, password string, mode os.FileMode) {
		t.Helper()
		b, _ := json.Marshal(map[string]any{"auths": map[string]any{h.host: map[string]string{"username": user, "password": password}}})
		if err := os.WriteFile(filepath.Join(creds, tenant+".json"), b, mode); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, s, ref, ares.Forbidden, "no credentials")
	write("research", "alice", "wrong", 0o600)
	fails(t, s, ref, ares.Forbidden, "rejects the node's credentials for tenant research")
	write("research", "alice", "pass:word", 0o600)
	i := get(t, s, ref)
	i.Release()

	// Another tenant gets nothing from the cache, although it knows the digest.
	other := request(t, ref)
	other.Tenant, other.Digest = "prod", i.Digest
	if _, err := s.Get(t.Context(), other); ares.CodeOf(err) != ares.Forbidden {
		t.Errorf("another tenant got the private image: %v", err)
	}
	// With credentials of its own, it fetches the layer itself.
	write("prod", "alice", "pass:word", 0o600)
	h.mu.Lock()
	h.asked = nil
	h.mu.Unlock()
	j, err := s.Get(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	j.Release()
	if len(h.blobs()) != 2 {
		t.Errorf("the other tenant fetched %v, want the configuration and the layer", h.blobs())
	}
	// After an hour, the registry is asked whether the tenant still has access.
	mine := request(t, ref)
	mine.Digest = i.Digest
	write("research", "alice", "wrong", 0o600)
	again, err := s.Get(t.Context(), mine)
	if err != nil {
		t.Fatal(err)
	}
	again.Release()
	now.at = now.at.Add(61 * time.Minute)
	if _, err := s.Get(t.Context(), mine); ares.CodeOf(err) != ares.Forbidden {
		t.Errorf("a tenant without access got the cached image: %v", err)
	}
	if err := os.Chmod(filepath.Join(creds, "research.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	fails(t, s, ref, ares.Unavailable, "chmod 600")
}
