package secret

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	ares "github.com/ares-scheduler/ares"
)

// keyFileHead explains the file to whoever opens it.
const keyFileHead = `# Keys that encrypt the secrets of Ares, one per line: ID KEY.
# The first key encrypts. The others only decrypt what they encrypted earlier.
# Without this file, no stored secret can be read. Keep a copy, but not next to backups of the store.
`

// maxKeyFileBytes limits the size of a key file.
const maxKeyFileBytes = 1 << 20

// KeyFile is a KeyWrapper that keeps its keys in a file with mode 0600. The file is created at first use. All servers of
// a cluster need the same file. If the file changes, the next call reads it again.
type KeyFile struct {
	path string

	mu   sync.Mutex
	keys []fileKey // the first is current
	read stamp     // the state of the file that `keys` was read from
}

type fileKey struct {
	id  string
	key []byte
}

// The type `stamp` tells whether a file has changed since it was read. The mode is part of it, so that a file that became
// readable for others is noticed.
type stamp struct {
	inode, modified, size int64
	mode                  fs.FileMode
	owner                 uint32
}

// NewKeyFile returns the KeyFile at a path. NewKeyFile does not open or create the file.
func NewKeyFile(path string) *KeyFile { return &KeyFile{path: path} }

// Wrap implements KeyWrapper. If the file does not exist, Wrap creates it with a new key.
func (f *KeyFile) Wrap(_ context.Context, dataKey, about []byte) (string, []byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.load(); err != nil {
		return "", nil, err
	}
	if len(f.keys) == 0 {
		if err := f.change(func(keys []fileKey) ([]fileKey, error) {
			if len(keys) > 0 {
				return keys, nil // another process has just created it
			}
			return []fileKey{newKey()}, nil
		}); err != nil {
			return "", nil, err
		}
	}
	k := f.keys[0]
	wrapped, err := encrypt(k.key, dataKey, about)
	return k.id, wrapped, err
}

// Unwrap implements KeyWrapper.
func (f *KeyFile) Unwrap(_ context.Context, keyID string, wrapped, about []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k, err := f.find(keyID)
	if err != nil {
		return nil, err
	}
	plain, err := decrypt(k.key, wrapped, about)
	if err != nil {
		return nil, ares.Errorf(ares.Internal, "key %s in %s does not open the secret: %s", keyID, f.path, err)
	}
	return plain, nil
}

// Holds implements KeyWrapper.
func (f *KeyFile) Holds(_ context.Context, keyID string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.find(keyID)
	return err
}

// Rotate implements KeyWrapper. A key with a given ID must be in the file already.
func (f *KeyFile) Rotate(_ context.Context, keyID string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.change(func(keys []fileKey) ([]fileKey, error) {
		first := newKey()
		if keyID != "" {
			i := indexOf(keys, keyID)
			if i < 0 {
				return nil, f.unknown(keyID)
			}
			first = keys[i]
		}
		out := []fileKey{first}
		for _, k := range keys {
			if k.id != first.id {
				out = append(out, k)
			}
		}
		return out, nil
	})
	if err != nil {
		return "", err
	}
	return f.keys[0].id, nil
}

// The method `find` returns a key of the file. The caller holds f.mu.
func (f *KeyFile) find(id string) (fileKey, error) {
	if err := f.load(); err != nil {
		return fileKey{}, err
	}
	if i := indexOf(f.keys, id); i >= 0 {
		return f.keys[i], nil
	}
	return fileKey{}, f.unknown(id)
}

func indexOf(keys []fileKey, id string) int {
	for i := range keys {
		if keys[i].id == id {
			return i
		}
	}
	return -1
}

// The method `unknown` is the error for a key that this server lacks. The code is Unavailable, because another server, or
// this server with the right file, can answer.
func (f *KeyFile) unknown(id string) error {
	return ares.Errorf(ares.Unavailable, "this server's key file %s has no key %s, which encrypts a stored secret: copy the file from a server that has the key (all servers need the same secrets.key_file)", f.path, id)
}

// The method `load` reads the file if it has changed. A file that does not exist has no keys. The caller holds f.mu.
func (f *KeyFile) load() error {
	st, err := os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.keys, f.read = nil, stamp{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read secrets.key_file: %w", err)
	}
	if now := stampOf(st); f.read == now && len(f.keys) > 0 {
		return nil
	}
	if st.Mode().Perm()&0o077 != 0 {
		return ares.Errorf(ares.Unavailable, "secrets.key_file %s has mode %04o, so other users can read it: run chmod 600 on it, and then `ares secret rotate-key`", f.path, st.Mode().Perm())
	}
	if owner := stampOf(st).owner; owner != 0 && owner != uint32(os.Geteuid()) {
		return ares.Errorf(ares.Unavailable, "secrets.key_file %s belongs to user %d, who can read and replace the keys: run chown on it, so that it belongs to the server's user or to root, and then `ares secret rotate-key`", f.path, owner)
	}
	if !st.Mode().IsRegular() {
		return ares.Errorf(ares.Unavailable, "secrets.key_file %s is not a regular file", f.path)
	}
	if st.Size() > maxKeyFileBytes {
		return ares.Errorf(ares.Unavailable, "secrets.key_file %s has %d bytes, which is no key file", f.path, st.Size())
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return fmt.Errorf("read secrets.key_file: %w", err)
	}
	keys, err := parseKeys(data)
	if err != nil {
		return ares.Errorf(ares.Unavailable, "secrets.key_file %s: %s", f.path, err)
	}
	f.keys, f.read = keys, stampOf(st)
	return nil
}

func stampOf(st fs.FileInfo) stamp {
	out := stamp{modified: st.ModTime().UnixNano(), size: st.Size(), mode: st.Mode()}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		out.inode, out.owner = int64(sys.Ino), sys.Uid
	}
	return out
}

// The function `parseKeys` reads the content of a key file. Its errors never repeat a key.
func parseKeys(data []byte) ([]fileKey, error) {
	var keys []fileKey
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		id, text, ok := strings.Cut(line, " ")
		key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		switch {
		case !ok || !ares.ValidName(id):
			return nil, fmt.Errorf("line %d must be a key ID, a space and a key", number)
		case err != nil || len(key) != keyBytes:
			return nil, fmt.Errorf("line %d must have a key of %d bytes in base64: create one with `openssl rand -base64 %d`", number, keyBytes, keyBytes)
		case indexOf(keys, id) >= 0:
			return nil, fmt.Errorf("line %d repeats the key ID %s", number, id)
		}
		keys = append(keys, fileKey{id, key})
	}
	if len(keys) == 0 {
		return nil, errors.New("the file has no key")
	}
	return keys, nil
}

func newKey() fileKey {
	k := fileKey{key: make([]byte, keyBytes)}
	id := make([]byte, 6)
	_, _ = rand.Read(k.key) // never fails
	_, _ = rand.Read(id)
	k.id = "k" + hex.EncodeToString(id)
	return k
}

// The method `change` replaces the file's keys. A lock keeps out other processes, because a key that one process added and
// another process overwrote would be lost with every secret that it encrypts. For the same reason the new file is on
// disk before `change` returns. The caller holds f.mu.
func (f *KeyFile) change(edit func([]fileKey) ([]fileKey, error)) error {
	// If the path is a link, such as one to a file that all servers share, the file that it leads to is replaced.
	path, err := filepath.EvalSymlinks(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		path, err = f.path, nil
		if to, linked := os.Readlink(f.path); linked == nil {
			return fmt.Errorf("create secrets.key_file: %s is a link to %s, which does not exist: mount the file system of that file, or remove the link", f.path, to)
		}
	}
	if err != nil {
		return fmt.Errorf("find secrets.key_file: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("create secrets.key_file: %w", err)
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("lock secrets.key_file: %w", err)
	}
	defer lock.Close()
	if err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock secrets.key_file: %w", err)
	}
	if err = f.load(); err != nil {
		return err
	}
	keys, err := edit(f.keys)
	if err != nil {
		return err
	}
	if err = writeKeys(path, keys); err != nil {
		return fmt.Errorf("write secrets.key_file: %w", err)
	}
	return f.load()
}

// writeKeys replaces a key file in one step.
func writeKeys(path string, keys []fileKey) (err error) {
	var text bytes.Buffer
	text.WriteString(keyFileHead)
	for _, k := range keys {
		fmt.Fprintf(&text, "%s %s\n", k.id, base64.StdEncoding.EncodeToString(k.key))
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(text.Bytes())
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
