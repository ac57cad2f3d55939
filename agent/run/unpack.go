//go:build linux

package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// programMode is the mode of the supervisor's program. In a container, the job's user executes it; see seat.Inside.
const programMode = 0o755

// The function `unpack` writes a program to the directory `dir`, under a name that is derived from its content. An upgraded
// agent therefore never overwrites a running program. If the file exists, its content is compared, because a crash may have left
// it incomplete.
func unpack(dir string, program []byte) (string, error) {
	if len(program) == 0 {
		return "", errors.New("this program was built without the supervisor: build it with `make build`")
	}
	sum := sha256.Sum256(program)
	path := filepath.Join(dir, "ares-supervisor-"+hex.EncodeToString(sum[:8]))
	if b, err := os.ReadFile(path); err == nil && bytes.Equal(b, program) {
		return path, os.Chmod(path, programMode)
	}
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(dir, ".ares-supervisor-*")
	if err != nil {
		return "", fmt.Errorf("unpack supervisor: %w", err)
	}
	_, err = f.Write(program)
	err = errors.Join(err, f.Chmod(programMode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", fmt.Errorf("unpack supervisor: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return path, nil
}
