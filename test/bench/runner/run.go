package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A program is a compiled test binary of one package.
type program struct {
	root, dir, path string
	env             []string
}

// compile builds the test binary of a package into the scratch directory.
func compile(ctx context.Context, root, dir, scratch string, env []string) (*program, error) {
	path := filepath.Join(scratch, fmt.Sprintf("%x.test", dir))
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", path, ".")
	build.Dir = filepath.Join(root, dir)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s: %w\n%s", dir, err, out)
	}
	return &program{root: root, dir: dir, path: path, env: env}, nil
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
