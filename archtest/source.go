package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkClock wants time to be an argument in the pure packages, and nothing
// there to start a goroutine.
func checkClock(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		if _, ok := pure[p.Room()]; !ok || p.Helper() {
			continue
		}
		p.source(func(f *File) {
			for use := range uses(f, "time") {
				if clock[use.Sel.Name] {
					s.at(use.Pos(), "%s must not use time.%s: time is an argument in a pure package", p, use.Sel.Name)
				}
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					s.at(g.Pos(), "%s must not start a goroutine: it is a pure package", p)
				}
				return true
			})
		})
	}
	return s.said
}

// checkSleep wants tests to wait for what they wait for. In a bubble of synctest
// sleeping is what makes time pass, and takes none.
func checkSleep(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			bubbles := bubblesOf(f)
			for use := range uses(f, "time") {
				inside := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() < use.Pos() && use.Pos() < b.End() })
				if use.Sel.Name == "Sleep" && !inside {
					s.at(use.Pos(), "a test must not sleep: wait for a channel or a watch, or pass a clock")
				}
			}
		}
	}
	return s.said
}

// bubblesOf finds the calls of synctest.Test, with the functions they are given.
func bubblesOf(f *File) (out []ast.Node) {
	for test := range uses(f, "testing/synctest") {
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && call.Fun == test && test.Sel.Name == "Test" {
				out = append(out, call)
			}
			return true
		})
	}
	return out
}

// uses yields each name of an imported package that a file mentions.
func uses(f *File, importPath string) func(yield func(*ast.SelectorExpr) bool) {
	called := ""
	for _, im := range f.Imports {
		if im.Path == importPath {
			called = im.Name
		}
	}
	return func(yield func(*ast.SelectorExpr) bool) {
		more := called != ""
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && more {
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == called {
					more = yield(sel)
				}
			}
			return more
		})
	}
}

// checkDotImports keeps the other rules from being walked around.
func checkDotImports(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, im := range f.Imports {
				if im.Name == "." {
					s.at(im.Pos, "%s must be imported by its name: a dot import hides where a word comes from", im.Path)
				}
			}
		}
	}
	return s.said
}

// checkDocs wants every package to say what it is for.
func checkDocs(t *Tree) []string {
	s := sayer{tree: t}
	for _, p := range t.Packages {
		best := 0
		for _, f := range p.Files {
			if doc := f.AST.Doc.Text(); doc != "" {
				best = max(best, len(strings.Fields(doc)))
			}
		}
		// "Package name" is two words, and a purpose takes at least four.
		if best < 6 {
			s.at(p.Files[0].AST.Package, "package %s does not say what it is for: write a doc comment", p)
		}
	}
	return s.said
}

// checkSizes wants functions and files that fit a reader, and an honest table
// of exceptions.
func checkSizes(t *Tree) []string { return checkSizesBut(t, long) }

func checkSizesBut(t *Tree, exceptions map[string]string) []string {
	s := sayer{tree: t}
	needed := map[string]bool{}
	limit := func(key string, lines, most int, pos token.Pos, what string) {
		if lines <= most {
			return
		}
		needed[key] = true
		if exceptions[key] == "" {
			s.at(pos, "%s has %d lines, more than %d: split it", what, lines, most)
		}
	}
	mains := 0
	for _, p := range t.Packages {
		p.source(func(f *File) {
			if f.Generated {
				return
			}
			limit(f.Path, f.Lines, maxFile, f.AST.Package, "the file")
			for _, d := range f.AST.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok {
					name := funcName(fn)
					limit(f.Path+":"+name, t.lines(fn), maxFunc, fn.Pos(), name)
				}
			}
			if p.Path == "cmd/ares" {
				mains += f.Lines
				limit("cmd/ares", mains, maxMain, f.AST.Package, "cmd/ares")
			}
		})
	}
	for key := range exceptions {
		if !needed[key] {
			s.said = append(s.said, key+": no longer exceeds a limit: take it out of archtest/laws.go")
		}
	}
	return s.said
}

func (t *Tree) lines(n ast.Node) int {
	return t.Fset.Position(n.End()).Line - t.Fset.Position(n.Pos()).Line + 1
}

// funcName is Func, or Type.Method.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "." + fn.Name.Name
		default:
			return fn.Name.Name
		}
	}
}
