package screens

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/ares-scheduler/ares/test/e2e/terminal"
)

var rewrite = flag.Bool("rewrite", false, "write the screens in testdata anew")

var widths = []int{60, 80, 120, 200}

// TestLists compares the screens of the lists with those in testdata, at several widths.
func TestLists(t *testing.T) {
	t.Parallel()
	ares := serve(t, &fake{jobs: someJobs()})
	for name, args := range map[string][]string{
		"jobs":         {"ps"},
		"jobs-columns": {"job", "list", "--columns", "name,labels,reason", "--sort", "-age", "--no-header"},
		"nodes":        {"node", "list"},
		"queues":       {"queue", "list"},
		"tenants":      {"tenant", "list"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			for _, columns := range widths {
				x := terminal.Start(t, columns, 24, ares(args...))
				if code := x.Wait(); code != 0 {
					t.Fatalf("exit code %d at %d columns:\n%s", code, columns, x.Screen())
				}
				s := x.Screen()
				if len(s.Unknown) > 0 || s.Alternate {
					t.Errorf("%d columns: a list must not control the terminal: %q", columns, s.Unknown)
				}
				fmt.Fprintf(&got, "%s at %d columns:\n%s\n", strings.Join(args, " "), columns, s)
			}
			compare(t, name, got.String())
		})
	}
}

// compare compares a text with a file in testdata.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestNoLineIsWrapped checks every width from 1 to 130: each job has exactly one line, which is not wider than the terminal.
func TestNoLineIsWrapped(t *testing.T) {
	t.Parallel()
	jobs := someJobs()
	ares := serve(t, &fake{jobs: jobs})
	for columns := 1; columns <= 130; columns += 13 {
		x := terminal.Start(t, columns, 24, ares("ps"))
		x.Wait()
		lines := strings.Split(strings.TrimSuffix(x.Screen().String(), "\n"), "\n")
		if len(lines) != len(jobs)+1 {
			t.Errorf("%d columns, %d lines:\n%s", columns, len(lines), x.Screen())
		}
		for _, line := range lines {
			if uniseg.StringWidth(line) > columns {
				t.Errorf("a line is wider than %d columns: %q", columns, line)
			}
		}
	}
}

// TestTerminalOfUnknownSize checks that a terminal of the size 0 is taken for one of 80 columns, or for one of the size in COLUMNS.
func TestTerminalOfUnknownSize(t *testing.T) {
	t.Parallel()
	ares := serve(t, &fake{jobs: someJobs()})
	at := func(columns int, env ...string) string {
		cmd := ares("ps")
		cmd.Env = append(cmd.Env, env...)
		x := terminal.Start(t, columns, 0, cmd)
		if code := x.Wait(); code != 0 {
			t.Errorf("exit code %d", code)
		}
		return x.Raw()
	}
	if got, want := at(0), at(80); got != want {
		t.Errorf("0 columns:\n%s80 columns:\n%s", got, want)
	}
	if got, want := at(0, "COLUMNS=60"), at(60); got != want {
		t.Errorf("COLUMNS=60:\n%s60 columns:\n%s", got, want)
	}
}

// TestPipe checks that a list in a pipe has whole IDs and texts, and no control sequences.
func TestPipe(t *testing.T) {
	t.Parallel()
	ares := serve(t, &fake{jobs: someJobs()})
	out, err := ares("ps").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{jobID("k3jd52mzq"), "quota of tenant vision: 2 of 16 GPUs left", "🚀 launch 火箭", "redalert line"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.ContainsAny(string(out), "\x1b\x07") {
		t.Errorf("control characters in %q", out)
	}
	for format, want := range map[string]string{
		"name": jobID("z") + "\n",
		"csv":  jobID("m2x") + ",redalert line,vision,training,user:ann,failed,50,1,,1,",
		"wide": "project=café",
		"json": `"job_id": "` + jobID("z") + `"`,
		"yaml": "job_id: " + jobID("z") + "\n",
	} {
		if out, err := ares("ps", "-o", format).Output(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("-o %s: %v, no %q in\n%s", format, err, want, out)
		}
	}
}

// TestClosedOutput checks that a program that reads only the beginning of a list sees no error.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	jobs := someJobs()
	for range 12 {
		jobs = append(jobs, jobs...)
	}
	list := serve(t, &fake{jobs: jobs})("ps", "--limit", "0", "--columns", "id,name,reason")
	cmd := *list
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `"$@" | head -1`, "sh"}, list.Args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 || strings.Count(string(out), "\n") != 1 || !strings.HasPrefix(string(out), "ID ") {
		t.Errorf("%v, stderr %q, stdout %.200q", err, errs.String(), out)
	}
}
