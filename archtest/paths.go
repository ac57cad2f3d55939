package archtest

import (
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The constant `architecture` is the documentation file that lists every package. Each line of the
// list has a layer, the path of a package, and its purpose. The layer is "-" for a component
// outside the layers. The list names the root package by the last element of the module path.
const architecture = "docs/design/architecture.md"

var mapLine = regexp.MustCompile(`^(\d|-) +(\S+)  +\S`)

// checkMap requires that the list in the architecture file names every package
// with its layer, and names no package that does not exist. If the architecture
// file is missing, nothing is checked.
func checkMap(t *Tree) (problems []string) {
	if !t.exists(architecture) {
		return nil
	}
	packages := map[string]*Package{}
	for _, p := range t.Packages {
		packages[p.String()] = p
	}
	named := map[string]bool{}
	for line, text := range t.textLines(architecture) {
		found := mapLine.FindStringSubmatch(text)
		if found == nil {
			continue
		}
		place := fmt.Sprintf("%s:%d: ", architecture, line)
		p := packages[found[2]]
		if p == nil {
			problems = append(problems, place+found[2]+" is not a package of the tree: remove it from the map")
			continue
		}
		if named[found[2]] {
			problems = append(problems, place+found[2]+" is in the map twice")
		}
		named[found[2]] = true
		if want := layerText(p); found[1] != want {
			problems = append(problems, fmt.Sprintf("%s%s is in layer %s, not %s", place, found[2], want, found[1]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if !named[name] {
			problems = append(problems, fmt.Sprintf("%s: the map does not name %s: add the line \"%s %s  PURPOSE\"",
				architecture, name, layerText(packages[name]), name))
		}
	}
	return problems
}

// layerText returns a package's layer in the form that the architecture file uses.
func layerText(p *Package) string {
	if layer, ok := layerOf(p.Component()); ok {
		return strconv.Itoa(layer)
	}
	return "-"
}

// pathLists names the files that refer to directories of the source tree, and
// the patterns that find these references. The first capture group of a pattern
// matches one path, or several paths separated by "|".
var pathLists = []struct {
	file     string
	patterns []*regexp.Regexp
}{
	{"Makefile", []*regexp.Regexp{
		regexp.MustCompile(`[^l ] \./([a-z][\w/-]*)`),        // ./cmd/ares; after "tool", the path is in another module
		regexp.MustCompile(`\(([a-z][\w/|-]*)\)\(/`),         // a list in a pattern of import paths
		regexp.MustCompile(`\b(test/[\w/]+|tools/[a-z]+)\b`), // programs and modules
	}},
	{".golangci.yml", []*regexp.Regexp{
		regexp.MustCompile(`\$\{base-path\}/([\w/-]+)/`),
		regexp.MustCompile(`\(([a-z][\w/|-]*)\)/`),
	}},
	{architecture, []*regexp.Regexp{codePath}},
	{"CONTRIBUTING.md", []*regexp.Regexp{codePath}},
}

// codePath matches a path with at least two elements in a Markdown code span.
var codePath = regexp.MustCompile("`([a-z][\\w.-]*(?:/[\\w.-]+)+)`")

// checkPaths requires that the files in pathLists name only paths that exist.
func checkPaths(t *Tree) (problems []string) {
	for _, list := range pathLists {
		if !t.exists(list.file) {
			continue
		}
		for line, text := range t.textLines(list.file) {
			for _, pattern := range list.patterns {
				for _, found := range pattern.FindAllStringSubmatch(text, -1) {
					for name := range strings.SplitSeq(found[1], "|") {
						if !t.known(list.file, name) {
							problems = append(problems, fmt.Sprintf("%s:%d: %s does not exist: remove it", list.file, line, name))
						}
					}
				}
			}
		}
	}
	return problems
}

// The method `known` reports whether a path in one of the checked files exists in the source tree.
// In Markdown, a path counts only if it begins with a directory of the source tree. Other paths
// are store keys or HTTP routes.
func (t *Tree) known(file, name string) bool {
	if strings.HasSuffix(file, ".md") {
		first, _, _ := strings.Cut(name, "/")
		if !t.exists(first) {
			return true
		}
	}
	return t.exists(name)
}

// textLines yields the lines of a text file with their numbers, starting at 1.
func (t *Tree) textLines(name string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		text, err := fs.ReadFile(t.fsys, name)
		if err != nil {
			return // the file exists, so it can be read
		}
		line := 0
		for s := range strings.SplitSeq(string(text), "\n") {
			line++
			if !yield(line, s) {
				return
			}
		}
	}
}

// missingEntries returns a problem for each package or component that tables.go
// names but the source tree does not contain.
func missingEntries(t *Tree) (problems []string) {
	var names []string
	names = slices.AppendSeq(names, maps.Keys(layers))
	names = slices.AppendSeq(names, maps.Keys(unlayered))
	names = slices.AppendSeq(names, maps.Keys(unranked))
	names = slices.AppendSeq(names, maps.Keys(optional))
	names = slices.AppendSeq(names, maps.Keys(pure))
	names = slices.AppendSeq(names, maps.Keys(mapsOrdered))
	names = slices.AppendSeq(names, maps.Keys(supervisor))
	names = slices.AppendSeq(names, maps.Keys(shapeLimited))
	for _, list := range ranks {
		names = append(names, list...)
	}
	for _, rule := range forbidden {
		names = append(append(names, rule.from...), rule.to...)
	}
	for _, rule := range soleImporters {
		names = append(names, rule.component)
		if dir, ok := inModule(rule.path); ok {
			names = append(names, dir)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if !slices.ContainsFunc(t.Packages, func(p *Package) bool {
			return name == "" || p.Path == name || isBelow(p.Path, strings.TrimSuffix(name, "/"))
		}) {
			problems = append(problems, fmt.Sprintf("archtest/tables.go: %s does not exist: remove it", name))
		}
	}
	return problems
}
