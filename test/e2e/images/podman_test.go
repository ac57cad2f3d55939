package images

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/ares-scheduler/ares/apipb"
)

// sample is an image with a command of its own, or a command of the job.
type sample struct {
	name   string
	config v1.Config
	layers [][]tar.Header // above the layer with the program; a regular file has its own name as content
	job    *apipb.JobSpec // command, args, environment and working directory; nil for none
}

// This time is that of all files.
var madeAt = time.Unix(1_700_000_000, 0)

func dir(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }
func file(name string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644}
}
func symlink(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to, Mode: 0o777}
}
func hardLink(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeLink, Linkname: to, Mode: 0o644}
}
func with(h tar.Header, change func(*tar.Header)) tar.Header { change(&h); return h }
func mode(h tar.Header, mode int64) tar.Header               { h.Mode = mode; return h }

// samples are images in which runtimes have differed. Not here: a file twice in one layer, which podman refuses, and a whiteout in a
// directory that no lower layer has, whose name overlayfs lists, but not podman without overlayfs.
func samples() []sample {
	run := v1.Config{Entrypoint: []string{"/probe"}}
	config := func(change func(*v1.Config)) v1.Config { c := run; change(&c); return c }
	layers := func(list ...[]tar.Header) [][]tar.Header { return list }
	env := func(vars ...string) v1.Config { return config(func(c *v1.Config) { c.Env = vars }) }
	w := dir("w")
	return []sample{
		{"entrypoint", run, nil, nil},
		{"cmd", v1.Config{Cmd: []string{"/probe", "a"}}, nil, nil},
		{"entrypoint and cmd", config(func(c *v1.Config) { c.Cmd = []string{"a", "b c", ""} }), nil, nil},
		{"args instead of cmd", config(func(c *v1.Config) { c.Cmd = []string{"a", "b"} }), nil, &apipb.JobSpec{Args: []string{"x", "y z"}}},
		{"args without entrypoint", v1.Config{Cmd: []string{"/missing"}}, nil, &apipb.JobSpec{Args: []string{"/probe", "x"}}},
		{"command instead of entrypoint", config(func(c *v1.Config) { c.Entrypoint, c.Cmd = []string{"/missing"}, []string{"a"} }), nil, &apipb.JobSpec{Command: []string{"/probe"}}},
		{"command and args", config(func(c *v1.Config) { c.Cmd = []string{"a"} }), nil, &apipb.JobSpec{Command: []string{"/probe", "1"}, Args: []string{"2"}}},
		{"environment", env("A=1", "B=two words", "C="), nil, nil},
		{"environment with signs", env("A=b=c", "LINE=a\nb", "QUOTE='\"$X"), nil, nil},
		{"environment of the job", env("A=1", "B=2"), nil, &apipb.JobSpec{Environment: map[string]string{"B": "3", "D": ""}}},
		{"PATH of the image", config(func(c *v1.Config) { c.Entrypoint, c.Env = []string{"tool"}, []string{"PATH=/opt/bin:/bin"} }), layers([]tar.Header{symlink("opt/bin/tool", "/probe")}), nil},
		{"program in the default PATH", v1.Config{Cmd: []string{"tool"}}, layers([]tar.Header{symlink("usr/local/bin/tool", "/probe")}), nil},
		{"directory", config(func(c *v1.Config) { c.WorkingDir = "/w/sub" }), layers([]tar.Header{w, dir("w/sub")}), nil},
		{"directory behind a link", config(func(c *v1.Config) { c.WorkingDir = "/link" }), layers([]tar.Header{w, dir("w/sub"), symlink("link", "w/sub")}), nil},
		{"directory of the job", config(func(c *v1.Config) { c.WorkingDir = "/w" }), layers([]tar.Header{w, dir("w/sub")}), &apipb.JobSpec{WorkingDir: "/w/sub"}},
		{"program below the directory", v1.Config{WorkingDir: "/w", Cmd: []string{"./tool"}}, layers([]tar.Header{w, symlink("w/tool", "../probe")}), nil},
		{"volume", config(func(c *v1.Config) { c.Volumes = map[string]struct{}{"/w/data": {}} }), layers([]tar.Header{w, dir("w/data"), file("w/data/a")}), nil},
		{"exit 0", run, nil, &apipb.JobSpec{Args: []string{"exit=0"}}},
		{"exit 3", run, nil, &apipb.JobSpec{Args: []string{"exit=3"}}},
		{"exit 255", run, nil, &apipb.JobSpec{Args: []string{"exit=255"}}},
		{"signal to the first process", run, nil, &apipb.JobSpec{Args: []string{"signal=9"}}},
		{"missing command", v1.Config{Cmd: []string{"/missing"}}, nil, nil},
		{"missing command in PATH", v1.Config{Cmd: []string{"missing"}}, nil, nil},
		{"missing shell", v1.Config{Cmd: []string{"/bin/sh", "-c", "true"}}, nil, nil},
		{"command that is not executable", v1.Config{Cmd: []string{"/plain"}}, layers([]tar.Header{file("plain")}), nil},
		{"command that is a directory", v1.Config{Cmd: []string{"/w"}}, layers([]tar.Header{w}), nil},
		{"linked command", v1.Config{Cmd: []string{"/a"}}, layers([]tar.Header{symlink("a", "b/c"), symlink("b", "w"), w, symlink("w/c", "/probe")}), nil},
		{"user", config(func(c *v1.Config) { c.User = "1000:1000" }), nil, nil},
		{"user without a name", config(func(c *v1.Config) { c.User = "nobody-here" }), nil, nil},
		{"whiteout of a file", run, layers([]tar.Header{w, file("w/a"), file("w/b")}, []tar.Header{file("w/.wh.a")}), nil},
		{"whiteout of a directory", run, layers([]tar.Header{w, dir("w/d"), file("w/d/a"), file("w/b")}, []tar.Header{file("w/.wh.d")}), nil},
		{"whiteout and a new file", run, layers([]tar.Header{w, dir("w/d"), file("w/d/a")}, []tar.Header{file("w/.wh.d")}, []tar.Header{dir("w/d"), file("w/d/new")}), nil},
		{"opaque directory", run, layers([]tar.Header{w, dir("w/d"), file("w/d/a")}, []tar.Header{dir("w/d"), file("w/d/.wh..wh..opq"), file("w/d/b")}), nil},
		{"opaque directory at the end", run, layers([]tar.Header{w, dir("w/d"), file("w/d/a")}, []tar.Header{dir("w/d"), file("w/d/b"), file("w/d/.wh..wh..opq")}), nil},
		{"hard links", run, layers([]tar.Header{w, file("w/a"), hardLink("w/b", "w/a"), hardLink("w/c", "/w/b")}), nil},
		{"links to nowhere", run, layers([]tar.Header{w, symlink("w/a", "../../../.."), symlink("w/b", "b"), symlink("w/c", "/none")}), nil},
		{"extended attribute", run, layers([]tar.Header{w, with(file("w/a"), func(h *tar.Header) { h.PAXRecords = map[string]string{"SCHILY.xattr.user.test": "value"} })}), nil},
		{"modes and owners", run, layers([]tar.Header{w, mode(file("w/a"), 0o600), mode(file("w/b"), 0o777), mode(dir("w/c"), 0o1777), mode(dir("w/d"), 0o700), with(file("w/e"), func(h *tar.Header) { h.Uid, h.Gid = 1000, 70_000 })}), nil},
		{"file becomes a directory", run, layers([]tar.Header{w, file("w/a")}, []tar.Header{dir("w/a"), file("w/a/b")}), nil},
		{"directory becomes a file", run, layers([]tar.Header{w, dir("w/a"), file("w/a/b")}, []tar.Header{file("w/a")}), nil},
		{"directory becomes a link", run, layers([]tar.Header{w, dir("w/a"), file("w/a/b"), dir("w/c")}, []tar.Header{symlink("w/a", "c")}), nil},
		{"mode of a lower directory", run, layers([]tar.Header{w, dir("w/a"), file("w/a/b")}, []tar.Header{mode(dir("w/a"), 0o711)}), nil},
		{"long names", run, layers([]tar.Header{w, file("w/" + strings.Repeat("ä", 120)), symlink("w/l", strings.Repeat("x/", 200))}), nil},
		{"empty layer", run, layers([]tar.Header{}, []tar.Header{w}), nil},
		{"file without its directory", run, layers([]tar.Header{file("w/x/y/z")}), nil},
		asRoot("root", config(func(c *v1.Config) { c.User = "1000:1000" }), nil, "whoami"),
		asRoot("root writes to the image", run, layers([]tar.Header{dir("etc"), mode(file("etc/shadow"), 0o640), w, mode(file("w/a"), 0o600)}), "write=/etc/new", "append=/etc/shadow", "append=/w/a", "write=/w/b", "write=/top"),
		asRoot("root removes and renames", run, layers([]tar.Header{w, dir("w/d"), file("w/d/a"), file("w/b")}), "remove=/w/d/a", "remove=/w/d", "rename=/w/b:/w/c"),
		asRoot("root enters closed directories", run, layers([]tar.Header{w, mode(dir("w/d"), 0), mode(file("w/d/a"), 0), mode(file("w/b"), 0)}), "append=/w/d/a", "chmod=/w/b:644"),
		asRoot("root owns files", run, layers([]tar.Header{w, with(file("w/a"), func(h *tar.Header) { h.Uid, h.Gid = 1000, 1000 })}), "chown=/w/a:0", "chmod=/w/a:4755", "chown=/w/a:0"),
		asRoot("root makes a set-user-ID file", run, layers([]tar.Header{w}), "write=/w/b", "chmod=/w/b:4755", "chown=/w/b:0", "whoami"),
		asRoot("root changes to root", run, nil, "setgroups=0", "setgid=0", "setuid=0", "whoami"),
		asRoot("root without the machine's rights", run, layers([]tar.Header{w}), "mknod=/w/disk", "mount=/w", "proc=/proc/sys/kernel/core_pattern"),
		asRoot("like a package", run, layers([]tar.Header{dir("var"), dir("var/lib"), dir("var/lib/pkg"), file("var/lib/pkg/status"), dir("usr"), dir("usr/bin"), file("usr/bin/tool")}),
			"write=/var/lib/pkg/status.new", "chown=/var/lib/pkg/status.new:0", "rename=/var/lib/pkg/status.new:/var/lib/pkg/status", "write=/usr/bin/tool.new", "chmod=/usr/bin/tool.new:755",
			"rename=/usr/bin/tool.new:/usr/bin/tool", "link=/usr/bin/tool:/usr/bin/other", "remove=/usr/bin/other", "mkdir=/opt/pkg", "write=/opt/pkg/x"),
		asRoot("an entrypoint that is root", v1.Config{Entrypoint: []string{"/probe", "mkdir=/run/service", "chmod=/run/service:700", "write=/run/service/pid", "setuid=0"}, Cmd: []string{"exit=5"}}, nil),
	}
}

// asRoot is a sample that is root in its image. Without words, the image's own command is used.
func asRoot(name string, config v1.Config, layers [][]tar.Header, words ...string) sample {
	return sample{name, config, layers, &apipb.JobSpec{ContainerRoot: true, Args: words}}
}

// build writes the image of a sample into a file that Ares and podman can read.
func (s *sample) build(t *testing.T, program []byte, path string) {
	t.Helper()
	base := []tar.Header{mode(file("probe"), 0o755)}
	img := empty.Image
	for i, list := range append([][]tar.Header{base}, s.layers...) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range list {
			content := []byte(nil)
			if h.Typeflag == tar.TypeReg {
				content = []byte(h.Name)
				if i == 0 {
					content = program
				}
			}
			h.Size, h.ModTime = int64(len(content)), madeAt
			err := w.WriteHeader(&h)
			if err == nil {
				_, err = w.Write(content)
			}
			if err != nil {
				t.Fatal(s.name, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
		if err == nil {
			img, err = mutate.AppendLayers(img, layer)
		}
		if err != nil {
			t.Fatal(s.name, err)
		}
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture, c.Config = "linux", runtime.GOARCH, s.config
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("localhost/sample:1")
	if err == nil {
		err = tarball.WriteToFile(path, tag, img)
	}
	if err == nil {
		err = os.Chmod(path, 0o644) //nolint:gosec // the job's user reads it
	}
	if err != nil {
		t.Fatal(err)
	}
}

// outcome is what a program printed, in lines, and its exit code.
type outcome struct {
	lines []string
	code  int
}

// These are the exit codes of podman for a command that cannot be executed and one that does not exist.
const (
	cannotExecute = 126
	notFound      = 127
)

// ownVariables are set by Ares or by podman, as docs/guide/containers.md says.
var ownVariables = regexp.MustCompile(`^env "(ARES_\w*|HOME|USER|LOGNAME|TMPDIR|RANK|WORLD_SIZE|MASTER_\w+|CUDA_\w+|NVIDIA_VISIBLE_DEVICES|HOSTNAME|TERM|container)=`)

// owners are the UID and the GID of a file. In Ares, a user without rights owns the files of all images.
var owners = regexp.MustCompile(`^(file .* \d+) \d+:\d+`)

func newOutcome(out string, code int) outcome {
	o := outcome{code: code}
	for line := range strings.Lines(out) {
		if !ownVariables.MatchString(line) && !strings.HasPrefix(line, "id ") {
			o.lines = append(o.lines, owners.ReplaceAllString(strings.TrimSuffix(line, "\n"), "$1"))
		}
	}
	if code == cannotExecute || code == notFound { // the messages differ
		o.lines = nil
	}
	return o
}

// ares runs a sample as a job. The result `user` is what podman gets as its --user, so that both have the same rights.
func (w *world) ares(s *sample, path string) (o outcome, user string) {
	w.Helper()
	spec := &apipb.JobSpec{}
	if s.job != nil {
		spec = s.job
	}
	spec.Name, spec.Image, spec.Retry = "sample", "docker-archive:"+path, &apipb.RetryPolicy{MaxRetries: new(int32)}
	id := w.submit(spec)
	job, code := w.ended(id), 0
	switch reason := job.GetReason(); {
	case job.GetState() == "succeeded":
	case strings.Contains(reason, "command not found"):
		code = notFound
	case strings.Contains(reason, "is a directory"), strings.Contains(reason, "permission denied"):
		code = cannotExecute
	default:
		if _, err := fmt.Sscanf(reason, "exit code %d", &code); err != nil {
			w.Errorf("%s: %s %s", s.name, job.GetState(), reason)
		}
	}
	if code == cannotExecute || code == notFound {
		return newOutcome("", code), "1000:1000"
	}
	out := w.output(id)
	var uid, gid int
	if _, err := fmt.Sscanf(out, "id %d %d", &uid, &gid); err != nil {
		return newOutcome(out, code), "1000:1000"
	}
	return newOutcome(out, code), fmt.Sprintf("%d:%d", uid, gid)
}

// podman runs a sample without a network of its own. Everything it stores is below a directory, and its cgroups have the name of that.
func (w *world) podman(s *sample, path, storage, user string) outcome {
	w.Helper()
	// Each image has a store of its own, because podman reuses layers by what they contain.
	store, err := os.MkdirTemp(storage, "")
	if err != nil {
		w.Fatal(err)
	}
	args := []string{
		"--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs", "--runtime", "runc",
		"--cgroup-manager", "cgroupfs", "--events-backend", "none",
		"run", "--rm", "--quiet", "--network", "host", "--cgroups", "no-conmon", "--cgroup-parent", "/" + filepath.Base(storage),
		"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096", "--security-opt", "seccomp=unconfined", "--log-driver", "none", "--user", user,
	}
	var words []string
	if j := s.job; j != nil {
		if len(j.Command) > 0 {
			b, err := json.Marshal(j.Command)
			if err != nil {
				w.Fatal(err)
			}
			args = append(args, "--entrypoint", string(b))
		}
		for k, v := range j.Environment {
			args = append(args, "--env", k+"="+v)
		}
		if j.WorkingDir != "" {
			args = append(args, "--workdir", j.WorkingDir)
		}
		words = j.Args
	}
	c := exec.CommandContext(w.Context(), "podman", append(append(args, "docker-archive:"+path), words...)...)
	c.Env = append(os.Environ(), "TMPDIR="+storage)
	var complaints bytes.Buffer
	c.Stderr = &complaints
	out, err := c.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() == 125) {
		w.Fatalf("podman cannot run %s: %v: %s", s.name, err, &complaints)
	}
	return newOutcome(string(out), c.ProcessState.ExitCode())
}

// TestLikePodman runs images with Ares and with podman, and compares what their programs see and how they end. The differences that
// docs/guide/containers.md lists are left out: the user, HOME and the variables of both.
func TestLikePodman(t *testing.T) {
	if _, err := exec.LookPath("podman"); err != nil {
		t.Fatal("this test needs podman: run `make needs`, or install it")
	}
	w := start(t)
	program := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	storage, err := os.MkdirTemp("", "ares-podman-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = os.RemoveAll(storage)
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			dirs, _ := filepath.Glob(pattern + filepath.Base(storage))
			for _, dir := range dirs {
				_ = os.Remove(dir)
			}
		}
	})
	list := samples()
	for i := range list {
		s := &list[i]
		path := filepath.Join(w.shared, fmt.Sprintf("sample-%d.tar", i))
		s.build(t, content, path)
		got, user := w.ares(s, path)
		want := w.podman(s, path, storage, user)
		if got.code != want.code || !slices.Equal(got.lines, want.lines) {
			t.Errorf("%s: with Ares exit code %d and\n%s\nwith podman exit code %d and\n%s",
				s.name, got.code, strings.Join(got.lines, "\n"), want.code, strings.Join(want.lines, "\n"))
		}
	}
	t.Logf("compared %d images", len(list))
}
