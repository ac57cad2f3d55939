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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// pagePath is the page that has the results.
const pagePath = "docs/reference/performance.md"

// wholeLimit ends a benchmark that hangs.
const wholeLimit = 2 * time.Hour

func main() {
	tiny := flag.Bool("tiny", false, "run every benchmark once in its tiny form, and write nothing")
	set := flag.String("set", "", "the benchmarks to run whole: bench, sim or failover")
	only := flag.String("only", "", "run only the benchmarks that match this regular expression, such as Submit or bench/load")
	compileTo := flag.String("compile", "", "compile the chosen benchmarks into this directory and run nothing")
	compiled := flag.String("compiled", "", "use the programs that -compile wrote to this directory, on a machine without Go and git")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, &options{*tiny, *set, *only, *compileTo, *compiled}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// options are the flags of this program; the texts above explain them.
type options struct {
	tiny                bool
	set, only           string
	compileTo, compiled string
}

func run(ctx context.Context, o *options) error {
	if !o.tiny && !slices.Contains([]string{setBench, setSim, setFailover}, o.set) {
		return fmt.Errorf("-set %q is unknown: use -tiny, or -set with bench, sim or failover", o.set)
	}
	if o.tiny && (o.compileTo != "" || o.compiled != "") {
		return errors.New("-compile and -compiled need -set: the tiny forms are for machines with Go")
	}
	if !o.tiny && rounds.Tiny() {
		return errors.New("ARES_BENCH_TINY is set: the figures of tiny benchmarks mean nothing, so unset it")
	}
	pattern, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err = os.Stat(filepath.Join(root, pagePath)); err != nil {
		return fmt.Errorf("run this program in the root of the repository: %w", err)
	}
	all, err := listBenchmarks(root)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "ares-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // it is below the directory for temporary files
	selected := slices.DeleteFunc(all, func(b benchmark) bool { return !pattern.MatchString(b.String()) || !o.tiny && b.set() != o.set })
	if o.compiled != "" {
		if o.compiled, err = filepath.Abs(o.compiled); err != nil {
			return err
		}
	}
	switch {
	case o.tiny:
		return runTiny(ctx, root, scratch, selected)
	case o.compileTo != "":
		return compileAll(ctx, root, o.compileTo, selected)
	}
	return runWhole(ctx, root, scratch, o.compiled, selected)
}

// runWhole runs the benchmarks that have a block on the page, and those below test/bench, which exist for the page.
// It writes the results of each benchmark as soon as it ends, and returns the failures of all of them.
func runWhole(ctx context.Context, root, scratch, compiled string, selected []benchmark) error {
	p, err := readPage(filepath.Join(root, pagePath))
	if err != nil {
		return err
	}
	blocks, err := p.blocks()
	if err != nil {
		return err
	}
	blocks = slices.DeleteFunc(blocks, func(b block) bool { return !slices.Contains(selected, b.benchmark) })
	for _, b := range selected {
		if strings.HasPrefix(b.dir, "test/bench/") && !slices.ContainsFunc(blocks, func(o block) bool { return o.benchmark == b }) {
			blocks = append(blocks, p.add(b))
		}
	}
	if len(blocks) == 0 {
		return errors.New("no benchmark of this set is chosen: say make bench, bench-sim or failover, and look at ONLY")
	}
	id, err := versionOf(ctx, root, compiled)
	if err != nil {
		return err
	}
	if err = p.setMachine(machine()); err != nil {
		return err
	}
	programs, failures := map[string]*program{}, []error(nil)
	for _, b := range blocks {
		if ctx.Err() != nil {
			return errors.Join(append(failures, ctx.Err())...)
		}
		if compiled != "" {
			programs[b.dir] = &program{root: root, dir: b.dir, path: programPath(compiled, b.dir)}
		} else if programs[b.dir] == nil {
			if programs[b.dir], err = obtain(ctx, root, b.dir, scratch); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		results, err := measure(ctx, programs[b.dir], b, id)
		failures = append(failures, err, p.set(b.benchmark, results))
	}
	return errors.Join(failures...)
}

// measure runs one benchmark whole and returns its results for the page.
func measure(ctx context.Context, p *program, b block, id string) (string, error) {
	fmt.Printf("\n== %s\n", b)
	args, date, before := make([]string, len(b.args)), time.Now().UTC(), load()
	for i, arg := range b.args {
		args[i] = "-test." + strings.TrimPrefix(arg, "-")
	}
	done := p.bench(ctx, "^"+b.name+"$", args, wholeLimit, os.Stdout)
	head := fmt.Sprintf("*%s, commit %s, %d cores, load %s to %s, %.0f s, %.0f s of CPU time.*",
		date.Format("2006-01-02 15:04 UTC"), id, runtime.NumCPU(), before, load(), done.wall.Seconds(), done.cpu.Seconds())
	results := head + "\n\n" + section(done.output)
	failed, skipped := problems(done.output, []string{b.name})
	why := append(failed, skipped...)
	if done.err != nil {
		why = append(why, done.err.Error())
	}
	if len(why) == 0 {
		return results, nil
	}
	reason := strings.Join(why, ", ")
	return strings.TrimSpace(fmt.Sprintf("%s\n\n**This run failed:** %s.\n\n%s", results, reason, check(done.output))), fmt.Errorf("%s: %s", b, reason)
}

// obtain compiles the benchmarks of a package. If the package is a module of its own, its dependencies may be missing.
func obtain(ctx context.Context, root, dir, scratch string, env ...string) (*program, error) {
	if hasOwnModule(root, dir) {
		fetch := exec.CommandContext(ctx, "go", "list", "-deps", "-test", ".")
		fetch.Dir = filepath.Join(root, dir)
		if out, err := fetch.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %w\n%s", dir, errNotFetched, err, out)
		}
	}
	return compile(ctx, root, dir, scratch, env)
}

var errNotFetched = errors.New("its modules cannot be fetched")

// tinyCPU is the processor time that the tiny benchmarks of one package may use, and tinyWall the time until they end.
const (
	tinyCPU  = 20 * time.Second
	tinyWall = 5 * time.Minute
)

// runTiny runs all given benchmarks in their tiny form, package by package.
func runTiny(ctx context.Context, root, scratch string, selected []benchmark) error {
	traces := filepath.Join(scratch, "traces")
	if err := writeTraces(traces); err != nil {
		return err
	}
	env := []string{"ARES_BENCH_TINY=1", "ARES_TRACES=" + traces}
	names := map[string][]string{}
	var dirs []string
	for _, b := range selected {
		if names[b.dir] == nil {
			dirs = append(dirs, b.dir)
		}
		names[b.dir] = append(names[b.dir], b.name)
	}
	var failures []error
	begin, cpu := time.Now(), time.Duration(0)
	for _, dir := range dirs {
		if ctx.Err() != nil {
			return errors.Join(append(failures, ctx.Err())...)
		}
		p, err := obtain(ctx, root, dir, scratch, env...)
		if errors.Is(err, errNotFetched) {
			fmt.Printf("NOT RUN  %v\n", err)
			continue
		} else if err != nil {
			failures = append(failures, err)
			continue
		}
		done := p.bench(ctx, "^("+strings.Join(names[dir], "|")+")$", nil, tinyWall, io.Discard)
		cpu += done.cpu
		err = verdict(dir, names[dir], &done)
		fmt.Printf("%-6s %-32s %2d benchmarks, %.1f s, %.1f s of CPU time\n", state(err), dir, len(names[dir]), done.wall.Seconds(), done.cpu.Seconds())
		failures = append(failures, err)
		_ = os.Remove(p.path)
	}
	fmt.Printf("%d benchmarks of %d packages in %.0f s, %.0f s of CPU time without compiling\n", len(selected), len(dirs), time.Since(begin).Seconds(), cpu.Seconds())
	return errors.Join(failures...)
}

func state(err error) string {
	if err != nil {
		return "FAIL"
	}
	return "ok"
}

// verdict judges the tiny run of a package. Some benchmarks can only run as root; a skipped benchmark is a failure
// for root, because root can run them all.
func verdict(dir string, names []string, done *finished) error {
	failed, skipped := problems(done.output, names)
	if os.Getuid() == 0 {
		failed = append(failed, skipped...)
	} else if len(skipped) > 0 {
		fmt.Printf("NOT RUN  %s: %s\n", dir, strings.Join(skipped, ", "))
	}
	if done.err != nil {
		failed = append(failed, done.err.Error())
	}
	if done.cpu > tinyCPU {
		failed = append(failed, fmt.Sprintf("%.0f s of CPU time: give its benchmarks a tiny form with rounds.Sized", done.cpu.Seconds()))
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s\n%s", dir, strings.Join(failed, "; "), done.output)
}
