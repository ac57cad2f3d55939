package api

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/secret"
	"github.com/ares-scheduler/ares/store"
)

// newSecrets returns the secrets of a store, encrypted with a key file of their own.
func newSecrets(t *testing.T, s *store.Store) *secrets.Secrets {
	return &secrets.Secrets{Store: s, Keys: secret.NewKeyFile(filepath.Join(t.TempDir(), "secrets.key")), Now: time.Now}
}
