package host

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/ares-scheduler/ares"
	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
)

// FuzzPrint prints arbitrary answers, because another program at the server's address could send
// anything. FuzzPrint checks that no control character reaches the terminal and that an invalid
// answer is an error.
func FuzzPrint(f *testing.F) {
	for _, s := range []string{
		`{"key":"/ares/jobs/a","revision":"5","value":{"job":{}}}` + "\n", `{"key":1}`, "<html>\n", "{}\n{\n", `{"value":1e999}`, `{"error":"no","code":"forbidden"}`, `{"error":"` + "\u202e\u009b31m" + `"}`, "", "\n", "null", `"a` + "\x7f\xff" + `"`, `{"` + "\u2066" + `":"\u001b[31m"}`, `[1.5,-0,1e-400]`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []string{"table", "json", "yaml"} {
			var out bytes.Buffer
			a := &commands{&command.App{Printer: output.Printer{Out: &out, Err: io.Discard}}}
			if err := a.printRecords(bytes.NewReader(data), &output.Flags{Format: format}); err != nil && err.Error() == "" {
				t.Fatal("refused without a word")
			}
			for _, r := range out.String() {
				if r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
					t.Fatalf("%q as %s let %q through: %q", data, format, r, out.String())
				}
			}
		}
		err := refusal(&http.Response{Status: "403 Forbidden", Body: io.NopCloser(bytes.NewReader(data))})
		if err == nil || err.Error() == "" || ares.CodeOf(err) == "" {
			t.Fatalf("%q is read as %v", data, err)
		}
	})
}
