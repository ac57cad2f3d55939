package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A program is a compiled test binary of one package.
type program struct {
	root, dir, path string
	env             []string
}

// compile builds the test binary of a package into the scratch directory.
func compile(ctx context.Context, root, dir, scratch string, env []string) (*program, error) {
	path := programPath(scratch, dir)
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, ".")
	build.Dir = filepath.Join(root, dir)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s: %w\n%s", dir, err, out)
	}
	return &program{root: root, dir: dir, path: path, env: env}, nil
}

// programPath is where the test binary of a package lies in a directory of compiled ones.
func programPath(directory, dir string) string {
	return filepath.Join(directory, strings.ReplaceAll(dir, "/", ".")+".test")
}

// versionFile is the file beside compiled benchmarks that names their commit.
const versionFile = "commit"

// compileAll compiles the packages of the benchmarks, and notes their commit, for a machine that has neither Go nor git.
func compileAll(ctx context.Context, root, directory string, selected []benchmark) error {
	directory, err := filepath.Abs(directory)
	if err != nil {
		return err
	}
	if err = os.MkdirAll(directory, 0o755); err != nil {
		return err
	}
	id, err := commit(ctx, root)
	if err != nil {
		return err
	}
	if err = os.WriteFile(filepath.Join(directory, versionFile), []byte(id+"\n"), 0o644); err != nil {
		return err
	}
	done := map[string]bool{}
	for _, b := range selected {
		if !done[b.dir] {
			fmt.Println("compile", b.dir)
			if _, err = obtain(ctx, root, b.dir, directory); err != nil {
				return err
			}
		}
		done[b.dir] = true
	}
	return nil
}

// versionOf names the commit that is measured: that of the checkout, or of the benchmarks that were compiled before.
func versionOf(ctx context.Context, root, compiled string) (string, error) {
	if compiled == "" {
		return commit(ctx, root)
	}
	id, err := os.ReadFile(filepath.Join(compiled, versionFile))
	if err != nil {
		return "", fmt.Errorf("-compiled wants a directory that -compile wrote: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// A finished run of a test binary.
type finished struct {
	output string
	err    error
	wall   time.Duration
	cpu    time.Duration // with the processes that the binary started and waited for
}

// This method runs the benchmarks that match a pattern. A copy of the output goes to the writer.
func (p *program) bench(ctx context.Context, pattern string, args []string, limit time.Duration, copyTo io.Writer) finished {
	cmd := exec.CommandContext(ctx, p.path, append([]string{
		"-test.run=^$", "-test.v", "-test.bench=" + pattern, "-test.benchtime=1x", "-test.timeout=" + limit.String(),
	}, args...)...)
	cmd.Dir = filepath.Join(p.root, p.dir)
	cmd.Env = append(os.Environ(), p.env...)
	var out bytes.Buffer
	both := io.MultiWriter(&out, copyTo)
	cmd.Stdout, cmd.Stderr = both, both
	begin := time.Now()
	err := cmd.Run()
	done := finished{output: out.String(), err: err, wall: time.Since(begin)}
	if state := cmd.ProcessState; state != nil {
		done.cpu = state.UserTime() + state.SystemTime()
	}
	return done
}
