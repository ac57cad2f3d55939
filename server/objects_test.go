package server

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
)

// TestCodeNeedsASharedDirectory checks when a server keeps the code of jobs: alone always, and with a store that others may use only if
// objects.dir is set.
func TestCodeNeedsASharedDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		endpoints []string
		dir, want string
	}{
		{nil, "", filepath.Join(dir, ObjectsDir)},
		{nil, filepath.Join(dir, "mine"), filepath.Join(dir, "mine")},
		{[]string{"http://127.0.0.1:2379"}, "", ""},
		{nil, "/dev/null/objects", ""},
	} {
		s := &Server{log: slog.New(slog.DiscardHandler), cfg: Config{DataDir: dir, Etcd: EtcdConfig{Endpoints: c.endpoints}, Objects: ObjectsConfig{Dir: c.dir}}}
		s.Code = s.openCode(t.Context())
		if (s.Code.Objects != nil) != (c.want != "") {
			t.Errorf("%v: got %v", c, s.Code)
		}
		if c.want == "" {
			err := s.Code.Check(t.Context(), "vision", strings.Repeat("0", 64))
			if ares.CodeOf(err) != ares.FeatureDisabled || !strings.Contains(err.Error(), "objects.dir") {
				t.Errorf("%v: got %v", c, err)
			}
		}
		s.closeCode()
	}
}

// TestServersCompareTheirObjects starts servers of one store with different directories. The first one names the directory, and another
// directory is refused until its file has the same ID.
func TestServersCompareTheirObjects(t *testing.T) {
	st, err := store.Open(t.Context(), store.Config{Endpoints: storetest.External(t).Endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	one, two := t.TempDir(), t.TempDir()
	open := func(dir string) *code.Code {
		t.Helper()
		s := &Server{log: slog.New(slog.DiscardHandler), Store: st, cfg: Config{Etcd: EtcdConfig{Endpoints: []string{"http://127.0.0.1:1"}}, Objects: ObjectsConfig{Dir: dir}}}
		s.Code = s.openCode(t.Context())
		t.Cleanup(s.closeCode)
		return s.Code
	}
	for range 2 {
		if c := open(one); c.Objects == nil {
			t.Fatal(c.Disabled)
		}
	}
	refused := open(two)
	if refused.Objects != nil {
		t.Fatal("a server with another directory keeps code")
	}
	err = refused.Check(t.Context(), "vision", strings.Repeat("0", 64))
	id, readErr := os.ReadFile(filepath.Join(one, objects.IdentityFile))
	if readErr != nil {
		t.Fatal(readErr)
	}
	shared := strings.TrimSpace(string(id))
	for _, want := range []string{"objects.dir is " + two, "ARES_OBJECTS_DIR", "write " + shared + " into its file " + objects.IdentityFile} {
		if ares.CodeOf(err) != ares.FeatureDisabled || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err = os.WriteFile(filepath.Join(two, objects.IdentityFile), id, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := open(two); c.Objects == nil {
		t.Errorf("after the directory was replaced: %s", c.Disabled)
	}
}
