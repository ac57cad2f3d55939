package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/ares-scheduler/ares/apipb"
	"github.com/ares-scheduler/ares/client"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/test/cluster"
	"github.com/ares-scheduler/ares/test/live"
)

// busybox builds an image with a shell, in which the file /srv/version has the given content.
func busybox(t *testing.T, version string) v1.Image {
	t.Helper()
	program, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal("the tests of images need busybox: run `make needs`, or install it")
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content string) {
		t.Helper()
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, string(content))
	for _, name := range []string{"sh", "cat", "echo", "sleep", "id", "ls", "grep"} {
		add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, "")
	}
	add(tar.Header{Name: "srv/version", Typeflag: tar.TypeReg, Mode: 0o644}, version)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	c.Config = v1.Config{Env: []string{"PATH=/bin", "GREETING=hello"}, Entrypoint: []string{"/bin/sh", "-c"}, Cmd: []string{`echo "$GREETING $PWD $(cat version)"`}, WorkingDir: "/srv"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	return img
}

type world struct {
	*testing.T
	*cluster.Cluster
	admin  *client.Client
	host   string
	shared string // a directory that jobs may mount read-only

	mu      sync.Mutex
	fetched map[string]int // how often each blob was fetched
}

// The method `count` counts the blobs that a registry is asked for.
func (w *world) count(inner http.Handler) http.HandlerFunc {
	return func(out http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
			w.mu.Lock()
			w.fetched[r.URL.Path]++
			w.mu.Unlock()
		}
		inner.ServeHTTP(out, r)
	}
}

// start starts a registry, a server and a node that runs images. The settings are lines of its configuration of images.
func start(t *testing.T, settings ...string) *world {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only an agent that is root runs images")
	}
	if _, err := exec.LookPath("runc"); err != nil {
		t.Fatal("the tests of images need runc: run `make needs`, or install it")
	}
	w := &world{T: t, fetched: map[string]int{}}
	hub := httptest.NewServer(w.count(registry.New(registry.Logger(log.New(io.Discard, "", 0)))))
	t.Cleanup(hub.Close)
	c := cluster.Start(t, cluster.Servers(1))
	w.Cluster, w.admin, w.host = c, c.Client(c.Servers[0]), strings.TrimPrefix(hub.URL, "http://")
	var err error
	if w.shared, err = os.MkdirTemp("", "ares-shared-"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(w.shared) })
	config := filepath.Join(t.TempDir(), "agent.yaml")
	for path, content := range map[string]string{config: "images:\n  mounts: [\"" + w.shared + ":ro\"]\n" + strings.Join(settings, ""), filepath.Join(w.shared, "file"): "shared\n"} {
		if err = os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err = os.Chmod(w.shared, 0o755); err != nil { //nolint:gosec // the job's user reads it
		t.Fatal(err)
	}
	c.StartAgentWith("boxes", []string{"--config", config, "--isolation", "tenant", "--token-file", filepath.Join(c.Servers[0].Dir, server.NodeTokenFile)}, c.Servers...)
	c.AwaitOnline("boxes")
	n, err := w.admin.Node(t.Context(), "boxes")
	if err != nil || !n.GetImages() {
		t.Fatalf("the node runs no images: %q (%v)", n.GetNoImages(), err)
	}
	return w
}

func (w *world) push(ref string, img v1.Image) string {
	w.Helper()
	n, err := name.ParseReference(w.host + "/" + ref)
	if err == nil {
		err = remote.Write(n, img)
	}
	if err != nil {
		w.Fatal(err)
	}
	return n.String()
}

func (w *world) submit(spec *apipb.JobSpec) string {
	w.Helper()
	got, err := w.admin.Submit(w.Context(), spec)
	if err != nil {
		w.Fatal(err)
	}
	return got.GetJobId()
}

// The method `await` waits until a job has one of the states.
func (w *world) await(id string, states ...string) (job *apipb.Job) {
	w.Helper()
	live.Await(w.T, cluster.Patience, id+" to be "+strings.Join(states, " or "), func() (bool, string) {
		var err error
		if job, err = w.admin.Job(w.Context(), id); err != nil {
			return false, err.Error()
		}
		for _, s := range states {
			if job.GetState() == s {
				return true, ""
			}
		}
		return false, job.GetState() + ": " + job.GetReason()
	})
	return job
}

func (w *world) ended(id string) *apipb.Job {
	w.Helper()
	return w.await(id, "succeeded", "failed", "lost", "cancelled")
}

func (w *world) output(id string) string {
	w.Helper()
	b, err := exec.Command(w.Ares, "--data-dir", w.Servers[0].Dir, "job", "logs", id).Output()
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

func TestImages(t *testing.T) {
	t.Parallel()
	w := start(t)
	ref := w.push("team/app:1", busybox(t, "one"))
	for _, c := range []struct {
		name string
		spec *apipb.JobSpec
		end  string
		want string
	}{
		{"entrypoint", &apipb.JobSpec{}, "succeeded", "hello /srv one\n"},
		{"args", &apipb.JobSpec{Args: []string{"echo args; exit 4"}}, "failed", "args\n"},
		{"command", &apipb.JobSpec{Command: []string{"echo"}, Args: []string{"$GREETING"}}, "succeeded", "$GREETING\n"},
		{"mount", &apipb.JobSpec{Mounts: mounts(w.shared, true), Args: []string{"cat /shared/file; echo > /shared/x || echo closed"}}, "succeeded", "shared\n/bin/sh: can't create /shared/x: Read-only file system\nclosed\n"},
		{"directory", &apipb.JobSpec{WorkingDir: "/bin", Environment: map[string]string{"GREETING": "hi"}, Args: []string{`echo "$GREETING $PWD $ARES_RANK"`}}, "succeeded", "hi /bin 0\n"},
	} {
		c.spec.Name, c.spec.Image, c.spec.Retry = c.name, ref, &apipb.RetryPolicy{MaxRetries: new(int32)}
		id := w.submit(c.spec)
		job := w.ended(id)
		if got := w.output(id); c.end == "failed" && job.GetReason() != "exit code 4" || got != c.want || job.GetState() != c.end || !strings.HasPrefix(job.GetImageDigest(), "sha256:") {
			t.Errorf("%s: %q, digest %q, %s %s", c.name, got, job.GetImageDigest(), job.GetState(), job.GetReason())
		}
	}
	// The server stores the output of the jobs, which the log of the agent's test container must not keep it from.
	live.Await(t, cluster.Patience, "the output to be stored", func() (bool, string) {
		left, err := os.ReadDir(filepath.Join(w.Path("boxes"), "agent", "seats", "logs"))
		return err == nil && len(left) == 0, fmt.Sprint(left, err)
	})
	// The administrator of the node sees, pulls and removes images.
	local := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(w.Ares, append([]string{"--data-dir", w.Path("boxes"), "image"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ares image %q: %v: %s", args, err, out)
		}
		return string(out)
	}
	if list := local("list"); !strings.Contains(list, ref) || !strings.Contains(list, "default") {
		t.Errorf("ares image list: %s", list)
	}
	other := w.push("team/other:1", busybox(t, "other"))
	if digest := local("pull", "--for", "research", other); !strings.Contains(digest, "sha256:") {
		t.Errorf("ares image pull: %s", digest)
	}
	if list := local("list", "--of", "research", "-o", "json"); !strings.Contains(list, other) || strings.Contains(list, ref) {
		t.Errorf("ares image list --of research: %s", list)
	}
	local("remove", ref)
	if list := local("list"); strings.Contains(list, ref) || !strings.Contains(list, other) {
		t.Errorf("after ares image remove: %s", list)
	}
	for want, list := range map[string][]*apipb.Mount{"read-only: use --mount": mounts(w.shared, false), "allow a directory above it in images.mounts": mounts("/etc", true)} {
		job := w.ended(w.submit(&apipb.JobSpec{Name: "refused", Image: other, Mounts: list, Retry: &apipb.RetryPolicy{MaxRetries: new(int32)}}))
		if job.GetState() != "failed" || !strings.Contains(job.GetReason(), want) {
			t.Errorf("mounts %v: %s %s", list, job.GetState(), job.GetReason())
		}
	}
	for reference, want := range map[string]string{
		w.host + "/team/missing:1": "has no image", "oci-archive:/does/not/exist.tar": "copy it to the node", "UPPER CASE": "is not a reference",
	} {
		job := w.ended(w.submit(&apipb.JobSpec{Name: "bad", Image: reference, Command: []string{"true"}, Retry: &apipb.RetryPolicy{MaxRetries: new(int32)}}))
		if job.GetState() != "failed" || !strings.Contains(job.GetReason(), want) {
			t.Errorf("%s: %s %s", reference, job.GetState(), job.GetReason())
		}
	}
}

func mounts(source string, readOnly bool) []*apipb.Mount {
	return []*apipb.Mount{{Source: source, Target: "/shared", ReadOnly: readOnly}}
}

// The tag moves between two attempts of a job, and the second one uses the image of the first.
func TestDigestIsFixed(t *testing.T) {
	t.Parallel()
	w := start(t)
	ref := w.push("team/app:latest", busybox(t, "one"))
	id := w.submit(&apipb.JobSpec{
		Name: "twice", Image: ref, Args: []string{`cat /srv/version; echo; sleep 1000`}, GraceSeconds: new(int32),
	})
	first := w.await(id, "running")
	live.Await(t, cluster.Patience, "the first attempt to print", func() (bool, string) { out := w.output(id); return strings.Contains(out, "one"), out })
	w.push("team/app:latest", busybox(t, "two"))
	w.Agents[0].Kill()
	if pids := w.Agents[0].Children(); len(pids) > 0 {
		t.Logf("children of the killed agent: %v", pids)
	}
	// A restarted agent takes the container over, with its layers.
	w.Agents[0].Start()
	w.AwaitOnline("boxes")
	if job := w.await(id, "running"); job.GetAttempt() != first.GetAttempt() {
		t.Fatalf("the restarted agent has not adopted the job: attempt %d", job.GetAttempt())
	}
	if _, err := w.admin.Drain(t.Context(), "boxes", "test", false); err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "the drained job to wait", func() (bool, string) {
		job, err := w.admin.Job(t.Context(), id)
		return err == nil && job.GetState() != "running", job.GetState()
	})
	if _, err := w.admin.Uncordon(t.Context(), "boxes"); err != nil {
		t.Fatal(err)
	}
	live.Await(t, cluster.Patience, "the second attempt", func() (bool, string) {
		job, err := w.admin.Job(t.Context(), id)
		return err == nil && job.GetState() == "running" && job.GetAttempt() > first.GetAttempt(), job.GetState() + " " + job.GetReason()
	})
	live.Await(t, cluster.Patience, "the second attempt to print", func() (bool, string) { out := w.output(id); return out == "one\n", out })
	if job := w.await(id, "running"); job.GetImageDigest() != first.GetImageDigest() {
		t.Errorf("the digest has changed from %s to %s", first.GetImageDigest(), job.GetImageDigest())
	}
	if _, err := w.admin.Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.ended(id)
}
