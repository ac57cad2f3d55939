package secret

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
)

func newFile(t *testing.T) *KeyFile {
	t.Helper()
	return NewKeyFile(filepath.Join(t.TempDir(), "data", "secrets.key"))
}

func seal(t *testing.T, keys KeyWrapper, id Identity, value string) Sealed {
	t.Helper()
	s, err := Seal(t.Context(), keys, id, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSealAndOpen(t *testing.T) {
	keys, id := newFile(t), Identity{"vision", "hub", 1}
	s := seal(t, keys, id, "hunter2-hunter2")
	if bytes.Contains(s.Ciphertext, []byte("hunter2")) || bytes.Contains(s.WrappedKey, []byte("hunter2")) {
		t.Error("the value is readable")
	}
	got, err := Open(t.Context(), keys, id, s)
	if err != nil || string(got) != "hunter2-hunter2" {
		t.Errorf("got %q, %v", got, err)
	}
	again := seal(t, keys, id, "hunter2-hunter2")
	if bytes.Equal(again.Ciphertext, s.Ciphertext) || bytes.Equal(again.WrappedKey, s.WrappedKey) {
		t.Error("two encryptions of one value are equal")
	}
}

// TestBound checks that a ciphertext opens only under the tenant, name and version that it was made for. Otherwise a
// writer of the store could hand one tenant the secret of another.
func TestBound(t *testing.T) {
	keys, id := newFile(t), Identity{"ab", "c", 1}
	s := seal(t, keys, id, "value")
	for _, other := range []Identity{{"a", "bc", 1}, {"ab", "d", 1}, {"x", "c", 1}, {"ab", "c", 2}} {
		if _, err := Open(t.Context(), keys, other, s); err == nil {
			t.Errorf("it opens as %v", other)
		}
		if _, err := Rewrap(t.Context(), keys, other, s); err == nil {
			t.Errorf("it is rewrapped as %v", other)
		}
	}
	for name, change := range map[string]func(*Sealed){
		"ciphertext":  func(s *Sealed) { s.Ciphertext = flip(s.Ciphertext) },
		"wrapped key": func(s *Sealed) { s.WrappedKey = flip(s.WrappedKey) },
		"short":       func(s *Sealed) { s.Ciphertext = s.Ciphertext[:3] },
		"swapped key": func(s *Sealed) { s.WrappedKey = seal(t, keys, Identity{"ab", "d", 1}, "x").WrappedKey },
	} {
		bad := s
		change(&bad)
		if _, err := Open(t.Context(), keys, id, bad); err == nil {
			t.Errorf("a changed %s opens", name)
		}
	}
}

func flip(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)-1] ^= 1
	return out
}

func TestRotation(t *testing.T) {
	keys, id := newFile(t), Identity{"vision", "hub", 1}
	s := seal(t, keys, id, "value")
	current, err := keys.Rotate(t.Context(), "")
	if err != nil || current == s.KeyID {
		t.Fatalf("rotated to %q: %v", current, err)
	}
	if _, err = Open(t.Context(), keys, id, s); err != nil {
		t.Errorf("after the rotation, the old key no longer opens: %v", err)
	}
	moved, err := Rewrap(t.Context(), keys, id, s)
	if err != nil || moved.KeyID != current || !bytes.Equal(moved.Ciphertext, s.Ciphertext) {
		t.Fatalf("rewrapped: %+v, %v", moved, err)
	}
	// The old key's line may now be deleted.
	data, _ := os.ReadFile(keys.path)
	var kept []string
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, s.KeyID) {
			kept = append(kept, line)
		}
	}
	if err = os.WriteFile(keys.path, []byte(strings.Join(kept, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Open(t.Context(), keys, id, moved); err != nil || string(got) != "value" {
		t.Errorf("with the new key alone: %q, %v", got, err)
	}
	if _, err = Open(t.Context(), keys, id, s); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), s.KeyID) || !strings.Contains(err.Error(), "copy the file") {
		t.Errorf("without the old key: %v", err)
	}
	if _, err = keys.Rotate(t.Context(), "k000"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("a rotation to a key that is not there: %v", err)
	}
	if again, err := keys.Rotate(t.Context(), moved.KeyID); err != nil || again != moved.KeyID {
		t.Errorf("a rotation to the current key: %v %v", again, err)
	}
}

func TestKeyFile(t *testing.T) {
	keys, id := newFile(t), Identity{"vision", "hub", 1}
	if err := keys.Holds(t.Context(), "k1"); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("an absent file holds a key: %v", err)
	}
	if _, err := os.Stat(keys.path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file is created before a secret needs it")
	}
	s := seal(t, keys, id, "value")
	st, err := os.Stat(keys.path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	other := NewKeyFile(keys.path) // a second process with the same file
	if got, err := Open(t.Context(), other, id, s); err != nil || string(got) != "value" {
		t.Errorf("with the same file: %q, %v", got, err)
	}
	if _, err = other.Rotate(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if moved := seal(t, keys, id, "value"); moved.KeyID == s.KeyID {
		t.Error("a changed file is not read again")
	}
	for name, text := range map[string]string{
		"no key": "# nothing\n", "short key": "k1 c2hvcnQ=\n", "no ID": "c2hvcnQ=\n", "no base64": "k1 secret-text!\n",
		"twice": "k1 " + strings.Repeat("A", 43) + "=\nk1 " + strings.Repeat("A", 43) + "=\n",
	} {
		bad := newFile(t)
		_ = os.MkdirAll(filepath.Dir(bad.path), 0o700)
		if err = os.WriteFile(bad.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err = Seal(t.Context(), bad, id, nil); err == nil || strings.Contains(err.Error(), "c2hvcnQ") || strings.Contains(err.Error(), "secret-text") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err = os.Chmod(keys.path, 0o640); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]*KeyFile{"a new server": NewKeyFile(keys.path), "a server that has read it": keys} {
		if _, err = Open(t.Context(), f, id, s); err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("a file that others read, %s: %v", name, err)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	if err = errors.Join(os.Chmod(keys.path, 0o600), os.Chown(keys.path, 4242, -1)); err != nil {
		t.Fatal(err)
	}
	if _, err = Open(t.Context(), keys, id, s); err == nil || !strings.Contains(err.Error(), "chown") {
		t.Errorf("a file of another user: %v", err)
	}
}

// TestALinkedKeyFile rotates the key of a file that several servers share by links. The links must stay, and all servers must
// have the new key.
func TestALinkedKeyFile(t *testing.T) {
	shared := newFile(t)
	seal(t, shared, Identity{"t", "n", 1}, "v")
	link := filepath.Join(t.TempDir(), "secrets.key")
	if err := os.Symlink(shared.path, link); err != nil {
		t.Fatal(err)
	}
	id, err := NewKeyFile(link).Rotate(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode().Type() != os.ModeSymlink {
		t.Errorf("the link is %v, %v", st, err)
	}
	if err = shared.Holds(t.Context(), id); err != nil {
		t.Errorf("the shared file lacks the new key: %v", err)
	}
	if err = os.Remove(shared.path); err != nil {
		t.Fatal(err)
	}
	if _, err = Seal(t.Context(), NewKeyFile(link), Identity{"t", "n", 1}, []byte("v")); err == nil || !strings.Contains(err.Error(), "mount the file system") {
		t.Errorf("without the shared file: %v", err)
	}
}

// TestNoKeyIsLost lets several processes rotate one file at the same time. Every key that one of them used must stay.
func TestNoKeyIsLost(t *testing.T) {
	keys := newFile(t)
	ids := make([]string, 8)
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() {
			own := NewKeyFile(keys.path)
			if i%2 == 0 {
				ids[i], _ = own.Rotate(t.Context(), "")
				return
			}
			ids[i] = seal(t, own, Identity{"t", "n", 1}, "v").KeyID
		})
	}
	wg.Wait()
	for _, id := range ids {
		if err := keys.Holds(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
}
