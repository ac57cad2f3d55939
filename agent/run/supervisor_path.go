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
	"syscall"
)

// Supervisor returns the path of the supervisor program. This binary does not contain the program, so Supervisor
// searches in the directory of the executable and then in PATH. If the program is not there, Supervisor uses the
// path in the environment variable ARES_SUPERVISOR. Under `go run` there is none of these, so Supervisor then builds
// the program from its source, into the directory `dir`, if no other user can have put this source there.
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
	missing := errors.New("ares-supervisor is neither beside this program nor in PATH nor in ARES_SUPERVISOR, " +
		"and this build does not contain it: run `make build`")
	root := sourceRoot()
	if root == "" {
		return "", missing
	}
	if err := trustSource(root); err != nil {
		return "", fmt.Errorf("%w (its source is not used: %w)", missing, err)
	}
	return buildSupervisor(dir, filepath.Join(root, supervisorPackage))
}

// supervisorPackage is the directory of the supervisor's source in the module.
const supervisorPackage = "cmd/ares-supervisor"

// sourceRoot returns the directory of the module from which this program was built, or "". A program that was built with
// -trimpath, or that was moved to another machine, does not find it.
func sourceRoot() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		return ""
	}
	root, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(file), "..", ".."))
	if err != nil {
		return ""
	}
	if _, err = os.Stat(filepath.Join(root, supervisorPackage, "main.go")); err != nil {
		return ""
	}
	return root
}

// trustSource returns an error if another user could have written the source of the supervisor. The module may have been
// built in a directory such as /tmp and deleted, and another user may have created it again.
func trustSource(root string) error {
	for _, name := range []string{".", "go.mod", "cmd", supervisorPackage, supervisorPackage + "/main.go"} {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		owner, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("the owner of %s is unknown", path)
		}
		if err = trusted(info.Mode(), owner.Uid, owner.Gid, uint32(os.Geteuid())); err != nil {
			return fmt.Errorf("%s %w", path, err)
		}
	}
	return nil
}

// The function `trusted` checks that only the user `self` and root can write a file. A group with the ID of the owner is the
// owner's private group, which many systems let write by default.
func trusted(mode os.FileMode, uid, gid, self uint32) error {
	switch {
	case mode&os.ModeSymlink != 0:
		return errors.New("is a symbolic link")
	case uid != self && uid != 0:
		return fmt.Errorf("belongs to another user (%d)", uid)
	case mode&0o002 != 0 || mode&0o020 != 0 && gid != uid:
		return errors.New("can be written by other users")
	}
	return nil
}

// buildSupervisor builds the supervisor with the go command. Without cgo the program is static, so it also works in a
// job's private file system. Files above the module, such as a go.work of another user in /tmp, have no effect.
func buildSupervisor(dir, source string) (string, error) {
	temp, err := os.MkdirTemp("", "ares-supervisor-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temp) }()
	built := filepath.Join(temp, "ares-supervisor")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", built, ".")
	cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
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
