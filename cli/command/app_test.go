package command

import (
	"errors"
	"strings"
	"testing"
)

// TestSelfNamesTheDataDirectory checks that a command printed for another terminal does not depend on the environment of this process.
func TestSelfNamesTheDataDirectory(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/home/x")
	t.Setenv("ARES_DATA_DIR", "/data of mine")
	t.Chdir("/")
	for dir, want := range map[string]string{
		"/home/x/ares":  "ares",
		"/data of mine": "ares --data-dir '/data of mine'",
		"here":          "ares --data-dir /here",
	} {
		if got := (&App{}).InvocationFor(dir); got != want {
			t.Errorf("%s: %s, want %s", dir, got, want)
		}
	}
}

// TestRemedyForTheRESTAddress checks that a client at the REST port is not told to use TLS.
func TestRemedyForTheRESTAddress(t *testing.T) {
	for text, want := range map[string]string{
		`error reading server preface: http2: frame too large, note that the frame header looked like an HTTP/1.1 header`: "gRPC address",
		`error reading server preface: EOF`: "requires TLS",
	} {
		if got := ConnectRemedy(errors.New(text)); !strings.Contains(got, want) {
			t.Errorf("%s: got %q", text, got)
		}
	}
}
