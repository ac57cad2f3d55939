package archtest

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkClock requires that pure packages take the time as an argument and start
// no goroutines.
func checkClock(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		if _, ok := pureImports(p); !ok || p.ForTests() {
			continue
		}
		p.source(func(f *File) {
			for use := range uses(f, "time") {
				if clockReaders[use.Sel.Name] {
					r.add(use.Pos(), "%s must not use time.%s: time is an argument in a pure package", p, use.Sel.Name)
				}
			}
			ast.Inspect(f.AST, func(n ast.Node) bool {
				if g, ok := n.(*ast.GoStmt); ok {
					r.add(g.Pos(), "%s must not start a goroutine: it is a pure package", p)
				}
				return true
			})
		})
	}
	return r.problems
}

// checkSleep requires that tests wait for an event and do not sleep. Inside a
// testing/synctest bubble, sleeping is allowed because it advances the bubble's
// clock and takes no real time.
func checkSleep(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			if !f.Test {
				continue
			}
			bubbles := bubblesOf(f)
			for use := range uses(f, "time") {
				inside := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() < use.Pos() && use.Pos() < b.End() })
				if use.Sel.Name == "Sleep" && !inside {
					r.add(use.Pos(), "a test must not sleep: wait for a channel or a watch, or pass a clock")
				}
			}
		}
	}
	return r.problems
}

// bubblesOf returns a file's calls of synctest.Test. A call's source range
// includes the function that synctest.Test runs.
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

// The function `uses` yields each place in a file that uses a name from an imported package.
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

// checkDotImports forbids dot imports, because the other rules find uses of a
// package by its name.
func checkDotImports(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		for _, f := range p.Files {
			for _, im := range f.Imports {
				if im.Name == "." {
					r.add(im.Pos, "%s must be imported by name: a dot import hides where a name comes from", im.Path)
				}
			}
		}
	}
	return r.problems
}

// checkDocs requires that every package has a comment that states its purpose.
func checkDocs(t *Tree) []string {
	r := reporter{tree: t}
	for _, p := range t.Packages {
		best := 0
		for _, f := range p.Files {
			if doc := f.AST.Doc.Text(); doc != "" {
				best = max(best, len(strings.Fields(doc)))
			}
		}
		// "Package name" has two words, and a purpose needs at least four more.
		if best < 6 {
			r.add(p.Files[0].AST.Package, "package %s has no comment that states its purpose: write one", p)
		}
	}
	return r.problems
}

// checkSizes limits the number of lines in functions and files.
func checkSizes(t *Tree) []string { return checkSizesBut(t, sizeExceptions) }

// checkSizesBut is like checkSizes, but takes the table of exceptions as an
// argument. checkSizesBut also reports exceptions that are no longer needed.
func checkSizesBut(t *Tree, exceptions map[string]string) []string {
	r := reporter{tree: t}
	needed := map[string]bool{}
	limit := func(key string, lines, limit int, pos token.Pos, name string) {
		if lines <= limit {
			return
		}
		needed[key] = true
		if exceptions[key] == "" {
			r.add(pos, "%s has %d lines, more than %d: split it", name, lines, limit)
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
			r.problems = append(r.problems, key+": no longer exceeds a limit: remove its exception from archtest/tables.go")
		}
	}
	return r.problems
}

// The method `lines` returns how many lines a node of the syntax tree has.
func (t *Tree) lines(n ast.Node) int {
	return t.Fset.Position(n.End()).Line - t.Fset.Position(n.Pos()).Line + 1
}

// funcName returns a function's name as "Func" or "Type.Method".
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
