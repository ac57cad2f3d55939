// Package s3 starts a real S3 server for tests. It keeps its buckets in a directory.
package s3

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/test/live"
)

// The credentials of the server.
const (
	AccessKey = "test-access"
	SecretKey = "test-secret-key"
)

// patience is how long the server may take to start.
const patience = time.Minute

// Server is a running S3 server.
type Server struct {
	Addr string

	t   testing.TB
	dir string
	cmd *exec.Cmd
}

// Start starts a server, and sets the credentials in the environment of the test, so the test cannot be parallel. The server ends with
// the test.
func Start(t testing.TB) *Server {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", SecretKey)
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	s := &Server{Addr: live.FreeAddr(t), t: t, dir: t.TempDir()}
	for _, name := range []string{"data", "attributes"} {
		if err := os.Mkdir(filepath.Join(s.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s.Resume()
	t.Cleanup(s.Stop)
	return s
}

// Resume starts the server again after Stop. What it has stored is still there.
func (s *Server) Resume() {
	s.t.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	// The file systems of some machines have no extended attributes.
	s.cmd = exec.Command(live.VersityGW.Path(s.t), "--access", AccessKey, "--secret", SecretKey, "--port", s.Addr, "--quiet",
		"posix", "--sidecar", filepath.Join(s.dir, "attributes"), filepath.Join(s.dir, "data"))
	s.cmd.Stdout, s.cmd.Stderr = log, log
	if err = s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	live.Await(s.t, patience, "the S3 server", func() (bool, string) {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil, fmt.Sprint(err)
	})
}

// Stop kills the server.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Bucket makes a bucket, and returns its URL.
func (s *Server) Bucket(name string) string {
	s.t.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, "data", name), 0o700); err != nil {
		s.t.Fatal(err)
	}
	return s.URL(name)
}

// URL returns the URL of a bucket, which need not exist.
func (s *Server) URL(name string) string {
	return fmt.Sprintf("s3://%s?region=us-east-1&endpoint=http://%s", name, s.Addr)
}

// Place makes a bucket, and returns a place in it.
func (s *Server) Place(name string) bucket.Place {
	s.t.Helper()
	place, err := bucket.ParseURL(s.Bucket(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return place.Sub("below")
}
