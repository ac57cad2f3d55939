package host

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
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

// TestBelowAres checks that a prefix that no key has is an error: a watch of it would wait forever.
func TestBelowAres(t *testing.T) {
	for prefix, want := range map[string]string{"": "", "runs/": "runs/", "/ares/runs/": "runs/", "/": "", "/ares": ""} {
		if got, err := belowAres("watch", prefix); got != want || err != nil {
			t.Errorf("%s is %q, %v, want %q", prefix, got, err, want)
		}
	}
	for prefix, want := range map[string]string{
		"/state/job-1":    "/state/job-1 is a key of the source document: use ares debug watch runs/job-1",
		"/queue/pending/": "/queue/pending/ is a key of the source document: use ares debug watch runs/",
		"/etc/":           "there are no keys below /etc/: use a prefix below /ares/, such as ares debug watch runs/",
	} {
		if got, err := belowAres("watch", prefix); err == nil || err.Error() != want {
			t.Errorf("%s is %q, %v, want %s", prefix, got, err, want)
		}
	}
	err := (&commands{}).getKeys(t.Context(), "", "nodes/vm", false, false)
	if err == nil || !strings.Contains(err.Error(), "such as /ares/nodes/vm") {
		t.Errorf("a key without /ares/ is %v", err)
	}
}

// TestQueueOrder checks that the queue lists jobs of one priority by their age.
func TestQueueOrder(t *testing.T) {
	jobs := map[string]*storedJob{}
	for _, j := range []struct {
		id, at   string
		priority any
	}{{"job-a", "1000", 5.0}, {"job-b", "999", 5.0}, {"job-c", "1001", nil}} {
		jobs[j.id] = &storedJob{id: j.id, job: map[string]any{"accepted_at": j.at, "spec": map[string]any{"priority": j.priority}}}
	}
	var got []string
	err := showJobs(documentKeyOf("/queue/pending/"), jobs, func(k string, _ any) error { got = append(got, k); return nil })
	if want := []string{"/queue/pending/job-c", "/queue/pending/job-b", "/queue/pending/job-a"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
