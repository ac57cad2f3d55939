package main

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A benchmark is one function `func BenchmarkX(b *testing.B)`.
type benchmark struct {
	dir  string // of its package, relative to the repository
	name string
}

func (b benchmark) String() string { return b.dir + " " + b.name }

// The sets of benchmarks that run together.
const (
	setBench    = "bench"    // everything that needs no traces
	setSim      = "sim"      // simulations; most of them need ARES_TRACES
	setFailover = "failover" // needs network namespaces and minutes of waiting
)

// This method returns the set to which the benchmark belongs.
func (b benchmark) set() string {
	switch {
	case strings.HasPrefix(b.dir, "test/bench/sim/"):
		return setSim
	case b.dir == "test/chaos/robustness":
		return setFailover
	}
	return setBench
}

// listBenchmarks returns every benchmark below the root directory, ordered by package and then as in the sources.
// It reads the sources instead of asking `go test -list`, so that it also finds the benchmarks of nested modules and
// of packages that do not compile.
func listBenchmarks(root string) (found []benchmark, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (name[0] == '.' || name[0] == '_' || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && isBenchmark(f) {
				found = append(found, benchmark{filepath.ToSlash(dir), f.Name.Name})
			}
		}
		return nil
	})
	slices.SortStableFunc(found, func(a, b benchmark) int { return cmp.Compare(a.dir, b.dir) })
	return found, err
}

// isBenchmark reports whether `go test` would take the function for a benchmark.
func isBenchmark(f *ast.FuncDecl) bool {
	after, named := strings.CutPrefix(f.Name.Name, "Benchmark")
	if !named || f.Recv != nil || (after != "" && after[0] >= 'a' && after[0] <= 'z') || len(f.Type.Params.List) != 1 {
		return false
	}
	pointer, ok := f.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	return ok && selector.Sel.Name == "B"
}

// hasOwnModule reports whether the package is the root of a module of its own, whose dependencies may not be there.
func hasOwnModule(root, dir string) bool {
	_, err := os.Stat(filepath.Join(root, dir, "go.mod"))
	return dir != "." && err == nil
}
