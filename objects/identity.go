package objects

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// IdentityFile is the file in the directory that contains its ID. Its name is no generation, so it is no object.
const IdentityFile = "ares-objects-id"

// Dir returns the absolute path of the directory.
func (s *Store) Dir() string { return s.cfg.Dir }

// Identity returns the ID of the directory. The first server that asks for it draws it.
func (s *Store) Identity() (string, error) {
	path := filepath.Join(s.cfg.Dir, IdentityFile)
	id, err := readIdentity(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	// Several servers may draw an ID at the same time. A link to a complete file succeeds for one of them, also on NFS.
	f, err := os.CreateTemp(s.cfg.Dir, "."+IdentityFile+"-*")
	if err != nil {
		return "", fmt.Errorf("name the directory for objects: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("name the directory for objects: %w", err)
	}
	if err = os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("name the directory for objects: %w", err)
	}
	return readIdentity(path)
}

func readIdentity(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(data))
	if id == "" || len(id) > 100 {
		return "", fmt.Errorf("%s is damaged: remove it, and start the server again", path)
	}
	return id, nil
}
