package audit

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The function `written` creates a log with several segments and heads, and closes the log as a server does.
func written(t testing.TB) (dir string, head Head) {
	t.Helper()
	dir = t.TempDir()
	l := start(t, dir, small)
	for range 4 {
		l.record(8)
		var err error
		if head, err = l.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	l.stop()
	good(t, dir, head)
	return dir, head
}

// The function `copied` returns a copy of a log, which the test then changes.
func copied(t testing.TB, from string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func lines(data []byte) [][]byte {
	return bytes.SplitAfter(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
}

// TestEveryByteCounts changes each byte of an entry in the middle of the log and of the last entry. TestEveryByteCounts
// checks that Verify finds every change.
func TestEveryByteCounts(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, small)
	l.record(8)
	l.stop()
	all, err := segments(dir)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for _, s := range all {
		data := read(t, s.path)
		begin := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
		for i := begin; i < len(data); i++ {
			for _, b := range []byte{data[i] ^ 1, data[i] ^ 0x20} { // 0x20 turns lower case into upper case
				bad := slices.Clone(data)
				bad[i] = b
				write(t, s.path, bad)
				if r := verify(t, dir); r.OK() {
					t.Fatalf("byte %d of %q as %q is not found", i-begin, data[begin:], b)
				}
			}
		}
		write(t, s.path, data)
	}
	good(t, dir)
}

// TestForgedEntry checks that Verify detects two kinds of forgery. If one entry is changed and only its own hash is recomputed, the
// next entry must reveal the forgery. If all hashes are recomputed, the signed heads must reveal the forgery.
func TestForgedEntry(t *testing.T) {
	from, head := written(t)
	dir := copied(t, from)
	path := filepath.Join(dir, segmentName(1))
	data := read(t, path)
	old := lines(data)
	e, err := ReadLine(bytes.TrimSuffix(old[2], []byte{'\n'}))
	if err != nil {
		t.Fatal(err)
	}
	e.User = "somebody-else"
	line, err := e.Line()
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, bytes.Replace(data, bytes.TrimSuffix(old[2], []byte{'\n'}), line, 1))
	wantFault(t, verify(t, dir), "does not carry the hash")

	// Recompute the hashes of the rest of the log, starting with the changed entry.
	rechain(t, dir, func(e *Entry) {
		if e.Sequence == 3 {
			e.User = "somebody-else"
		}
	})
	wantFault(t, verify(t, dir), "differs from the entry that was signed")

	// Sign the heads again with the forger's own key. Only a head that was stored outside the log reveals this forgery.
	resign(t, dir)
	good(t, dir)
	wantFault(t, verify(t, dir, head), "is signed with the key")
}

// The function `rechain` rewrites a log with changed entries and recomputes every hash.
func rechain(t *testing.T, dir string, change func(*Entry)) {
	t.Helper()
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	prev := genesis
	for _, s := range all {
		var out bytes.Buffer
		for _, l := range lines(read(t, s.path)) {
			var e Entry
			if err = json.Unmarshal(l, &e); err != nil {
				t.Fatal(err)
			}
			change(&e)
			line, sealErr := e.seal(nil, e.Sequence, prev)
			if sealErr != nil {
				t.Fatal(sealErr)
			}
			prev = e.Hash
			out.Write(append(line, '\n'))
		}
		write(t, s.path, out.Bytes())
	}
}

// The function `resign` signs all heads of a log again with another key.
func resign(t *testing.T, dir string) {
	t.Helper()
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if err = os.Remove(filepath.Join(dir, headsName(one.first))); err != nil {
			t.Fatal(err)
		}
		last, readErr := lastEntry(one.path)
		if readErr != nil {
			t.Fatal(readErr)
		}
		forger := &signer{dir: dir, server: "s1", key: key}
		if err = forger.sign(one.first, last.Sequence, last.Hash, last.Time); err != nil {
			t.Fatal(err)
		}
	}
}

func wantFault(t *testing.T, r *Report, words string) {
	t.Helper()
	if !slices.ContainsFunc(r.Faults, func(f Fault) bool { return strings.Contains(f.Text, words) }) {
		t.Errorf("found %v, want something that %q", r.Faults, words)
	}
}

// TestTruncation cuts single entries and whole segments off the end of a log. The remaining chain is still valid, so the signed heads
// must reveal that entries were removed. If the signed heads were removed too, a head that was stored outside the log must reveal the
// removal.
func TestTruncation(t *testing.T) {
	from, head := written(t)
	dir := copied(t, from)
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(all) - 1; i > 0; i-- {
		for left := lines(read(t, all[i].path)); len(left) > 1; {
			left = left[:len(left)-1]
			write(t, all[i].path, bytes.Join(left, nil))
			wantFault(t, verify(t, dir), "its end was cut off")
		}
		if err = os.Remove(all[i].path); err != nil {
			t.Fatal(err)
		}
		wantFault(t, verify(t, dir), "the segment that it signs is missing")
		if _, err = Open(Config{Dir: dir}); err == nil {
			t.Fatalf("a log without %s was opened", all[i].path)
		}
	}
	for _, gone := range all[1:] {
		if err = os.Remove(filepath.Join(dir, headsName(gone.first))); err != nil {
			t.Fatal(err)
		}
	}
	good(t, dir)
	wantFault(t, verify(t, dir, head), "its end was cut off")
}

func TestTruncationUnderARunningServer(t *testing.T) {
	l := start(t, t.TempDir())
	l.record(5)
	path := filepath.Join(l.Dir(), segmentName(1))
	data := read(t, path)
	all := lines(data)
	write(t, path, bytes.Join(all[:len(all)-1], nil))
	r, err := l.Verify(Check{})
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, r, "the files were changed while the server was running")
	write(t, path, data)
}

func TestSwappedSegments(t *testing.T) {
	from, _ := written(t)
	dir := copied(t, from)
	all, err := segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, b := read(t, all[0].path), read(t, all[1].path)
	write(t, all[0].path, b)
	write(t, all[1].path, a)
	if verify(t, dir).OK() {
		t.Error("segments that were swapped are not found")
	}
}

// TestAnySingleEdit makes one change to one file of the log and checks that Verify finds the change. If only the last
// head is removed, Verify can only report that the last entries are not signed.
func TestAnySingleEdit(t *testing.T) {
	from, _ := written(t)
	names, err := filepath.Glob(filepath.Join(from, "*.jsonl"))
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	newest := filepath.Base(names[len(names)-1]) // names of heads sort after those of segments
	dir := copied(t, from)
	rapid.Check(t, func(rt *rapid.T) {
		name := filepath.Base(rapid.SampledFrom(names).Draw(rt, "file"))
		path := filepath.Join(dir, name)
		data := read(t, filepath.Join(from, name))
		defer write(t, path, data)
		bad, gone := edit(rt, data)
		if gone {
			if err := os.Remove(path); err != nil {
				rt.Fatal(err)
			}
		} else {
			write(t, path, bad)
			if bytes.Equal(bad, data) {
				return
			}
		}
		r := verify(t, dir)
		told := name == newest && r.Signed < r.Last
		if r.OK() && !told {
			rt.Fatalf("an edit of %s is not found", name)
		}
	})
}

// The function `edit` makes a random change to a file, as an attacker or a bad disk might do.
func edit(rt *rapid.T, data []byte) (bad []byte, gone bool) {
	at := rapid.IntRange(0, len(data)-1).Draw(rt, "at")
	all := lines(data)
	one := rapid.IntRange(0, len(all)-1).Draw(rt, "line")
	other := rapid.IntRange(0, len(all)-1).Draw(rt, "other line")
	all = slices.Clone(all)
	if n := len(all) - 1; !bytes.HasSuffix(all[n], []byte{'\n'}) {
		all[n] = append(slices.Clone(all[n]), '\n')
	}
	bad = slices.Clone(data)
	switch rapid.SampledFrom([]string{"byte", "bit", "insert", "delete", "cut", "line", "twice", "swap", "newline", "file"}).Draw(rt, "edit") {
	case "byte":
		bad[at] = rapid.Byte().Draw(rt, "byte")
	case "bit":
		bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
	case "insert":
		bad = slices.Insert(bad, at, rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(rt, "bytes")...)
	case "delete":
		bad = slices.Delete(bad, at, min(at+rapid.IntRange(1, 400).Draw(rt, "length"), len(bad)))
	case "cut":
		bad = bad[:at]
	case "line":
		bad = bytes.Join(slices.Delete(all, one, one+1), nil)
	case "twice":
		bad = bytes.Join(slices.Insert(all, other, all[one]), nil)
	case "swap":
		all[one], all[other] = all[other], all[one]
		bad = bytes.Join(all, nil)
	case "newline":
		bad = append(bad, '\n')
	case "file":
		return nil, true
	}
	return bad, false
}

func FuzzReadLine(f *testing.F) {
	e := testEntry(1)
	line, err := e.seal(nil, 1, genesis)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := ReadLine(data)
		if err == nil && e.Hash != hashOf(data[:len(data)-tail]) {
			t.Errorf("%q is taken with a hash that it has not", data)
		}
	})
}

func FuzzReadHead(f *testing.F) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	h := Head{Kind: Top, Number: 1, Server: "s", Sequence: 2, Hash: genesis, Key: base64.StdEncoding.EncodeToString(key[32:])}
	h.Signature = base64.StdEncoding.EncodeToString(ed25519.Sign(key, h.signed()))
	data, err := json.Marshal(h)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := ReadHead(data); err == nil && h.Check() != nil {
			t.Errorf("%q is taken without a signature", data)
		}
	})
}
