package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// TestListFindsBenchmarks checks that every benchmark of the sources is found, also in a nested module, and that no
// other function is taken for one.
func TestListFindsBenchmarks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a/a_test.go": "package a\nfunc BenchmarkA(b *testing.B) {}\nfunc Benchmark(b *testing.B) {}\nfunc Benchmarks(b *testing.B) {}\n" +
			"func BenchmarkNone(n int) {}\nfunc (x T) BenchmarkMethod(b *testing.B) {}\nfunc BenchmarkHelper(b *testing.B, n int) {}\n",
		"a/b.go":                 "package a\nfunc BenchmarkInNoTestFile(b *testing.B) {}\n",
		"a/nested/go.mod":        "module nested\n",
		"a/nested/n_test.go":     "package nested\nfunc BenchmarkNested(b *testing.B) {}\n",
		"a/testdata/c_test.go":   "package c\nfunc BenchmarkData(b *testing.B) {}\n",
		".hidden/h/hide_test.go": "package h\nfunc BenchmarkHidden(b *testing.B) {}\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	got, err := listBenchmarks(dir)
	want := []benchmark{{"a", "BenchmarkA"}, {"a", "Benchmark"}, {"a/nested", "BenchmarkNested"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	if !hasOwnModule(dir, "a/nested") || hasOwnModule(dir, "a") {
		t.Error("the nested module is not told from the others")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestMakeTestRunsEveryBenchmark checks that `make test` runs the tiny benchmarks.
func TestMakeTestRunsEveryBenchmark(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ target, line string }{
		{"test", "\t$(MAKE) -j 2 test-packages test-beside\n"}, {"test-beside", "\t$(BENCH_TINY)\n"},
	} {
		_, recipe, _ := strings.Cut(string(makefile), "\n"+want.target+":")
		recipe, _, _ = strings.Cut(recipe, "\n\n")
		if !strings.Contains(recipe+"\n", want.line) {
			t.Errorf("make test does not run the tiny benchmarks: %s is\n%s", want.target, recipe)
		}
	}
	if !strings.Contains(string(makefile), "\nBENCH_TINY = go run ./test/bench/runner -tiny") {
		t.Error("BENCH_TINY does not run the tiny benchmarks")
	}
}

// TestProblems checks that a benchmark that fails, is skipped or does not run is reported.
func TestProblems(t *testing.T) {
	t.Parallel()
	const output = `goos: linux
BenchmarkGood
BenchmarkGood-2   	       1	 123 ns/op
BenchmarkParts
BenchmarkParts/a=1/b
BenchmarkParts/a=1/b-2   	       1	 5 rows
BenchmarkSkipped
    x_test.go:7: only root can do this
--- SKIP: BenchmarkSkipped
    x_test.go:7: only root can do this
BenchmarkBad
    x_test.go:9: 3 jobs are lost
--- FAIL: BenchmarkBad
    x_test.go:9: 3 jobs are lost
FAIL
`
	failed, skipped := problems(output, []string{"BenchmarkGood", "BenchmarkParts", "BenchmarkSkipped", "BenchmarkBad", "BenchmarkNew"})
	if want := []string{"BenchmarkBad failed", "BenchmarkBad printed no result", "BenchmarkNew printed no result"}; !slices.Equal(failed, want) {
		t.Errorf("failed: %q, want %q", failed, want)
	}
	if want := []string{"BenchmarkSkipped was skipped: x_test.go:7: only root can do this"}; !slices.Equal(skipped, want) {
		t.Errorf("skipped: %q, want %q", skipped, want)
	}
	if got := check(output); got != "- x_test.go:9: 3 jobs are lost" {
		t.Errorf("checks: %q", got)
	}
}

// TestSection checks what becomes of the output of a benchmark: tables stay, result lines become a table if there is
// no other, and the lines of the testing package are left out.
func TestSection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, output, want string }{
		{
			"a table", "goos: linux\nBenchmarkA\n\n**Title** (load 1.0)\n\n| a   | b   |\n|-----|-----|\n| 1   | 2   |\nBenchmarkA-2   \t 1\t 12 ns/op\nPASS\n",
			"**Title** (load 1.0)\n\n| a   | b   |\n|-----|-----|\n| 1   | 2   |",
		},
		{
			"results", "BenchmarkA\nBenchmarkA/one\nBenchmarkA/one-2   \t 200\t 1204012 ns/op\t 2.50001 MiB\nBenchmarkA/two_parts-2 \t 1\t 0.1 rows\nPASS\n",
			"|           | ns/op   | MiB | rows |\n|-----------|---------|-----|------|\n| one       | 1204012 | 2.5 |      |\n| two parts |         |     | 0.1  |",
		},
		{"text", "BenchmarkA\n\nfive of five\n  are good\nBenchmarkA-2 1 12 ns/op\n", "```text\nfive of five\n  are good\n```\n\n|     | ns/op |\n|-----|-------|\n|     | 12    |"},
	} {
		if got := section(c.output); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// TestPageKeepsItsText checks that results replace the earlier results of the same benchmark, and nothing else.
func TestPageKeepsItsText(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	write(t, path, "# P\n<!-- machine -->\nold\n<!-- end of results -->\nA.\n\n<!-- results: a BenchmarkA -benchtime=200x -->\nold\n<!-- end of results -->\nB.\n")
	p, err := readPage(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := p.blocks()
	if err != nil || len(blocks) != 1 || blocks[0].benchmark != (benchmark{"a", "BenchmarkA"}) || !slices.Equal(blocks[0].args, []string{"-benchtime=200x"}) {
		t.Fatal(blocks, err)
	}
	more := p.add(benchmark{"b", "BenchmarkB"})
	for _, err := range []error{p.set(blocks[0].benchmark, "new $1\n"), p.set(more.benchmark, "other"), p.setMachine("2 cores")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := "# P\n<!-- machine -->\n\n2 cores\n\n<!-- end of results -->\nA.\n\n<!-- results: a BenchmarkA -benchtime=200x -->\n\nnew $1\n\n<!-- end of results -->\nB.\n" +
		"\n## Other results\n\n### b BenchmarkB\n\n<!-- results: b BenchmarkB -->\n\nother\n\n<!-- end of results -->\n"
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("%s (%v)\nwant\n%s", text, err, want)
	}
	if err := p.set(benchmark{"c", "BenchmarkC"}, ""); err == nil {
		t.Error("results without a place were accepted")
	}
	p.text = "<!-- results: a BenchmarkA -->\n<!-- results: b BenchmarkB -->\n<!-- end of results -->\n"
	if _, err := p.blocks(); err == nil {
		t.Error("a block without an end was accepted")
	}
}

// TestPerformancePage checks that each block of the page is for a benchmark that exists, and that all tables are in
// blocks. A table outside of them would not be printed again, so its figures would grow old.
func TestPerformancePage(t *testing.T) {
	t.Parallel()
	all, err := listBenchmarks(root)
	if err != nil {
		t.Fatal(err)
	}
	p, err := readPage(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if !slices.Contains(all, b.benchmark) {
			t.Errorf("%s shows results of %s, which does not exist: remove the block", pagePath, b)
		}
	}
	inside := false
	for line := range strings.Lines(p.text) {
		switch {
		case blockStart.MatchString(line) || strings.HasPrefix(line, machineBlock):
			inside = true
		case strings.HasPrefix(line, blockEnd):
			inside = false
		case !inside && strings.HasPrefix(line, "|"):
			t.Errorf("%s has a table that no benchmark prints: %s", pagePath, line)
		}
	}
	if !strings.Contains(p.text, machineBlock) {
		t.Errorf("%s has no %q", pagePath, machineBlock)
	}
}

// TestTracesAreThere checks that the tiny traces have every file that the benchmarks read.
func TestTracesAreThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := writeTraces(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"philly/philly.csv", "philly/philly_deadlines.csv", "openb/openb_node_list_gpu_node.csv", "openb/openb_pod_list_default.csv"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || strings.Count(string(text), "\n") < 40 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}
