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

	checker *checker // nil until a rule needs types
}

// Package is one directory with Go files, whatever their build tags.
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
	Name string // as the file calls it; a guess from the path where not given
	Pos  token.Pos
}

// Load parses every Go file below the root of fsys. Other modules, testdata and
// hidden directories are left out, as the go command does.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{Fset: token.NewFileSet()}
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

// String is how a sentence names the package.
func (p *Package) String() string {
	if p.Path == "." {
		return path.Base(module)
	}
	return p.Path
}

// Room is the part of the tree that a package belongs to.
func (p *Package) Room() string { return room(p.Path) }

// Helper reports whether the package exists for tests, as enginetest does.
func (p *Package) Helper() bool { return strings.HasSuffix(p.Path, "test") && !beside[p.Room()] }

// source calls visit for each file that is not a test.
func (p *Package) source(visit func(*File)) {
	for _, f := range p.Files {
		if !f.Test {
			visit(f)
		}
	}
}

func room(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	if parts[0] == "cmd" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

// local is the path from the root of the tree, where an import is our own.
func local(importPath string) (string, bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// under reports whether p is path or below it.
func under(p, root string) bool { return p == root || strings.HasPrefix(p, root+"/") }

// sayer collects complaints, each with its place.
type sayer struct {
	tree *Tree
	said []string
}

func (s *sayer) at(pos token.Pos, format string, args ...any) {
	p := s.tree.Fset.Position(pos)
	s.said = append(s.said, fmt.Sprintf("%s:%d: %s", p.Filename, p.Line, fmt.Sprintf(format, args...)))
}
