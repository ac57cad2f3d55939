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

// These files in the data directory hold one token each and are readable only by their owner.
const (
	AdminTokenFile = "admin.token"
	NodeTokenFile  = "node.token"
)

// ensureToken reads a token from its file. At the first start, ensureToken creates the token and the file. The
// token's hash is registered in the store under this server's name. Every server that uses the store therefore
// accepts the token.
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

// serverID returns this server's unique name, which is created at the first start.
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
