//go:build linux

package image

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"

	ares "github.com/ares-scheduler/ares"
)

// everyTenant is the file with credentials for all tenants that have none of their own for a host.
const everyTenant = "default.json"

// dockerHub is the key that docker login writes for Docker Hub.
const dockerHub = "https://index.docker.io/v1/"

// credentials returns a tenant's credentials for a registry, or authn.Anonymous if it has none. The files are in the format of
// Docker's config.json, which docker login writes. They are read for each pull, so a change needs no restart.
func (s *Store) credentials(tenant, host string) (authn.Authenticator, error) {
	if s.cfg.Credentials == "" {
		return authn.Anonymous, nil
	}
	for _, file := range []string{tenant + ".json", everyTenant} {
		auth, err := readCredentials(filepath.Join(s.cfg.Credentials, file), host)
		if err != nil || auth != nil {
			return auth, err
		}
	}
	return authn.Anonymous, nil
}

func readCredentials(path, host string) (authn.Authenticator, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the registry's credentials: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return nil, ares.Errorf(ares.Unavailable, "the file %s with credentials of registries can be read by other users: run chmod 600 %s", path, path)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the registry's credentials: %w", err)
	}
	var file struct {
		Auths map[string]struct {
			Username, Password, Auth string
			IdentityToken            string `json:"identitytoken"`
			RegistryToken            string `json:"registrytoken"`
		} `json:"auths"`
	}
	if err = json.Unmarshal(b, &file); err != nil {
		return nil, ares.Errorf(ares.Unavailable, "the file %s is not in the format of Docker's config.json: write it anew with docker --config DIRECTORY login HOST (%v)", path, err)
	}
	keys := []string{host, "https://" + host}
	if host == "index.docker.io" {
		keys = []string{dockerHub, "docker.io", host}
	}
	for _, key := range keys {
		entry, ok := file.Auths[key]
		if !ok {
			continue
		}
		c := authn.AuthConfig{Username: entry.Username, Password: entry.Password, IdentityToken: entry.IdentityToken, RegistryToken: entry.RegistryToken}
		if entry.Auth != "" {
			plain, err := base64.StdEncoding.DecodeString(entry.Auth)
			user, password, ok := strings.Cut(string(plain), ":")
			if err != nil || !ok {
				return nil, ares.Errorf(ares.Unavailable, `the entry of %s in %s has no valid "auth": write it anew with docker --config DIRECTORY login %s`, key, path, host)
			}
			c.Username, c.Password = user, strings.TrimRight(password, "\x00")
		}
		return authn.FromConfig(c), nil
	}
	return nil, nil
}
