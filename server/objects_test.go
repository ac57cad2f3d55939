package server

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/control/code"
	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/store"
	"github.com/ares-scheduler/ares/store/storetest"
	"github.com/ares-scheduler/ares/test/live"
	"github.com/ares-scheduler/ares/test/s3"
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
	id, readErr := os.ReadFile(filepath.Join(one, bucket.IdentityFile))
	if readErr != nil {
		t.Fatal(readErr)
	}
	shared := strings.TrimSpace(string(id))
	for _, want := range []string{"objects.dir is " + two, "must set objects.dir", "write " + shared + " into its file " + bucket.IdentityFile} {
		if ares.CodeOf(err) != ares.FeatureDisabled || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if err = os.WriteFile(filepath.Join(two, bucket.IdentityFile), id, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := open(two); c.Objects == nil {
		t.Errorf("after the directory was replaced: %s", c.Disabled)
	}
}

// TestObjectsInABucket starts servers with buckets. While the S3 server is away, calls fail, and they succeed when it is back. A server whose
// bucket turns out to be another one than that of the others stops using it.
func TestObjectsInABucket(t *testing.T) {
	gateway := s3.Start(t)
	one, two := gateway.Bucket("one"), gateway.Bucket("two")
	st := storetest.Embedded(t)
	open := func(url string) (*Server, *code.Code) {
		t.Helper()
		s := &Server{log: slog.New(slog.DiscardHandler), Store: st, cfg: Config{DataDir: t.TempDir(), Objects: ObjectsConfig{URL: url}}}
		s.Code = s.openCode(t.Context())
		t.Cleanup(s.closeCode)
		return s, s.Code
	}
	n := 0
	put := func(c *code.Code) error {
		n++ // what is stored already is not stored again
		return c.Objects.Put(t.Context(), "vision", fmt.Append(nil, n))
	}
	_, first := open(one)
	if first.Objects == nil {
		t.Fatal(first.Disabled)
	}
	if err := put(first); err != nil {
		t.Fatal(err)
	}
	if _, c := open(two); c.Objects != nil || !strings.Contains(c.Disabled, "objects.url is s3://two") {
		t.Errorf("another bucket: %s", c.Disabled)
	}
	gateway.Stop()
	compareEvery = 10 * time.Millisecond
	_, again := open(one)
	_, other := open(two)
	if again.Objects == nil || other.Objects == nil {
		t.Fatal("a server that starts while its bucket does not answer never uses it: ", again.Disabled, other.Disabled)
	}
	if err := put(again); ares.CodeOf(err) != ares.Unavailable {
		t.Errorf("without the S3 server: %v", err)
	}
	gateway.Resume()
	live.Await(t, time.Minute, "the bucket", func() (bool, string) { err := put(again); return err == nil, fmt.Sprint(err) })
	live.Await(t, time.Minute, "the refusal of the other bucket", func() (bool, string) {
		err := put(other)
		return ares.CodeOf(err) == ares.FeatureDisabled, fmt.Sprint(err)
	})
}
