// Package contexts reads and writes the user's configuration file, ~/.config/ares/config.yaml. A context in this file is
// a cluster that the user works with: its servers, its certificate authority, the user's login there, and the user's
// default tenant and queue. Package contexts calls no server.
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// formatVersion is the version of the file that this program reads and writes.
const formatVersion = 1

// File is the content of the configuration file.
type File struct {
	Version int `yaml:"version"`
	// Current is the name of the context that commands use; "" for none.
	Current  string     `yaml:"current,omitempty"`
	Contexts []*Context `yaml:"contexts,omitempty"`
}

// Context is one cluster.
type Context struct {
	Name    string   `yaml:"name"`
	Servers []string `yaml:"servers"`
	// CA is the path of a file with the certificate authorities of the servers. Without it, servers on other machines
	// must have a certificate that this system trusts.
	CA string `yaml:"ca,omitempty"`
	// TokenFile is the path of a file with a token; instead of a login.
	TokenFile string `yaml:"token_file,omitempty"`
	// Tenant and Queue are those of submitted jobs that name none.
	Tenant string `yaml:"tenant,omitempty"`
	Queue  string `yaml:"queue,omitempty"`
	// Defaults has fields of a job file. They are those of submitted jobs that do not set them.
	Defaults map[string]any `yaml:"defaults,omitempty"`
	// Issuer and ClientID are those of "ares login".
	Issuer   string `yaml:"issuer,omitempty"`
	ClientID string `yaml:"client_id,omitempty"`
	Login    *Login `yaml:"login,omitempty"`
}

// Login is the result of "ares login".
type Login struct {
	IDToken      string    `yaml:"id_token"`
	RefreshToken string    `yaml:"refresh_token,omitempty"`
	ExpiresAt    time.Time `yaml:"expires_at"`
}

// String returns a text without the tokens, so that no message contains them.
func (l *Login) String() string { return "a login until " + l.ExpiresAt.UTC().Format(time.RFC3339) }

// Serves reports whether all addresses are servers of the context. A token of the context goes only to these.
func (c *Context) Serves(addresses []string) bool {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(a string) bool { return !slices.Contains(c.Servers, strings.TrimSpace(a)) })
}

// Path returns the path of the configuration file.
func Path() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the configuration directory: %w: set XDG_CONFIG_HOME", err)
	}
	return filepath.Join(dir, "ares", "config.yaml"), nil
}

// Read reads the configuration file. Without a file, it returns an empty one.
func Read(path string) (*File, error) {
	f := &File{Version: formatVersion}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && data == nil && os.Geteuid() != 0 && !exists(path) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if err := checkMode(path); err != nil {
		return nil, err
	}
	var head struct {
		Version int `yaml:"version"`
	}
	if err := yaml.Unmarshal(data, &head); err != nil {
		return nil, broken(path, err)
	}
	if head.Version > formatVersion {
		return nil, fmt.Errorf("%s has version %d, and this program knows only version %d: update ares, or move the file away", path, head.Version, formatVersion)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(f); err != nil && len(bytes.TrimSpace(data)) > 0 {
		return nil, broken(path, err)
	}
	return f, f.check(path)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func broken(path string, err error) error {
	text := strings.Join(strings.Fields(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "yaml: "), "unmarshal errors:\n")), " ")
	return fmt.Errorf("%s is not valid: %s: correct the file, or move it away", path, text)
}

// namePattern matches the names of contexts. They need no quotes in a shell and do not look like flags.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

// CheckName rejects a name that would be hard to type.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is not a name for a context: use letters, digits and . _ @ -, at most 63", name)
	}
	return nil
}

func (f *File) check(path string) error {
	seen := map[string]bool{}
	for _, c := range f.Contexts {
		switch {
		case c == nil || CheckName(c.Name) != nil || seen[c.Name]:
			return fmt.Errorf("%s is not valid: a context has no name, a name that is not allowed, or the name of another: correct the file", path)
		case len(c.Servers) == 0:
			return fmt.Errorf("%s is not valid: context %s has no servers: add them, or run: ares context remove %s", path, c.Name, c.Name)
		}
		seen[c.Name] = true
	}
	if f.Current != "" && !seen[f.Current] {
		return fmt.Errorf("%s is not valid: its current context %q does not exist: correct the file", path, f.Current)
	}
	return nil
}

// Find returns the context of a name, or an error that lists the names.
func (f *File) Find(name string) (*Context, error) {
	var names []string
	for _, c := range f.Contexts {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no context %q: add one with: ares context add %s --server HOST:PORT", name, "NAME")
	}
	return nil, fmt.Errorf("there is no context %q: use one of %s", name, strings.Join(names, ", "))
}

// Update changes the configuration file. Only one process changes the file at a time, and the file is replaced as a
// whole, so that no reader sees a part of it and no change is lost.
func Update(path string, change func(*File) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create the configuration directory: %w", err)
	}
	unlock, err := lock(path + ".lock")
	if err != nil {
		return fmt.Errorf("lock the configuration: %w", err)
	}
	defer unlock()
	f, err := Read(path)
	if err != nil {
		return err
	}
	if err = change(f); err != nil {
		return err
	}
	data, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return replace(path, data)
}

// The function `replace` writes a file that only its owner can read, and puts it in the place of the old one.
func replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".config-*.yaml") // its mode is 0600
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the configuration: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}
