//go:build linux && !embed_supervisor

package run

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Supervisor returns the path of the supervisor program. This binary does not contain the program, so Supervisor
// searches in the directory of the executable and then in PATH. If the program is not there, Supervisor uses the
// path in the environment variable ARES_SUPERVISOR.
func Supervisor(string) (string, error) {
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
	return "", errors.New("ares-supervisor is neither beside this program nor in PATH nor in ARES_SUPERVISOR, " +
		"and this build does not contain it: run `make build`")
}
