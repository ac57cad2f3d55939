package bucket_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ares "github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/objects/bucket"
	"github.com/ares-scheduler/ares/test/s3"
)

// TestURLs checks which URLs are accepted, and that the error for any other says what to write.
func TestURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"s3://models":           "s3://models",
		"s3://models/ares/prod": "s3://models/ares/prod",
		"s3://models?region=eu-west-1&endpoint=https://minio.example:9000": "s3://models?region=eu-west-1&endpoint=https://minio.example:9000",
	} {
		place, err := bucket.ParseURL(text)
		if err != nil || place.String() != want {
			t.Errorf("%s: got %s, %v", text, place, err)
		}
	}
	for text, want := range map[string]string{
		"":                                 "write it as s3://BUCKET",
		"models":                           "write it as s3://BUCKET",
		"gs://models":                      "write it as s3://BUCKET",
		"s3:///models":                     "write it as s3://BUCKET",
		"s3://models:9000":                 "write it as s3://BUCKET",
		"s3://models?regoin=x":             "the parameter regoin",
		"s3://models?region=a&region=b":    "there twice",
		"s3://key:secret@models":           "AWS_ACCESS_KEY_ID",
		"s3://models?endpoint=minio:9000":  "write endpoint=https://HOST:PORT",
		"s3://models?endpoint=https://u@h": "write endpoint=https://HOST:PORT",
		"s3://models?region=%zz":           "cannot be read",
		"s3://mo dels":                     "write it as s3://BUCKET",
	} {
		if place, err := bucket.ParseURL(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v, want %q", text, place, err, want)
		}
	}
	place, err := bucket.ParseURL("s3://models/ares?region=eu-west-1")
	if sub := place.Sub("logs").String(); err != nil || sub != "s3://models/ares/logs?region=eu-west-1" {
		t.Errorf("got %s, %v", sub, err)
	}
}

// TestOneIdentity lets several servers name a place at the same time: all of them get the same ID, in a directory and in a bucket.
func TestOneIdentity(t *testing.T) {
	for name, place := range map[string]bucket.Place{"directory": bucket.InDir(t.TempDir()), "bucket": s3.Start(t).Place("names")} {
		var all sync.Map
		var wg sync.WaitGroup
		for range 8 {
			b := open(t, place)
			wg.Go(func() {
				id, err := b.Identity(t.Context())
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				all.Store(id, true)
			})
		}
		wg.Wait()
		n := 0
		all.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Errorf("%s: %d IDs", name, n)
		}
	}
}

func open(t *testing.T, place bucket.Place) *bucket.Bucket {
	t.Helper()
	b, err := bucket.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestProblemsOfAnS3Server checks that an administrator is told what is wrong: no bucket, other credentials, no server. A bucket that was
// refused says why.
func TestProblemsOfAnS3Server(t *testing.T) {
	server := s3.Start(t)
	problem := func(url string) error {
		t.Helper()
		place, err := bucket.ParseURL(url)
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, place)
		_, err = b.ReadAll(t.Context(), "x")
		if err == nil {
			t.Fatal("read what is not there")
		}
		return b.Problem("read an object", err)
	}
	if err := problem(server.URL("missing")); ares.CodeOf(err) != ares.Unavailable || !strings.Contains(err.Error(), "there is no such bucket") {
		t.Errorf("no bucket: %v", err)
	}
	there := server.Bucket("there")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	err := problem(there)
	if !strings.Contains(err.Error(), "refused the credentials") || !strings.Contains(err.Error(), "AWS_SECRET_ACCESS_KEY") {
		t.Errorf("other credentials: %v", err)
	}
	if strings.Contains(err.Error(), s3.SecretKey) || strings.Contains(err.Error(), "another") {
		t.Errorf("the error tells the secret: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", s3.SecretKey)
	server.Stop()
	if err = problem(there); !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "\n") {
		t.Errorf("no server: %v", err)
	}

	b := open(t, bucket.InDir(t.TempDir()))
	if err = b.Refuse(ares.Errorf(ares.FeatureDisabled, "another place")); err != nil {
		t.Fatal(err)
	}
	if _, err = b.ReadAll(t.Context(), "x"); err == nil || ares.CodeOf(b.Problem("read an object", err)) != ares.FeatureDisabled {
		t.Errorf("a refused place: %v", err)
	}
}

// TestPrune checks that only empty directories are removed.
func TestPrune(t *testing.T) {
	t.Parallel()
	b := open(t, bucket.InDir(t.TempDir()))
	for _, key := range []string{"a/b/gone", "a/c/stays"} {
		if err := b.WriteAll(t.Context(), key, []byte("x"), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Delete(t.Context(), "a/b/gone"), b.Prune("a"), b.Prune("none")); err != nil {
		t.Error(err)
	}
	if ok, err := b.Exists(t.Context(), "a/c/stays"); err != nil || !ok {
		t.Errorf("the other object: %t, %v", ok, err)
	}
	if left, err := os.ReadDir(filepath.Join(b.Place().Dir, "a")); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}
