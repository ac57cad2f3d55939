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
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	workers := flags.Int("j", 2, "how many are tried at once")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ares-mutations-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // scratch
	// The waits of package controltest end, and say what they waited for, before the time limit of the test.
	if err := os.Setenv("ARES_TEST_PATIENCE", (patience / 4).String()); err != nil {
		return err
	}
	r := &runner{root: *root, dir: dir, tests: map[string]*built{}, passed: map[Test]*outcome{}}
	chosen := slices.DeleteFunc(Mutations(), func(m Mutation) bool { return !strings.Contains(m.Name, *only) })
	rows := make([]row, len(chosen))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range *workers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(chosen)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				begun := time.Now()
				said, err := r.try(ctx, chosen[i])
				rows[i] = row{said, err, time.Since(begun)}
				fmt.Fprintf(os.Stderr, "%-34s %5.1f s\n", chosen[i].Name, rows[i].took.Seconds())
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return report(out, chosen, rows, *show)
}

// A `row` is the result of one mutation.
type row struct {
	said string
	err  error // why it counts as not caught
	took time.Duration
}

func report(out io.Writer, chosen []Mutation, rows []row, show bool) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(table, "MUTATION\tCAUGHT BY\tSECONDS\tWHAT IT TAKES AWAY")
	survived := 0
	for i, m := range chosen {
		by := m.Caught.Package + " " + m.Caught.Run
		if rows[i].err != nil {
			survived++
			by = "NOT CAUGHT"
			fmt.Fprintf(out, "%s: %v\n", m.Name, rows[i].err)
		}
		if show {
			fmt.Fprintf(out, "%s\n%s\n", m.Name, rows[i].said)
		}
		fmt.Fprintf(table, "%s\t%s\t%.1f\t%s\n", m.Name, by, rows[i].took.Seconds(), m.Removes)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if survived > 0 || len(chosen) == 0 {
		return fmt.Errorf("%d of %d mutations were not caught", survived, len(chosen))
	}
	fmt.Fprintf(out, "all %d mutations were caught\n", len(chosen))
	return nil
}

// A `runner` runs mutations.
type runner struct {
	root string
	dir  string

	mu     sync.Mutex
	tests  map[string]*built // from the source as it is, by package
	passed map[Test]*outcome // what came of a test without any mutation
}

// This type is the compiled test program of a package.
type built struct {
	once sync.Once
	path string
	err  error
}

// The type `outcome` is the result of a test.
type outcome struct {
	once sync.Once
	err  error
}

// `patience` is the time limit of one test. A test reaches this limit only if it fails.
const patience = 5 * time.Minute

// This method applies the mutation and returns the output of its test. If the test does not fail as
// expected, the method returns an error.
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
		// Skip vet and debugging symbols, because they take longer than most
		// tests.
		said, err = o.Go(ctx, nil, "test", "-p", "2", "-vet=off", "-ldflags=-s -w", "-count", "1",
			"-timeout", patience.String(), "-run", m.Caught.Run, m.Caught.Package)
	}
	switch {
	case ctx.Err() != nil:
		return said, ctx.Err()
	case err == nil:
		return said, errors.New("the test passes all the same")
	case strings.Contains(said, "[build failed]"), !regexp.MustCompile(m.Says).MatchString(said), !strings.Contains(said, "--- FAIL"):
		return said, fmt.Errorf("the test fails, but does not say %q: %s", m.Says, said)
	}
	return said, nil
}

// The method `passes` runs each test only once. It checks that the test passes without any
// mutation.
func (r *runner) passes(ctx context.Context, test Test) error {
	r.mu.Lock()
	o := r.passed[test]
	if o == nil {
		o = &outcome{}
		r.passed[test] = o
	}
	r.mu.Unlock()
	o.once.Do(func() {
		said, err := r.runBuilt(ctx, test)
		for range 2 { // a test that watches real deadlines may fail on a busy machine
			if err != nil && ctx.Err() == nil {
				said, err = r.runBuilt(ctx, test)
			}
		}
		switch {
		case err != nil:
			o.err = fmt.Errorf("the test fails without the mutation: %w\n%s", err, said)
		case !strings.Contains(said, "--- PASS"):
			o.err = fmt.Errorf("%s has no test %s\n%s", test.Package, test.Run, said)
		}
	})
	return o.err
}

// runBuilt runs a test of the unchanged source.
func (r *runner) runBuilt(ctx context.Context, test Test, env ...string) (string, error) {
	r.mu.Lock()
	b := r.tests[test.Package]
	if b == nil {
		b = &built{path: filepath.Join(r.dir, fmt.Sprintf("%d.test", len(r.tests)))}
		r.tests[test.Package] = b
	}
	r.mu.Unlock()
	b.once.Do(func() {
		build := exec.CommandContext(ctx, "go", "test", "-p", "2", "-vet=off", "-ldflags=-s -w", "-c", "-o", b.path, test.Package)
		build.Dir = r.root
		if out, err := build.CombinedOutput(); err != nil {
			b.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	if b.err != nil {
		return "", b.err
	}
	cmd := exec.CommandContext(ctx, b.path, "-test.v", "-test.timeout", patience.String(), "-test.run", test.Run)
	cmd.Dir = filepath.Join(r.root, test.Package)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// This method returns the sources in which the mutation has removed its safeguard.
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
