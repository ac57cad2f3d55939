package command

import "testing"

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
