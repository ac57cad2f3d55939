//go:build linux

package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutputFlood lets jobs print more than may be stored, in forms that are hard to handle. No job may be slowed down by its output or end
// for it, no more than the limit may be stored, and the end of the output must be readable.
func TestOutputFlood(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct{ script, end string }{
		{`head -c 20000000 /dev/zero | tr '\0' x; printf end`, "xend"}, // one line without an end
		{`head -c 20000000 /dev/zero; printf end`, "\x00end"},
		{`head -c 5000000 /dev/urandom; printf end`, "end"},
		{`yes "$(printf '\033]0;title\007\033[2J')" | head -c 5000000; printf end`, "end"},
		{`yes '' | head -c 5000000; printf end`, "end"},
		{`exec >&-; echo lost; exec 2>&-; sleep 0.1`, ""}, // closed by the job
	} {
		spec := sh(c.script)
		spec.Rank, spec.LogLimit = i, 64<<10
		p := w.start(spec)
		res := w.wait(p)
		if res.Outcome != Exited || res.LogDropped != 0 {
			t.Errorf("%s: %+v", c.script, res)
		}
		var stored int64
		files, err := filepath.Glob(filepath.Join(w.dir, "seats", spec.Key.String(), "log.*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if st, gone := os.Stat(f); gone == nil {
				stored += st.Size()
			}
		}
		if stored > spec.LogLimit {
			t.Errorf("%s: %d bytes are stored", c.script, stored)
		}
		l, err := w.OpenLog(spec.Key)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Tail(1); err != nil {
			t.Errorf("%s: %v", c.script, err)
		}
		if got := drainLog(w.ctx, t, l, false); !strings.HasSuffix(got, c.end) || int64(len(got)) > spec.LogLimit {
			t.Errorf("%s: the last line has %d bytes and does not end in %q", c.script, len(got), c.end)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
