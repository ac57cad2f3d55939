//go:build linux

package run

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/agent/run/seat"
)

const canary = "canary-value-51f0"

// withSecrets adds a variable and two files to a spec.
func withSecrets(spec Spec) Spec {
	spec.Secrets = []Secret{
		{Env: "TOKEN", Value: canary + "-env"}, {File: "key", Value: canary + "-file\x00\n"},
		{File: "large", Value: strings.Repeat("x", 200<<10)}, // more than a pipe holds
	}
	return spec
}

// planted searches the runner's directory and the memory directory for the value of a secret.
func (w *world) planted() (found []string) {
	w.Helper()
	for _, dir := range append([]string{w.dir}, w.inMemoryDirs()...) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // it may have just been removed
			}
			if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(canary)) {
				found = append(found, path)
			}
			return nil
		})
		if err != nil {
			w.Fatal(err)
		}
	}
	return found
}

func (w *world) inMemoryDirs() []string {
	dirs, err := filepath.Glob(filepath.Join(memoryDir, "ares-secrets-"+w.id+"-*-*"))
	if err != nil {
		w.Fatal(err)
	}
	return dirs
}

const showSecrets = `echo "$TOKEN" | wc -c; wc -c < $ARES_SECRETS_DIR/key; wc -c < $ARES_SECRETS_DIR/large; ls $ARES_SECRETS_DIR | tr '\n' ' '; stat -c %a $ARES_SECRETS_DIR/key`

// TestSecrets checks that a job gets its secrets, and that nothing else on the disk has them, during the job and after it.
func TestSecrets(t *testing.T) {
	for name, change := range map[string]func(Spec) Spec{
		"as the agent": func(s Spec) Spec { return s },
		"as a user":    func(s Spec) Spec { s.User = tenantA; return s },
		"in a sandbox": apart,
	} {
		t.Run(name, func(t *testing.T) {
			if name != "as the agent" {
				needRoot(t)
			}
			w := newWorldIn(t, t.TempDir())
			if err := os.Chmod(w.dir, 0o711); err != nil {
				t.Fatal(err)
			}
			ready := filepath.Join(w.open(), "ready")
			p := w.start(change(withSecrets(sh(showSecrets + "; touch " + ready + "; sleep 1000"))))
			w.eventually("the job has its secrets", func() bool { _, err := os.Stat(ready); return err == nil })
			for _, path := range w.planted() {
				if !strings.HasPrefix(path, w.secretsPrefix(p.Key())) || name == "in a sandbox" {
					t.Errorf("the secret is in %s", path)
				}
			}
			if err := p.Stop(w.ctx, "done", 0); err != nil {
				t.Fatal(err)
			}
			w.want(p, Stopped, -1)
			if got := w.log(p.Key()); got != "22\n24\n204800\nkey large 400\n" {
				t.Errorf("the job printed %q", got)
			}
			if left := append(w.planted(), w.inMemoryDirs()...); len(left) > 0 {
				t.Errorf("after the job, %v is left", left)
			}
		})
	}
}

// TestSecretsAreThisJobsOwn checks that a job of another user reads neither the files nor the environment.
func TestSecretsAreThisJobsOwn(t *testing.T) {
	needRoot(t)
	for name, change := range map[string]func(Spec) Spec{
		"without a sandbox": func(s Spec) Spec { s.User = tenantA; return s },
		"in a sandbox":      apart,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldIn(t, t.TempDir())
			ready := filepath.Join(w.open(), "ready")
			p := w.start(change(withSecrets(sh("touch " + ready + "; sleep 1000"))))
			w.eventually("the job runs", func() bool { _, err := os.Stat(ready); return err == nil })
			spy := sh("cat " + w.secretsPrefix(p.Key()) + "*/key " + seat.SandboxSecrets + "/key /proc/[0-9]*/environ 2>/dev/null | grep -ac " + canary)
			spy.Key, spy.User = key("spy"), tenantB
			q := w.start(spy)
			w.want(q, Exited, 1)
			if got := w.log(q.Key()); got != "0\n" {
				t.Errorf("another user's job found %s", got)
			}
			if err := p.Stop(w.ctx, "done", 0); err != nil {
				t.Fatal(err)
			}
			w.want(p, Stopped, -1)
		})
	}
}

// TestSecretsEndWithAKilledSupervisor kills the supervisor, so that only the next agent can remove the files.
func TestSecretsEndWithAKilledSupervisor(t *testing.T) {
	w := newWorldIn(t, t.TempDir())
	ready := filepath.Join(w.open(), "ready")
	p := w.start(withSecrets(sh("touch " + ready + "; sleep 1000")))
	w.eventually("the job runs", func() bool { _, err := os.Stat(ready); return err == nil })
	if len(w.planted()) == 0 {
		t.Fatal("the job has no file")
	}
	if err := syscall.Kill(w.supervisorPid(p), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.want(p, Lost, -1)
	if left := append(w.planted(), w.inMemoryDirs()...); len(left) > 0 {
		t.Errorf("after the killed supervisor, %v is left", left)
	}
}

// TestSecretFilesAreOnNoDisk checks that a job with secret files does not start where they would be written to a disk.
func TestSecretFilesAreOnNoDisk(t *testing.T) {
	w := newWorldIn(t, t.TempDir())
	w.memory = "/proc" // as good as a disk: it is no file system in memory
	if _, err := w.Start(w.ctx, withSecrets(sh("true"))); !errors.Is(err, ErrNoMemory) {
		t.Errorf("started: %v", err)
	}
	spec := sh("true")
	spec.Secrets = []Secret{{Env: "TOKEN", Value: canary}}
	w.want(w.start(spec), Exited, 0)
}

// TestAForeignSecretsDirectory lets another user of the machine create directories that look like those of a job's secrets.
func TestAForeignSecretsDirectory(t *testing.T) {
	needRoot(t)
	w := newWorldIn(t, t.TempDir())
	spec := withSecrets(sh("true"))
	decoy := w.secretsPrefix(spec.Key) + "decoy"
	if err := errors.Join(os.Mkdir(decoy, 0o700), os.Chown(decoy, int(tenantB.UID), -1)); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(decoy)
	if err := os.Mkdir(strings.TrimSuffix(w.secretsPrefix(spec.Key), "-"), 0o700); err != nil { // the name of earlier versions
		t.Fatal(err)
	}
	defer os.Remove(strings.TrimSuffix(w.secretsPrefix(spec.Key), "-"))
	w.want(w.start(spec), Exited, 0)
	if got := w.inMemoryDirs(); len(got) != 1 || got[0] != decoy {
		t.Errorf("left are %v", got)
	}
}

// TestNoJobStartsWithoutItsSecrets checks what a supervisor does if the agent dies before it has passed all secrets.
func TestNoJobStartsWithoutItsSecrets(t *testing.T) {
	list := withSecrets(Spec{}).Secrets
	text := seat.EncodeSecrets(list)
	if got, err := seat.DecodeSecrets(text, len(list)); err != nil || len(got) != 3 || got[1] != list[1] {
		t.Errorf("decoded %d, %v", len(got), err)
	}
	for _, part := range [][]byte{nil, text[:1], text[:len(text)/2], text[:len(text)-1]} {
		if got, err := seat.DecodeSecrets(part, len(list)); err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("%d of %d bytes decode to %d secrets, %v", len(part), len(text), len(got), err)
		}
	}
	if _, err := seat.DecodeSecrets(seat.EncodeSecrets(list[:1]), len(list)); err == nil {
		t.Error("a missing secret is not noticed")
	}
	o := seat.Order{Spec: withSecrets(sh("true")), SecretCount: 3, SecretsDir: "/x"}
	if bytes.Contains(o.Encode(), []byte(canary)) {
		t.Error("the spec file has the secrets")
	}
	for _, bad := range []Secret{{}, {Env: "A", File: "a"}, {File: "../a"}, {File: ".."}, {Env: "A=B"}, {Env: "A", Value: "x\x00"}} {
		spec := sh("true")
		spec.Secrets = []Secret{bad}
		spec.Default()
		if err := spec.Check(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
