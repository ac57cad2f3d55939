package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ares-scheduler/ares/auth"
	"github.com/ares-scheduler/ares/store"
)

// Files in the data directory that hold a token, each readable for its owner
// alone.
const (
	AdminTokenFile = "admin.token"
	NodeTokenFile  = "node.token"
)

// ensureToken reads a token from its file, or makes both at the first start,
// and registers its hash under this server's name, so that every server of the
// store accepts it.
func ensureToken(ctx context.Context, s *store.Store, dir, file, role, server string) (string, error) {
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	token := strings.TrimSpace(string(data))
	switch {
	case err == nil && token != "":
	case err == nil || errors.Is(err, fs.ErrNotExist):
		token, _ = auth.NewToken()
		if err = os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("write %s: %w", file, err)
		}
	default:
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	if err = os.Chmod(path, 0o600); err != nil {
		return "", fmt.Errorf("protect %s: %w", file, err)
	}
	err = s.PutToken(ctx, store.Token{Name: role + "@" + server, Hash: auth.HashToken(token), Role: role})
	if err != nil {
		return "", fmt.Errorf("register %s: %w", file, err)
	}
	return token, nil
}

// serverID is this server's own name, made at the first start: two servers of
// one store never share it.
func serverID(dir string) (string, error) {
	path := filepath.Join(dir, "server.id")
	if data, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(data)) != "" {
		return strings.TrimSpace(string(data)), nil
	}
	token, _ := auth.NewToken()
	id := strings.TrimPrefix(token, "ares-")[:12]
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write server.id: %w", err)
	}
	return id, nil
}
