package scripts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	pty "github.com/ares-scheduler/ares/test/e2e/terminal"
)

// The script command "terminal CODE DIALOG COMMAND [ARG...]" runs a command on a terminal of 100 columns, as a user does.
// The command must end with the exit code CODE. Each line of the file DIALOG is one step: "expect REGEXP" waits until the
// new output matches, "send TEXT" types a text in which \n is Enter and ^C is Ctrl-C, and "touch FILE" creates a file. The
// output of the terminal becomes the script's stdout.
func terminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: terminal CODE DIALOG COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(of(ts).tb.Context(), patience)
	defer cancel()
	user, program, err := pty.Open(100, 40)
	ts.Check(err)
	defer user.Close()
	cmd := of(ts).command(ctx, ts, args[2:])
	pty.Attach(cmd, program)
	cmd.Env = append(cmd.Env, "TERM=xterm-256color")
	ts.Check(cmd.Start())
	ts.Check(program.Close())
	output := make(chan string)
	go func() {
		defer close(output)
		buf := make([]byte, 4096)
		for {
			n, err := user.Read(buf)
			if n > 0 {
				output <- string(buf[:n])
			}
			if err != nil { // EIO: the program has ended
				return
			}
		}
	}()
	all, failed := converse(ctx, user, output, ts.MkAbs("."), ts.ReadFile(args[1]))
	if failed != nil {
		cancel() // kills the program
	}
	for text := range output {
		all += text
	}
	err = cmd.Wait()
	_, _ = ts.Stdout().Write([]byte(strings.ReplaceAll(all, "\r\n", "\n")))
	if failed != nil {
		ts.Fatalf("%s; the terminal shows:\n%s", failed, all)
	}
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d (%v), want %d; the terminal shows:\n%s", got, err, want, all)
	}
}

// `converse` takes the steps of a dialog. It returns everything that the program has printed.
func converse(ctx context.Context, user *os.File, output <-chan string, dir, dialog string) (all string, err error) {
	seen := 0 // the part of the output that an earlier step has matched
	for line := range strings.SplitSeq(strings.TrimSpace(dialog), "\n") {
		step, text, _ := strings.Cut(line, " ")
		switch step {
		case "send":
			text = strings.NewReplacer(`\n`, "\n", "^C", "\x03", "^P", "\x10", "^Q", "\x11").Replace(text)
			if _, err = user.WriteString(text); err != nil {
				return all, err
			}
		case "expect":
			want, err := regexp.Compile("(?m)" + text)
			if err != nil {
				return all, err
			}
			for want.FindStringIndex(all[seen:]) == nil {
				select {
				case more, open := <-output:
					if all += more; !open {
						return all, fmt.Errorf("the program ended before %q", text)
					}
				case <-ctx.Done():
					return all, fmt.Errorf("no match for %q within %s", text, patience)
				}
			}
			seen += want.FindStringIndex(all[seen:])[1]
		case "touch":
			if err = os.WriteFile(filepath.Join(dir, text), nil, 0o600); err != nil {
				return all, err
			}
		default:
			return all, fmt.Errorf("%q is no step of a dialog", line)
		}
	}
	return all, nil
}
