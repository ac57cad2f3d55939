package job

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// A partReader is a reader that returns one part with each read, and then an error: alone, or together with the last part.
type partReader struct {
	parts    [][]byte
	err      error
	together bool
}

func (p *partReader) Read(b []byte) (int, error) {
	if len(p.parts) == 0 {
		return 0, p.err
	}
	n := copy(b, p.parts[0])
	if p.parts[0] = p.parts[0][n:]; len(p.parts[0]) == 0 {
		p.parts = p.parts[1:]
	}
	if len(p.parts) == 0 && p.together {
		return n, p.err
	}
	return n, nil
}

func typed(parts ...string) *partReader {
	p := &partReader{err: io.EOF}
	for _, part := range parts {
		p.parts = append(p.parts, []byte(part))
	}
	return p
}

// TestDetachKeys types the keys that leave a job, parts of them, and other keys.
func TestDetachKeys(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys   string
		typed  []string
		passed string
		left   bool
	}{
		"nothing":                      {"ab", nil, "", false},
		"at once":                      {"ab", []string{"ab"}, "", true},
		"after other keys":             {"ab", []string{"ls\rab"}, "ls\r", true},
		"one by one":                   {"abc", []string{"x", "a", "b", "c"}, "x", true},
		"split anywhere":               {"abcd", []string{"xabc", "d"}, "x", true},
		"keys after them are dropped":  {"ab", []string{"xabrm -r"}, "x", true},
		"only the first":               {"ab", []string{"a", "x"}, "ax", false},
		"all but the last":             {"abc", []string{"ab", "x"}, "abx", false},
		"the first again":              {"ab", []string{"a", "a", "b"}, "a", true},
		"the begin within the begin":   {"aab", []string{"a", "a", "a", "b"}, "a", true},
		"the begin after the begin":    {"abac", []string{"aba", "bac"}, "ab", true},
		"a single key":                 {"a", []string{"x", "a"}, "x", true},
		"the same key twice":           {"aa", []string{"aba", "a"}, "ab", true},
		"the end after the first":      {"ab", []string{"xa"}, "xa", false},
		"the end after all but one":    {"abac", []string{"aba"}, "aba", false},
		"the end after a wrong prefix": {"aab", []string{"aaa"}, "aaa", false},
	} {
		for _, together := range []bool{false, true} {
			in := typed(c.typed...)
			in.together = together
			passed, err := io.ReadAll(&keyReader{r: in, keys: []byte(c.keys)})
			if string(passed) != c.passed || errors.Is(err, errDetached) != c.left || !c.left && err != nil {
				t.Errorf("%s: passed on %q, and then %v; want %q, left: %t", name, passed, err, c.passed, c.left)
			}
		}
	}
}

// TestDetachKeysAnyInput compares the reader with a search in the whole input, for any keys, any parts and any size of reads. It also checks
// that no key is kept back except those that may be the begin of the keys to leave, because a user waits for the echo of each key.
func TestDetachKeysAnyInput(t *testing.T) {
	t.Parallel()
	lost := errors.New("the terminal is gone")
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]byte("abx")) // so that parts of the keys are typed often
		keys := rapid.SliceOfN(few, 1, 5).Draw(t, "keys")
		input := rapid.SliceOfN(few, 0, 60).Draw(t, "input")
		in := &partReader{err: rapid.SampledFrom([]error{io.EOF, lost}).Draw(t, "end"), together: rapid.Bool().Draw(t, "together")}
		for rest := input; len(rest) > 0; {
			n := min(rapid.IntRange(1, 8).Draw(t, "part"), len(rest))
			in.parts, rest = append(in.parts, bytes.Clone(rest[:n])), rest[n:]
		}
		want, end := input, in.err
		if at := bytes.Index(input, keys); at >= 0 {
			want, end = input[:at], errDetached
		}
		r := &keyReader{r: in, keys: keys}
		var passed []byte
		for b := make([]byte, rapid.IntRange(1, 16).Draw(t, "read")); ; {
			n, err := r.Read(b)
			if passed = append(passed, b[:n]...); err != nil {
				if !errors.Is(err, end) || !bytes.Equal(passed, want) {
					t.Fatalf("passed on %q, and then %v; want %q and %v", passed, err, want, end)
				}
				return
			}
			if n == 0 {
				t.Fatal("a read returns nothing")
			}
			taken := input[:len(input)-len(bytes.Join(in.parts, nil))]
			back := taken[min(len(passed)+len(r.rest), len(taken)):]
			if r.err == nil && !bytes.HasPrefix(keys, back) {
				t.Fatalf("%q is kept back, which is no begin of the keys %q", back, keys)
			}
		}
	})
}

func TestParseKeys(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"ctrl-p,ctrl-q": "\x10\x11", "ctrl-a,d": "\x01d", "ctrl-P": "\x10", "ctrl-@": "\x00", "ctrl-[,ctrl-\\,ctrl-],ctrl-^,ctrl-_": "\x1b\x1c\x1d\x1e\x1f", "~,.": "~.",
		strings.Repeat("a,", maxKeys-1) + "a": strings.Repeat("a", maxKeys),
	} {
		if keys, err := parseKeys(text); err != nil || string(keys) != want {
			t.Errorf("%s: %q, %v", text, keys, err)
		}
	}
	for text, want := range map[string]string{
		"": "is no key", "ctrl-": "is no key", "ctrl-p,": "is no key", ",": "is no key", " ": "is no key", "\x10": "is no key", "é": "is no key", "ctrl-pq": "is no key",
		"ctrl-1": "ctrl-1 is no key", "ctrl-{": "ctrl-{ is no key", strings.Repeat("a,", maxKeys) + "a": "17 keys are too many",
	} {
		if keys, err := parseKeys(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", text, keys, err, want)
		}
	}
}
