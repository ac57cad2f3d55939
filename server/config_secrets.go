package server

import (
	"context"
	"path/filepath"
	"time"

	"github.com/ares-scheduler/ares/control/secrets"
	"github.com/ares-scheduler/ares/secret"
)

// SecretsFile is the name of the default key file in the data directory.
const SecretsFile = "secrets.key"

// SecretsConfig configures the encryption of secrets.
type SecretsConfig struct {
	// KeyFile contains the keys that encrypt the secrets of jobs in the store.
	// The server creates it with the first secret. All servers need the same
	// file. Backups of the store do not contain it: keep a copy elsewhere.
	// Default: secrets.key in data_dir.
	KeyFile string `yaml:"key_file"`
}

// checkSecretKeys logs an error if this server cannot decrypt the stored secrets. The server starts nevertheless, because
// most jobs need no secrets.
func (s *Server) checkSecretKeys(ctx context.Context) {
	if err := s.secrets().CheckKeys(ctx); err != nil {
		s.log.Error("this server can neither create nor deliver some secrets", "error", err)
	}
}

// This method returns the secrets of the server's store.
func (s *Server) secrets() *secrets.Secrets {
	path := s.cfg.Secrets.KeyFile
	if path == "" {
		path = filepath.Join(s.cfg.DataDir, SecretsFile)
	}
	return &secrets.Secrets{Store: s.Store, Keys: secret.NewKeyFile(path), Now: func() time.Time { return time.Now().Truncate(time.Microsecond) }}
}
