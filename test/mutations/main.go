package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ares-scheduler/ares/test/overlay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := start(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "mutations:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

func start(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutations", flag.ContinueOnError)
	root := flags.String("root", ".", "the repository")
	only := flags.String("run", "", "only mutations whose name holds this")
	show := flags.Bool("v", false, "show what each failing test said")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ares-mutations-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch
	r := &runner{root: *root, dir: dir, tests: map[string]string{}, passed: map[Test]error{}}
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "MUTATION\tCAUGHT BY\tSECONDS\tWHAT IT TAKES AWAY")
	n, survived := 0, 0
	for _, m := range Mutations() {
		if !strings.Contains(m.Name, *only) || ctx.Err() != nil {
			continue
		}
		begun := time.Now()
		said, err := r.try(ctx, m)
		by := m.Caught.Package + " " + m.Caught.Run
		n++
		if err != nil {
			survived++
			by = "NOT CAUGHT"
			fmt.Fprintf(out, "%s: %v\n", m.Name, err)
		}
		if *show {
			fmt.Fprintf(out, "%s\n%s\n", m.Name, said)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%s\n", m.Name, by, time.Since(begun).Seconds(), m.Removes)
		fmt.Fprintf(os.Stderr, "%-34s %5.1f s\n", m.Name, time.Since(begun).Seconds())
	}
	if err := table.Flush(); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case n == 0:
		return fmt.Errorf("no mutation is called %q", *only)
	case survived > 0:
		return fmt.Errorf("%d of %d mutations were not caught", survived, n)
	}
	fmt.Fprintf(out, "all %d mutations were caught\n", n)
	return nil
}

// runner tries mutations, one after the other.
type runner struct {
	root   string
	dir    string
	tests  map[string]string // built from the source as it is, by package
	passed map[Test]error    // what came of a test without any mutation
}

// patience bounds one test. It is reached by a failure only.
const patience = 5 * time.Minute

// try takes the safeguard away and returns what the test said to it. It is an
// error when the test has nothing to say.
func (r *runner) try(ctx context.Context, m Mutation) (string, error) {
	if err := r.passes(ctx, m.Caught); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(r.dir, "overlay-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch
	o, err := m.overlay(r.root, dir)
	if err != nil {
		return "", err
	}
	var said string
	if m.Caught.Program {
		program := filepath.Join(dir, "ares")
		if err = o.Build(ctx, program); err != nil {
			return "", err
		}
		said, err = r.runBuilt(ctx, m.Caught, "ARES_TEST_BIN="+program)
	} else {
		said, err = o.Go(ctx, nil, "test", "-p", "2", "-count", "1", "-timeout", patience.String(), "-run", m.Caught.Run, m.Caught.Package)
	}
	switch {
	case ctx.Err() != nil:
		return said, ctx.Err()
	case err == nil:
		return said, errors.New("the test passes all the same")
	case strings.Contains(said, "[build failed]"), !strings.Contains(said, m.Says), !strings.Contains(said, "--- FAIL"):
		return said, fmt.Errorf("the test fails, but does not say %q: %s", m.Says, said)
	}
	return said, nil
}

// passes wants a test to pass without any mutation, once.
func (r *runner) passes(ctx context.Context, test Test) error {
	if err, known := r.passed[test]; known {
		return err
	}
	said, err := r.runBuilt(ctx, test)
	if err != nil {
		err = fmt.Errorf("the test fails without the mutation: %w\n%s", err, said)
	} else if !strings.Contains(said, "--- PASS") {
		err = fmt.Errorf("%s has no test %s\n%s", test.Package, test.Run, said)
	}
	r.passed[test] = err
	return err
}

// runBuilt runs a test of the source as it is.
func (r *runner) runBuilt(ctx context.Context, test Test, env ...string) (string, error) {
	program, ok := r.tests[test.Package]
	if !ok {
		program = filepath.Join(r.dir, fmt.Sprintf("%d.test", len(r.tests)))
		build := exec.CommandContext(ctx, "go", "test", "-p", "2", "-c", "-o", program, test.Package)
		build.Dir = r.root
		if out, err := build.CombinedOutput(); err != nil {
			return string(out), err
		}
		r.tests[test.Package] = program
	}
	cmd := exec.CommandContext(ctx, program, "-test.v", "-test.timeout", patience.String(), "-test.run", test.Run)
	cmd.Dir = filepath.Join(r.root, test.Package)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// overlay is the source without the safeguard.
func (m *Mutation) overlay(root, dir string) (*overlay.Overlay, error) {
	o, err := overlay.New(root, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range m.Edits {
		if err := o.Edit(e.File, e.Old, e.New); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return o, nil
}
