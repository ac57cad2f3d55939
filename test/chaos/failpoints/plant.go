package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/gofail/code"

	"github.com/ares-scheduler/ares/test/overlay"
)

// The variable `mark` holds the text with which the comment of a failpoint
// begins.
var mark = []byte("// gofail: var ")

// perOp is a suffix of failpoint names. A failpoint with this suffix expands to
// several failpoints. There is one for each value of the parameter `op`, and
// one named Any for all values.
const perOp = "_op"

// The constant `packages` is the import path prefix of the packages that
// implement failpoints.
const packages = "github.com/ares-scheduler/ares/test/chaos/failpoints/"

// supervisorDir is the package whose failpoints do not use gofail's runtime.
// If the supervisor used gofail's runtime, net/http would be linked into a
// program that runs once for each job.
const supervisorDir = "cmd/ares-supervisor"

// The function `plant` turns every failpoint comment into code and returns the
// failpoints' names.
func plant(o *overlay.Overlay) ([]string, error) {
	var names []string
	err := filepath.WalkDir(o.Root, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && path != o.Root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "test"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(src, mark) {
			return err
		}
		planted, err := plantFile(o, path, src)
		names = append(names, planted...)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no failpoint in %s: is it the root of the repository?", o.Root)
	}
	slices.Sort(names)
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			return nil, fmt.Errorf("two failpoints are called %s", names[i])
		}
	}
	return names, nil
}

func plantFile(o *overlay.Overlay, path string, src []byte) ([]string, error) {
	var changed bytes.Buffer
	points, err := code.ToFailpoints(&changed, bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), path, src, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	pkg, construct := "point", "point.New"
	if filepath.Dir(path) == filepath.Join(o.Root, supervisorDir) {
		pkg, construct = "envpoint", "envpoint.Point"
	}
	binding := fmt.Sprintf("package %s\n\nimport %q\n\n", file.Name.Name, packages+pkg)
	text := changed.String()
	ops := opsOf(filepath.Dir(path))
	var names []string
	for _, p := range points {
		prefix, many := strings.CutSuffix(p.Name(), perOp)
		if !many {
			binding += fmt.Sprintf("var %s = %s(%q)\n", p.Runtime(), construct, p.Name())
			names = append(names, p.Name())
			continue
		}
		if len(ops) == 0 {
			return nil, fmt.Errorf("%s: there is no operation for %s", path, p.Name())
		}
		text = strings.ReplaceAll(text, p.Runtime()+".Acquire()", p.Runtime()+".Acquire(op)")
		binding += fmt.Sprintf("var %s = point.ByOp{\n\t\"\": point.New(%q),\n", p.Runtime(), prefix+"Any")
		names = append(names, prefix+"Any")
		for _, op := range ops {
			binding += fmt.Sprintf("\t%q: point.New(%q),\n", op, prefix+camel(op))
			names = append(names, prefix+camel(op))
		}
		binding += "}\n"
	}
	if err := o.Put(strings.TrimSuffix(path, ".go")+".fail.go", []byte(binding)); err != nil {
		return nil, err
	}
	return names, o.Put(path, []byte(text))
}

// opsOf returns the operations of a package, which are the names of its
// transactions.
func opsOf(dir string) []string {
	set := token.NewFileSet()
	files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is valid
	var ops []string
	for _, name := range files {
		file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil || strings.HasSuffix(name, "_test.go") {
			continue // the compiler will report the error
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "txn" && method.Sel.Name != "update" {
				return true
			}
			if op, ok := call.Args[1].(*ast.BasicLit); ok && op.Kind == token.STRING {
				if name, err := strconv.Unquote(op.Value); err == nil && !slices.Contains(ops, name) {
					ops = append(ops, name)
				}
			}
			return true
		})
	}
	slices.Sort(ops)
	return ops
}

// `camel` converts the name of an operation, such as "claim seat", to
// ClaimSeat.
func camel(op string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(op) {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}
