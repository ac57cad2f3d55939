//go:build linux && !embed_supervisor

package run

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Supervisor returns the path of the supervisor program. This binary does not contain the program, so Supervisor
// searches in the directory of the executable and then in PATH. If the program is not there, Supervisor uses the
// path in the environment variable ARES_SUPERVISOR. Under `go run` there is none of these, so Supervisor then builds
// the program from its source, into the directory `dir`.
func Supervisor(dir string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "ares-supervisor")); err == nil {
			return path, nil
		}
	}
	if path, err := exec.LookPath("ares-supervisor"); err == nil {
		return path, nil
	}
	if path := os.Getenv("ARES_SUPERVISOR"); path != "" {
		return exec.LookPath(path)
	}
	if source := supervisorSource(); source != "" {
		return buildSupervisor(dir, source)
	}
	return "", errors.New("ares-supervisor is neither beside this program nor in PATH nor in ARES_SUPERVISOR, " +
		"and this build does not contain it: run `make build`")
}

// supervisorSource returns the directory of the supervisor's source, or "". A program that was built with -trimpath, or
// that was moved to another machine, does not find it.
func supervisorSource() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	source := filepath.Join(filepath.Dir(file), "..", "..", "cmd", "ares-supervisor")
	if _, err := os.Stat(filepath.Join(source, "main.go")); err != nil {
		return ""
	}
	return source
}

// buildSupervisor builds the supervisor with the go command. Without cgo the program is static, so it also works in a
// job's private file system.
func buildSupervisor(dir, source string) (string, error) {
	temp, err := os.MkdirTemp("", "ares-supervisor-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	built := filepath.Join(temp, "ares-supervisor")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", built, ".")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the supervisor from %s: %w: %s (or run `make build`)", source, err, bytes.TrimSpace(out))
	}
	program, err := os.ReadFile(built)
	if err != nil {
		return "", err
	}
	return unpack(dir, program)
}
