package job

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ares-scheduler/ares/apipb"
)

// A script of an interactive job runs in a directory of its own, with a program sleep that does not wait.
func runScript(t *testing.T, dir, script string, argv ...string) (string, int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "sleep"), []byte("#!/bin/sh\n"+`[ -x "$TMPDIR/meanwhile" ] && exec "$TMPDIR/meanwhile"; exit 0`), 0o700); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "sh", append([]string{"-c", script, "ares"}, argv...)...)
	c.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + dir, "ARES_JOB_ID=job-x", "ARES_ATTEMPT=1"}
	out, err := c.CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out), failed.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

// TestHoldScript checks how the job of an interactive session ends.
func TestHoldScript(t *testing.T) {
	dir := t.TempDir()
	if out, code := runScript(t, dir, holdScript); code != 125 || !strings.Contains(out, "no session") {
		t.Errorf("without a session: %d, %s", code, out)
	}
	// The session ends, with a code, while the job waits.
	if err := os.WriteFile(filepath.Join(dir, "meanwhile"), []byte("#!/bin/sh\necho 7 >$TMPDIR/.ares-job-x-1.code\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, code := runScript(t, dir, holdScript); code != 7 {
		t.Errorf("the command's code is 7: %d, %s", code, out)
	}
	// A session that lives keeps the job: after 200 seconds, it ends. A dead one does not.
	for kept, pid := range map[string]string{"200": "$PPID", "60": "999999999"} {
		dir := t.TempDir()
		script := "#!/bin/sh\ncd $TMPDIR; echo " + pid + " >.ares-job-x-1.pid; echo x >>seconds; [ $(grep -c x seconds) -lt 200 ] || echo 9 >.ares-job-x-1.code\n"
		if err := os.WriteFile(filepath.Join(dir, "meanwhile"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		_, code := runScript(t, dir, holdScript)
		b, _ := os.ReadFile(filepath.Join(dir, "seconds"))
		if n := strings.Count(string(b), "x"); kept == "200" && (n != 200 || code != 9) || kept == "60" && (n > 61 || code != 125) {
			t.Errorf("PID %s: it ended with %d after %d seconds, want %s", pid, code, n, kept)
		}
	}
}

// TestJoinScript checks that the command's exit code becomes that of the session and of the job, also if a signal ends the command.
func TestJoinScript(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137, "kill -2 $PPID; exit 3": 3} {
		dir := t.TempDir()
		if out, code := runScript(t, dir, joinScript, "sh", "-c", script); code != want {
			t.Errorf("%s: the session ends with %d, want %d: %s", script, code, want, out)
		}
		if out, code := runScript(t, dir, holdScript); code != want {
			t.Errorf("%s: the job ends with %d, want %d: %s", script, code, want, out)
		}
	}
	if _, code := runScript(t, t.TempDir(), joinScript, "no-such-program"); code != 127 {
		t.Errorf("a missing program: code %d", code)
	}
}

func TestCheckInteractive(t *testing.T) {
	for want, spec := range map[string]*apipb.JobSpec{
		"need a command":     {Image: "python:3.12"},
		"the job has 2":      {Command: []string{"bash"}, Members: 2},
		"one with arguments": {Command: []string{"python"}, Args: []string{"-q"}},
	} {
		argv, err := checkInteractive(spec)
		if err == nil && strings.Join(argv, " ") != "python -q" || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v", want, argv, err)
		}
	}
}
