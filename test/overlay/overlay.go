// Package overlay builds Ares from sources that are changed only for the compiler (go build
// -overlay). The source files on disk do not change. Therefore a planted fault can never be
// committed, and two builds never disturb each other.
package overlay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Overlay is a set of replaced files. Paths are relative to the repository, or
// absolute for files of the toolchain and of other modules.
type Overlay struct {
	Root    string // of the repository
	dir     string // private: what the files are replaced by
	replace map[string]string
}

// New makes an overlay that stores its files in the directory `dir`. New creates that
// directory.
func New(root, dir string) (*Overlay, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	return &Overlay{Root: root, dir: dir, replace: map[string]string{}}, os.MkdirAll(dir, 0o755)
}

func (o *Overlay) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(o.Root, path)
}

// Read returns a file as the compiler will see it.
func (o *Overlay) Read(path string) ([]byte, error) {
	path = o.abs(path)
	if by, ok := o.replace[path]; ok {
		path = by
	}
	return os.ReadFile(path)
}

// Put replaces a file, or adds one.
func (o *Overlay) Put(path string, content []byte) error {
	path = o.abs(path)
	// All files are in one directory, so a number in each name distinguishes files
	// with the same name.
	to, ok := o.replace[path]
	if !ok || filepath.Dir(to) != o.dir {
		to = filepath.Join(o.dir, strconv.Itoa(len(o.replace))+"_"+filepath.Base(path))
	}
	o.replace[path] = to
	return os.WriteFile(to, content, 0o644)
}

// Edit replaces a text that must occur in the file exactly once. An edit that no longer
// applies is an error. Otherwise a build could silently lack the edit.
func (o *Overlay) Edit(path, old, with string) error {
	content, err := o.Read(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(content, []byte(old)); n != 1 {
		return fmt.Errorf("%s holds this text %d times, not once: the edit no longer fits the source\n%s", path, n, old)
	}
	return o.Put(path, bytes.Replace(content, []byte(old), []byte(with), 1))
}

// File writes the overlay in the format of the go command and returns its path.
func (o *Overlay) File() (string, error) {
	content, err := json.MarshalIndent(map[string]any{"Replace": o.replace}, "", "  ")
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(o.dir, " \t") {
		return "", fmt.Errorf("%s: a flag in GOFLAGS cannot hold a space", o.dir)
	}
	path := filepath.Join(o.dir, "overlay.json")
	return path, os.WriteFile(path, append(content, '\n'), 0o644)
}

// Go runs a command of the go tool with the overlay and returns its output. The
// overlay is also set in the environment. If a test builds a program, such as a
// supervisor, the program is then also built from the replaced sources.
func (o *Overlay) Go(ctx context.Context, env []string, args ...string) (string, error) {
	file, err := o.File()
	if err != nil {
		return "", err
	}
	flags, err := exec.CommandContext(ctx, "go", "env", "GOFLAGS").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOFLAGS: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.Root
	cmd.Env = append(append(os.Environ(), "RAPID_NOFAILFILE=1"), env...) // nothing is written into the source tree
	cmd.Env = append(cmd.Env, "GOFLAGS="+strings.TrimSpace(string(flags))+" -overlay="+file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// The constant `embedded` is the path of the supervisor that the binary embeds. `make build`
// puts the supervisor there.
const embedded = "agent/run/supervisor.bin"

// Build builds bin/ares from the replaced sources, as `make build` does. The
// binary is static, and its embedded supervisor is built from the same sources.
func (o *Overlay) Build(ctx context.Context, out string) error {
	supervisor := filepath.Join(o.dir, "ares-supervisor")
	build := func(args ...string) error {
		_, err := o.Go(ctx, []string{"CGO_ENABLED=0"}, append([]string{"build", "-p", "2", "-trimpath", "-ldflags", "-s -w"}, args...)...)
		return err
	}
	if err := build("-o", supervisor, "./cmd/ares-supervisor"); err != nil {
		return err
	}
	o.replace[o.abs(embedded)] = supervisor
	out, err := filepath.Abs(out)
	if err != nil {
		return err
	}
	return build("-tags", "embed_supervisor", "-o", out, "./cmd/ares")
}
