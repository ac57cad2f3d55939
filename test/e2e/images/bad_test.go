package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// add adds a layer with one empty file or directory to an image.
func (w *world) add(img v1.Image, header tar.Header) v1.Image {
	w.Helper()
	var b bytes.Buffer
	out := tar.NewWriter(&b)
	header.Mode = 0o755
	if err := out.WriteHeader(&header); err != nil {
		w.Fatal(err)
	}
	if err := out.Close(); err != nil {
		w.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err == nil {
		img, err = mutate.AppendLayers(img, layer)
	}
	if err != nil {
		w.Fatal(err)
	}
	return img
}

// configured changes the configuration of an image.
func (w *world) configured(img v1.Image, change func(*v1.Config)) v1.Image {
	w.Helper()
	c, err := img.ConfigFile()
	if err == nil {
		c = c.DeepCopy()
		change(&c.Config)
		img, err = mutate.ConfigFile(img, c)
	}
	if err != nil {
		w.Fatal(err)
	}
	return img
}

// A user with bad images does not take a node out of service, whether or not the node knows what is wrong with an image.
func TestBadImagesAndTheNode(t *testing.T) {
	t.Parallel()
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Fatal("the tests of images need runc: run `make needs`, or install it")
	}
	runtime := filepath.Join(t.TempDir(), "runtime")
	const refuses = "if [ -e bundle/rootfs/poison ]; then echo 'level=error msg=\"it is odd\"' >> runtime.log; exit 1; fi"
	if err = os.WriteFile(runtime, []byte("#!/bin/sh\n"+refuses+"\nexec "+runc+" \"$@\"\n"), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	w := start(t, "  runtime: "+runtime+"\n")
	good := busybox(t, "one")
	for name, c := range map[string]struct {
		img  v1.Image
		want string
	}{
		"passwd": {w.add(good, tar.Header{Name: "etc/passwd", Typeflag: tar.TypeDir}), "the image's /etc/passwd is not a file"},
		"pipe":   {w.add(good, tar.Header{Name: "etc/group", Typeflag: tar.TypeFifo}), "the image's /etc/group is not a file"},
		"empty":  {w.configured(good, func(c *v1.Config) { c.Entrypoint, c.Cmd = []string{""}, nil }), "begins with an empty word"},
		"nul":    {w.configured(good, func(c *v1.Config) { c.Entrypoint = []string{"sh\x00"} }), "contains a NUL byte"},
		"where":  {w.configured(good, func(c *v1.Config) { c.WorkingDir = "/srv\x00" }), "contains a NUL byte"},
		"long":   {w.configured(good, func(c *v1.Config) { c.Cmd = make([]string, 300_000) }), "more than 4 MiB"},
	} {
		id := w.submit(&apipb.JobSpec{Name: name, Image: w.push("bad/"+name+":1", c.img), Retry: &apipb.RetryPolicy{MaxRetries: new(int32)}})
		if job := w.ended(id); job.GetState() != "failed" || !strings.Contains(job.GetReason(), c.want) {
			t.Errorf("%s: %s %s", name, job.GetState(), job.GetReason())
		}
	}
	odd := w.push("bad/odd:1", w.add(good, tar.Header{Name: "poison", Typeflag: tar.TypeReg}))
	for i := range 4 {
		id := w.submit(&apipb.JobSpec{Name: fmt.Sprint("odd-", i), Image: odd})
		live.Await(t, cluster.Patience, "the odd image to fail", func() (bool, string) {
			job, err := w.admin.Job(t.Context(), id)
			return err == nil && job.GetAttempt() > 0 && strings.Contains(job.GetReason(), "it is odd"), job.GetState() + " " + job.GetReason()
		})
		if _, err := w.admin.Cancel(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := w.admin.Node(t.Context(), "boxes"); err != nil || n.GetState() != string(ares.Online) {
		t.Errorf("the node is %s: %v", n.GetState(), err)
	}
	// CVE-2022-23648: a volume of an image was a path that led out of it, and the files there were copied into the container.
	secret := filepath.Join(t.TempDir(), "secret")
	if err = os.WriteFile(secret, []byte("hidden"), 0o644); err != nil { //nolint:gosec // the machine's users may read it
		t.Fatal(err)
	}
	volumes := w.configured(good, func(c *v1.Config) {
		c.Volumes = map[string]struct{}{"/../../../../../../../.." + filepath.Dir(secret): {}, filepath.Dir(secret): {}}
		c.Entrypoint, c.Cmd = []string{"/bin/sh", "-c"}, []string{"cat " + secret + " ../../../../../../../.." + secret + "; echo end"}
	})
	id := w.submit(&apipb.JobSpec{Name: "volumes", Image: w.push("bad/volumes:1", volumes)})
	if job := w.ended(id); job.GetState() != "succeeded" || strings.Contains(w.output(id), "hidden") {
		t.Errorf("volumes: %s %s: %s", job.GetState(), job.GetReason(), w.output(id))
	}
	// CVE-2021-41091: users of the machine could enter the directories of images, and run set-user-ID programs there.
	if st, err := os.Stat(filepath.Join(w.Path("boxes"), "agent")); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("the directory above the images has the mode %v: %v", st.Mode(), err)
	}
}

// Eight jobs want the same image of 30 layers at once: the node fetches and unpacks each layer once.
func TestLayersOnce(t *testing.T) {
	t.Parallel()
	w := start(t)
	img := busybox(t, "one")
	for i := range 29 {
		img = w.add(img, tar.Header{Name: fmt.Sprint("layer-", i), Typeflag: tar.TypeReg})
	}
	ref := w.push("team/layers:1", img)
	var ids []string
	for i := range 8 {
		ids = append(ids, w.submit(&apipb.JobSpec{Name: fmt.Sprint("layers-", i), Image: ref, CpuMilli: 100, MemoryMb: 64, Args: []string{"ls / | grep -c layer"}}))
	}
	for _, id := range ids {
		if job := w.ended(id); job.GetState() != "succeeded" || w.output(id) != "29\n" {
			t.Errorf("%s %s: %q", job.GetState(), job.GetReason(), w.output(id))
		}
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range layers {
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if n := w.fetched["/v2/team/layers/blobs/"+d.String()]; n != 1 {
			t.Errorf("layer %s was fetched %d times", d, n)
		}
	}
	if list, err := os.ReadDir(filepath.Join(w.Path("boxes"), "agent/images/layers")); err != nil || len(list) != 30 {
		t.Errorf("the node has %d layers: %v", len(list), err)
	}
}
