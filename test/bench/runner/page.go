package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// The page has a block for each benchmark. The text between the markers is replaced by what the benchmark prints.
// Between the name and the end of the first marker, there may be arguments for the test binary.
const (
	blockEnd     = "<!-- end of results -->"
	moreHeading  = "## Other results"
	notYet       = "*Not measured yet with this version.*"
	machineBlock = "<!-- machine -->"
)

var blockStart = regexp.MustCompile(`<!-- results: (\S+) (Benchmark\S+)((?: -\S+)*) -->`)

// A block is the place of a benchmark's results on the page.
type block struct {
	benchmark
	args []string
}

// A page is docs/reference/performance.md.
type page struct{ path, text string }

func readPage(path string) (*page, error) {
	text, err := os.ReadFile(path)
	return &page{path, string(text)}, err
}

// This method returns the blocks in their order on the page. Every block has an end.
func (p *page) blocks() (out []block, err error) {
	for _, at := range blockStart.FindAllStringSubmatchIndex(p.text, -1) {
		m := func(i int) string { return p.text[at[2*i]:at[2*i+1]] }
		b := block{benchmark{m(1), m(2)}, strings.Fields(m(3))}
		if rest := p.text[at[1]:]; !hasEnd(rest) {
			return nil, fmt.Errorf("%s: the results of %s have no end: add %q", p.path, b, blockEnd)
		}
		if slices.ContainsFunc(out, func(o block) bool { return o.benchmark == b.benchmark }) {
			return nil, fmt.Errorf("%s: there are two blocks for %s", p.path, b)
		}
		out = append(out, b)
	}
	return out, nil
}

// hasEnd reports whether a block ends before the next one starts.
func hasEnd(rest string) bool {
	end := strings.Index(rest, blockEnd)
	next := blockStart.FindStringIndex(rest)
	return end >= 0 && (next == nil || end < next[0])
}

// The method `add` appends an empty block for a benchmark that has none.
func (p *page) add(b benchmark) block {
	if !strings.Contains(p.text, moreHeading) {
		p.text += "\n" + moreHeading + "\n"
	}
	p.text += fmt.Sprintf("\n### %s\n\n<!-- results: %s -->\n\n%s\n\n%s\n", b, b, notYet, blockEnd)
	return block{benchmark: b}
}

// The method `set` replaces the results of a benchmark.
func (p *page) set(b benchmark, results string) error {
	for _, at := range blockStart.FindAllStringSubmatchIndex(p.text, -1) {
		if p.text[at[2]:at[3]] != b.dir || p.text[at[4]:at[5]] != b.name {
			continue
		}
		rest := p.text[at[1]:]
		end := strings.Index(rest, blockEnd)
		p.text = p.text[:at[1]] + "\n\n" + strings.Trim(results, "\n") + "\n\n" + rest[end:]
		return p.write()
	}
	return fmt.Errorf("%s has no block for %s", p.path, b)
}

// The method `setMachine` replaces the line that describes the machine.
func (p *page) setMachine(text string) error {
	before, rest, found := strings.Cut(p.text, machineBlock)
	if !found {
		return fmt.Errorf("%s has no %q", p.path, machineBlock)
	}
	_, after, found := strings.Cut(rest, blockEnd)
	if !found {
		return fmt.Errorf("%s: %q has no end", p.path, machineBlock)
	}
	p.text = before + machineBlock + "\n\n" + text + "\n\n" + blockEnd + after
	return p.write()
}

// The method `write` writes the page whole or not at all, because a run of hours may be interrupted at any time.
func (p *page) write() error {
	if err := os.WriteFile(p.path+".new", []byte(p.text), 0o644); err != nil {
		return err
	}
	return os.Rename(p.path+".new", p.path)
}
