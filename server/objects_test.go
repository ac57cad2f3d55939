package server

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	ares "github.com/ares-scheduler/ares"
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
		{[]string{"http://127.0.0.1:2379"}, filepath.Join(dir, "shared"), filepath.Join(dir, "shared")},
		{[]string{"http://127.0.0.1:2379"}, "", ""},
		{nil, "/dev/null/objects", ""},
	} {
		s := &Server{log: slog.New(slog.DiscardHandler), cfg: Config{DataDir: dir, Etcd: EtcdConfig{Endpoints: c.endpoints}, Objects: ObjectsConfig{Dir: c.dir}}}
		s.Code = s.openCode()
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
