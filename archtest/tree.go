package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Tree is the parsed source of one module.
type Tree struct {
	Fset     *token.FileSet
	Packages []*Package // by path

	fsys    fs.FS
	checker *checker // nil until a rule needs types
}

// Package is one directory that contains Go files. A Package includes files of all build tags.
type Package struct {
	Path  string // from the root of the tree; "." is the root itself
	Files []*File
}

// File is one Go file.
type File struct {
	Path      string
	AST       *ast.File
	Lines     int
	Test      bool // its name ends in _test.go
	Generated bool
	Imports   []Import
}

// Import is one import of a file.
type Import struct {
	Path string
	Name string // name in the file; by default the last element of the path
	Pos  token.Pos
}

// Load parses every Go file below the root of fsys. Like the go command, Load
// leaves out nested modules, testdata and hidden directories.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet(), fsys: fsys}
	byPath := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && skipped(fsys, name):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		file, err := t.parse(fsys, name)
		if err != nil {
			return err
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &Package{Path: dir}
			t.Packages = append(t.Packages, byPath[dir])
		}
		byPath[dir].Files = append(byPath[dir].Files, file)
		return nil
	})
	slices.SortFunc(t.Packages, func(a, b *Package) int { return strings.Compare(a.Path, b.Path) })
	return t, err
}

// The function `skipped` reports whether Load leaves a directory out.
func skipped(fsys fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func (t *Tree) parse(fsys fs.FS, name string) (*File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, fmt.Errorf("read source: %w", err)
	}
	syntax, err := parser.ParseFile(t.Fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	f := &File{
		Path:      name,
		AST:       syntax,
		Lines:     bytes.Count(src, []byte("\n")),
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
	}
	for _, spec := range syntax.Imports {
		to, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import path: %w", name, err)
		}
		called := path.Base(to)
		if spec.Name != nil {
			called = spec.Name.Name
		}
		f.Imports = append(f.Imports, Import{Path: to, Name: called, Pos: spec.Pos()})
	}
	return f, nil
}

// String returns the name of the package in the form that problem reports use.
func (p *Package) String() string {
	if p.Path == "." {
		return path.Base(module)
	}
	return p.Path
}

// Component returns the component of a package: its top-level directory, or
// its directory in cmd.
func (p *Package) Component() string { return componentOf(p.Path) }

// ForTests reports whether only tests may import the package, as is the case for enginetest.
func (p *Package) ForTests() bool {
	return strings.HasSuffix(p.Path, "test") && !unlayered[p.Component()]
}

// The method `source` calls the function `visit` for each Go file that is not a
// test.
func (p *Package) source(visit func(*File)) {
	for _, f := range p.Files {
		if !f.Test {
			visit(f)
		}
	}
}

// componentOf returns the component of a directory.
func componentOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if parts[0] == "cmd" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// inModule returns the path of an import relative to the root of the source
// tree, and whether the import belongs to this module.
func inModule(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// isBelow reports whether the path p equals root or is below root.
func isBelow(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// The type `reporter` collects problems, each with its file and line.
type reporter struct {
	tree     *Tree
	problems []string
}

func (r *reporter) add(pos token.Pos, format string, args ...any) {
	p := r.tree.Fset.Position(pos)
	r.problems = append(r.problems, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...)))
}

// The method `exists` reports whether the source tree has a file or directory with this path.
func (t *Tree) exists(name string) bool {
	_, err := fs.Stat(t.fsys, path.Clean(name))
	return err == nil
}
