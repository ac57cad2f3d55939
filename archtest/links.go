package archtest

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

var (
	mdLink   = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	mdCode   = regexp.MustCompile("`[^`]*`")
	docName  = regexp.MustCompile(`\bdocs/[\w/-]+\.md\b(#[\w-]+)?`)
	docFiles = []string{".md", ".go", ".sh", ".yaml", ".yml", ".service", ".timer", ".proto"}
)

// The variable quotes lists pages that quote other documents as code. What such a
// quotation names need not exist here.
var quotes = map[string]bool{"docs/reference/spec.md": true}

// checkLinks requires that every relative link in Markdown leads to an existing
// file and heading. If a source file, a message or the Makefile names a
// documentation file, checkLinks requires that the file exists.
func checkLinks(t *Tree) (problems []string) {
	for _, file := range t.textFiles() {
		isMarkdown, inFence := path.Ext(file) == ".md", false
		for line, text := range t.textLines(file) {
			var bad []string
			said := text
			if quotes[file] {
				said = mdCode.ReplaceAllString(text, "")
			}
			for _, name := range docName.FindAllString(said, -1) {
				bad = append(bad, t.brokenTarget("", name))
			}
			if strings.HasPrefix(strings.TrimSpace(text), "```") {
				inFence = !inFence
			}
			if isMarkdown && !inFence {
				for _, found := range mdLink.FindAllStringSubmatch(mdCode.ReplaceAllString(text, ""), -1) {
					bad = append(bad, t.brokenTarget(file, found[1]))
				}
			}
			for _, b := range slices.Compact(bad) {
				if b != "" {
					problems = append(problems, fmt.Sprintf("%s:%d: %s", file, line, b))
				}
			}
		}
	}
	return problems
}

// brokenTarget returns why a link target in the file `from` is broken.
// brokenTarget returns "" for a target that exists and for an address outside the
// source tree.
func (t *Tree) brokenTarget(from, target string) string {
	if strings.Contains(target, ":") {
		return ""
	}
	name, anchor, _ := strings.Cut(target, "#")
	full := path.Join(path.Dir(from), name)
	if name == "" {
		full = from
	}
	if !t.exists(full) {
		return fmt.Sprintf("the link to %s is broken: %s does not exist", target, full)
	}
	if anchor != "" && path.Ext(full) == ".md" && !slices.Contains(t.anchors(full), anchor) {
		return fmt.Sprintf("the link to %s is broken: %s has no heading #%s", target, full, anchor)
	}
	return ""
}

// The method `anchors` returns the anchors of a Markdown file's headings, as
// GitHub generates them. Anchors are in lower case, with hyphens for spaces and
// without other punctuation.
func (t *Tree) anchors(file string) (anchors []string) {
	inFence := false
	for _, text := range t.textLines(file) {
		if strings.HasPrefix(strings.TrimSpace(text), "```") {
			inFence = !inFence
		}
		title, isHeading := strings.CutPrefix(strings.TrimLeft(text, "#"), " ")
		if inFence || !isHeading || !strings.HasPrefix(text, "#") {
			continue
		}
		anchors = append(anchors, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(title)))
	}
	return anchors
}

// textFiles returns the files that may refer to files in docs. textFiles leaves
// out hidden directories and testdata.
func (t *Tree) textFiles() (files []string) {
	// A directory that cannot be read has no files to check.
	_ = fs.WalkDir(t.fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return fs.SkipDir
		}
		base := path.Base(name)
		switch {
		case d.IsDir() && name != "." && (base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".")):
			return fs.SkipDir
		case !d.IsDir() && (base == "Makefile" || slices.Contains(docFiles, path.Ext(base))):
			files = append(files, name)
		}
		return nil
	})
	return files
}
