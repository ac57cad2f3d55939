package sim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ares-scheduler/ares/cli/command"
	"github.com/ares-scheduler/ares/cli/output"
	"github.com/ares-scheduler/ares/server"
	"github.com/ares-scheduler/ares/sim"
)

// TestWhatIsNoFileIsNotReplaced checks that a pipe receives the output and is not replaced by a
// file. A symbolic link must stay a link, and the permissions of a file must not change.
func TestWhatIsNoFileIsNotReplaced(t *testing.T) {
	t.Parallel()
	hello := func(w io.Writer) error {
		_, err := io.WriteString(w, "hello")
		return err
	}
	for name, write := range map[string]func(string) error{
		"report":    func(path string) error { return toFile(path, hello) },
		"recording": func(path string) error { return server.WriteWhole(path, true, hello) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pipe, file, link, dangling := filepath.Join(dir, "pipe"), filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
			for _, err := range []error{
				syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("old"), 0o600), os.Symlink("file", link), os.Symlink("new", dangling),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			heard := make(chan string)
			go func() {
				text, err := os.ReadFile(pipe)
				heard <- string(text)
				if err != nil {
					t.Error(err)
				}
			}()
			if err := write(pipe); err != nil {
				t.Fatal(err)
			}
			if got := <-heard; got != "hello" {
				t.Errorf("the pipe heard %q", got)
			}
			for _, path := range []string{link, dangling} {
				if err := write(path); err != nil {
					t.Fatal(err)
				}
			}
			for path, want := range map[string]os.FileMode{pipe: os.ModeNamedPipe, link: os.ModeSymlink, dangling: os.ModeSymlink, file: 0, filepath.Join(dir, "new"): 0} {
				info, err := os.Lstat(path)
				if err != nil || info.Mode().Type() != want {
					t.Errorf("%s is %v, %v", path, info, err)
				}
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(len("hello")) {
				t.Errorf("%v, %v", info, err)
			}
			if write(dir) == nil {
				t.Error("a directory was written to")
			}
		})
	}
}

// The type `failing` is a writer that returns an error for every write.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestReportIsNotLost checks that a report is printed if its file cannot be written. In every
// output format, a failure to print the report must be an error.
func TestReportIsNotLost(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone", "file")
	reports := &sim.Reports{Format: sim.ReportFormat, Runs: []sim.Report{{Jobs: 7}}}
	for _, form := range simOutputs {
		for _, f := range []*simFlags{{output: form, out: gone}, {output: form, html: gone}} {
			var stdout bytes.Buffer
			a := &commands{&command.App{Printer: output.Printer{Out: &stdout}}}
			if err := a.writeRuns(f, reports, "rows"); err == nil || stdout.Len() == 0 {
				t.Errorf("%+v: %v, %q", f, err, stdout.String())
			}
		}
		a := &commands{&command.App{Printer: output.Printer{Out: failing{}}}}
		if err := a.writeRuns(&simFlags{output: form}, reports, "rows"); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s on a full disk: %v", form, err)
		}
	}
}
