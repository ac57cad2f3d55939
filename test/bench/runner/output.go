package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ares-scheduler/ares/test/bench/rounds"
)

// resultLine matches a line such as "BenchmarkExec-2   200   1204000 ns/op". The suffix is the number of processors.
var resultLine = regexp.MustCompile(`^(Benchmark[^\s/-]*)(/\S*?)?(-\d+)?\s+(\d+)(\s.*)?$`)

// problems returns what is wrong with the output of the named benchmarks: each must have a result, and none may fail
// or be skipped.
func problems(output string, names []string) (failed, skipped []string) {
	measured, skips := map[string]bool{}, map[string]string{}
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		if m := resultLine.FindStringSubmatch(line); m != nil {
			measured[m[1]] = true
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- SKIP: "); ok {
			name, _, _ := strings.Cut(strings.Fields(rest)[0], "/")
			if why := ""; i+1 < len(lines) {
				why = strings.TrimSpace(lines[i+1])
				skips[strings.Split(name, "-")[0]] = why
			}
		}
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			failed = append(failed, strings.Fields(rest)[0]+" failed")
		}
	}
	for _, name := range names {
		if why, ok := skips[name]; ok {
			skipped = append(skipped, name+" was skipped: "+why)
		} else if !measured[name] {
			failed = append(failed, name+" printed no result")
		}
	}
	return failed, skipped
}

// section turns the output of one benchmark into Markdown. It keeps the tables. If there are none, it makes one from
// the result lines. Other printed lines become a block of text.
func section(output string) string {
	var parts, loose []string
	flush := func() {
		if text := strings.Trim(strings.Join(loose, "\n"), "\n"); text != "" {
			parts = append(parts, "```text\n"+text+"\n```")
		}
		loose = nil
	}
	var results [][]string
	tables := 0
	lines := strings.Split(output, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimRight(lines[i], " \t")
		switch m := resultLine.FindStringSubmatch(line); {
		case m != nil:
			results = append(results, append([]string{strings.TrimPrefix(m[2], "/")}, strings.Fields(m[5])...))
		case strings.HasPrefix(line, "**"):
			flush()
			parts = append(parts, line)
		case strings.HasPrefix(line, "|"):
			flush()
			tables++
			first := i
			for i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|") {
				i++
			}
			parts = append(parts, strings.Join(lines[first:i+1], "\n"))
		case isNoise(line):
		default:
			loose = append(loose, line)
		}
	}
	flush()
	if tables == 0 && len(results) > 0 {
		parts = append(parts, strings.TrimRight(resultTable(results), "\n"))
	}
	return strings.Join(parts, "\n\n")
}

// isNoise reports whether a line comes from the testing package, and not from the benchmark.
func isNoise(line string) bool {
	for _, prefix := range []string{"goos: ", "goarch: ", "pkg: ", "cpu: ", "=== RUN", "--- BENCH", "--- FAIL", "FAIL", "exit status"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return line == "PASS" || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "Benchmark") && !strings.Contains(line, " ")
}

// resultTable has a row for each result line and a column for each unit. Each result is a name, followed by pairs of a
// value and its unit.
func resultTable(results [][]string) string {
	head := []string{""}
	for _, r := range results {
		for i := 2; i < len(r); i += 2 {
			if !slices.Contains(head, r[i]) {
				head = append(head, r[i])
			}
		}
	}
	rows := [][]string{head}
	for _, r := range results {
		row := make([]string, len(head))
		row[0] = strings.ReplaceAll(r[0], "_", " ")
		for i := 2; i < len(r); i += 2 {
			row[slices.Index(head, r[i])] = rounded(r[i-1])
		}
		rows = append(rows, row)
	}
	return rounds.Markdown(rows)
}

// rounded shortens a figure to four digits before or after the point.
func rounded(text string) string {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v >= 1000 {
		return strings.TrimSuffix(text, ".0")
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// check returns the lines with which a benchmark says that a figure is not as expected.
func check(output string) string {
	var lines []string
	failing := false
	for line := range strings.Lines(output) {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "--- FAIL"):
			failing = true
		case failing && strings.HasPrefix(line, "    "):
			lines = append(lines, fmt.Sprintf("- %s", strings.TrimSpace(line)))
		default:
			failing = false
		}
	}
	return strings.Join(lines, "\n")
}
